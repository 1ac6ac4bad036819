import { expect, test } from 'vitest';
import { nextSteps } from '../../src/local/local-system.js';
import { runInProcess } from '../cli/run-in-process.js';

test('each command that npm start prints has only options that the command line knows', async () => {
  const commands = nextSteps({ address: '127.0.0.1:7233', httpUrl: 'http://x' }, 'demo').flatMap(
    (line) => line.split('npx agent-jobs ')[1] ?? [],
  );
  expect(commands).toHaveLength(2);
  for (const command of commands) {
    const { stdout } = await runInProcess([command.split(' ')[0]!, '--help']);
    const unknown = (command.match(/--[a-z-]+/g) ?? []).filter((option) => !stdout.includes(option));
    expect([command, unknown]).toEqual([command, []]);
  }
});
