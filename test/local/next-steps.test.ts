import { expect, test } from 'vitest';
import { nextSteps } from '../../src/local/local-system.js';
import { runInProcess } from '../cli/run-in-process.js';

const SYSTEM = { address: '127.0.0.1:7233', taskQueue: 'other', httpUrl: 'http://x', snapshotsUrl: 'file:///s' };
const OPTIONS = { workflowId: 'agent-job/demo/a', unset: [], hasProfile: false };

test('each command that npm start prints has only options that the command line knows', async () => {
  const commands = nextSteps(SYSTEM as Parameters<typeof nextSteps>[0], OPTIONS).flatMap(
    (line) => line.split('npx agent-jobs ')[1] ?? [],
  );
  expect(commands.length).toBeGreaterThan(4);
  for (const command of commands) {
    const words = /^[a-z-]+(?: run)?/.exec(command)![0].split(' ');
    const { stdout } = await runInProcess([...words, '--help']);
    const unknown = (command.match(/--[a-z-]+/g) ?? []).filter((option) => !stdout.includes(option));
    expect([command, unknown]).toEqual([command, []]);
  }
});
