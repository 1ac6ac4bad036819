/** The command line becomes the worker; that it becomes the whole local system, too: test/local/npm-start.test.ts. */
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { distFolder, startProgram, type WorkerProcess } from '../support/worker-process.js';
import { useSystem } from './system.js';

const COMMAND_LINE = join(distFolder, 'cli/main.js');

const system = useSystem({ script: { activeMs: 100 } });
const programs: WorkerProcess[] = [];
afterEach(async () => {
  for (const program of programs.splice(0)) await program.kill();
});

function run(args: string[], env: Record<string, string> = {}): WorkerProcess {
  const program = startProgram([COMMAND_LINE, ...args], { PATH: process.env['PATH'] ?? '', ...env });
  programs.push(program);
  return program;
}

test('agent-jobs worker does jobs, and ends on SIGTERM', async () => {
  const { sandbox, server } = system;
  const worker = run(['worker'], {
    ...system.clientEnv(),
    UPSTREAM_BASE_URL: sandbox.url,
    ADMIN_API_KEY: sandbox.apiKey,
  });
  await worker.wrote('The worker runs');
  const jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
  const job = await jobs.start({ key: `program-${Date.now()}`, projectId: 'acme', prompt: 'Do it' });
  expect(await job.result()).toMatchObject({ outcome: 'completed' });
  worker.signal('SIGTERM');
  expect(await worker.ended).toBe(0);
});

test.each([
  [['worker', '--address', 'other:7233'], "--address can't be given here: the worker reads TEMPORAL_ADDRESS"],
  [['dev', '--task-queue', 'q'], '--task-queue can\'t be given here: the servers of "agent-jobs dev" are its own'],
])('agent-jobs %j says that the option would be ignored', async (args, words) => {
  const program = run(args);
  expect(await program.ended).toBe(2);
  expect(program.output()).toContain(words);
});
