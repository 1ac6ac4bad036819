import { execFile } from 'node:child_process';
import { chmod, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { cliProgram } from './run-cli.js';
import { runInProcess } from './run-in-process.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MOST_MS = 180_000;

/** A folder in which `agent-jobs` is the program of this build. */
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-test-'));
  const program = `#!/bin/sh\ncd '${ROOT}' && exec '${process.execPath}' '${cliProgram}' "$@"\n`;
  await writeFile(join(folder, 'agent-jobs'), program);
  await chmod(join(folder, 'agent-jobs'), 0o755);
});

async function complete(...words: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await runInProcess(['__complete', '--', ...words]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout.split('\n').filter((line) => line !== '');
}

test(
  'commands, their own commands, options and the choices of an option are completed',
  async () => {
    expect(await complete('res')).toEqual(['resolve']);
    expect(await complete('')).toEqual(expect.arrayContaining(['doctor', 'open', 'start', 'wait', 'watch']));
    expect(await complete('')).not.toContain('__complete');
    expect(await complete('export', 'li')).toEqual(['list']);
    expect(await complete('--address', 'x:1', 'schedule', 'li')).toEqual(['list']);
    expect(await complete('wait', '--ba')).toEqual(['--batch']);
    expect(await complete('wait', '--addr')).toEqual(['--address']);
    expect(await complete('start', '--on-unknown-outcome', '')).toEqual(['ask', 'fail', 'retry']);
    expect(await complete('start', '--prompt-file', '')).toEqual([]);
    expect(await complete('follow-up', '--', '--b')).toEqual([]);
  },
  2 * MOST_MS,
);

test(
  'bash completes with the script that is printed',
  async () => {
    const type = (line: string) => `
      COMP_WORDS=(${line}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _agent_jobs; echo "\${COMPREPLY[*]}"`;
    const script = `
      source <(agent-jobs completion bash)
      complete -p agent-jobs
      ${type('agent-jobs wai')}
      ${type('agent-jobs wait --js')}
      ${type(`agent-jobs start --on-unknown-outcome ''`)}
      ${type(`agent-jobs open '$(touch x)'`)}`;
    const env = { PATH: `${folder}:${process.env['PATH']}`, HOME: tmpdir() };
    const { stdout, stderr } = await promisify(execFile)('bash', ['--norc', '-c', script], { env, timeout: MOST_MS });
    expect(stdout.split('\n').slice(0, -1)).toEqual([
      'complete -o default -F _agent_jobs agent-jobs',
      'wait',
      '--json',
      'ask fail retry',
      '',
    ]);
    expect(stderr).toBe('');
  },
  MOST_MS,
);

test.each(['zsh', 'fish'])('the script of %s calls the program', async (shell) => {
  const { stdout, code } = await runInProcess(['completion', shell]);
  expect(stdout).toContain('agent-jobs __complete -- ');
  expect(code).toBe(0);
});

test('another shell is told which there are', async () => {
  const { stderr, code } = await runInProcess(['completion', 'tcsh']);
  expect(stderr).toContain('Allowed choices are bash, zsh, fish');
  expect(code).toBe(2);
});
