/** What a command prints while it waits for a job, or for a batch. */
import { randomUUID } from 'node:crypto';
import { afterEach, expect, test, vi } from 'vitest';
import type { Session } from '../../src/cli/session.js';
import { waitForBatch } from '../../src/cli/wait.js';
import type { JobScript } from '../../src/sandbox/jobs.js';
import { AgentJobs, TemporalUnavailableError } from '../../src/starter.js';
import { QUICK, startJobServer } from '../client/job-server.js';
import { envOf, jsonLines, runCli, type CliRun } from './run-cli.js';
import { runInProcess } from './run-in-process.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startJobServer);

function start(prompt: string, ...more: string[]): Promise<CliRun> {
  const quick = ['--poll-min', '1s', '--poll-max', '1s', '--settle', '0'];
  return runInProcess(['start', '--project', server.projectId, ...quick, ...more, prompt], { env: envOf(server) });
}

/** A job whose pull request comes before its end. */
async function scripted(script: JobScript): Promise<string> {
  const prompt = `prompt ${randomUUID()}`;
  await server.sandbox.addScript({ promptIncludes: prompt, script });
  return prompt;
}

test('a person who waits sees phases and the pull request as it opens, on stderr, and stdout stays JSON', async () => {
  const prompt = await scripted({
    steps: [
      { status: 'active' },
      { status: 'active', prLink: true, afterMs: 3_000 },
      { status: 'completed', prLink: true, afterMs: 8_000 },
    ],
  });
  const { code, stdout, stderr } = await start(prompt, '--wait', '--json');
  expect(stderr).toMatch(/^agent-jobs: watching, active, job /m);
  expect(stderr.match(/^agent-jobs: pull request: https:.*$/gm)).toHaveLength(1);
  expect(stderr).not.toContain('\u001B');
  expect(jsonLines(stdout)).toMatchObject([{ outcome: 'completed' }]);
  expect(code).toBe(0);
});

test('a job that needs a person is shown with the exact commands, and the last one ends it', async () => {
  const prompt = `prompt ${randomUUID()}`;
  await server.sandbox.addFault({ kind: 'reset', effect: 'after', promptIncludes: prompt });
  const key = randomUUID();
  const job = server.jobs.handle({ projectId: server.projectId, key });
  let abandon: string[] | undefined;
  const env = envOf(server);
  // As a person would: the last command that is shown is called.
  const onStderr = (soFar: string): void => {
    const [, command] = /To give it up +npx agent-jobs (.*)\n/.exec(soFar) ?? [];
    if (abandon !== undefined || command === undefined) return;
    abandon = command.split(' ');
    void runCli(abandon, { env });
  };
  const args = ['start', '--project', server.projectId, '--key', key, '--settle', '0', '--wait', prompt];
  const { code, stderr } = await runCli(args, { env, onStderr });
  expect(stderr).toContain('agent-jobs: still waiting: the job waits for a person');
  expect(stderr).toMatch(/If it is there +npx agent-jobs resolve \S+ adopt --job-id ID_OF_THE_JOB --since /);
  expect(abandon).toEqual(['resolve', job.workflowId, 'abandon', '--since', expect.any(String)]);
  expect(code).toBe(6);
});

test('a job that no worker takes is shown with the queue, and Ctrl-C with the command that waits again', async () => {
  const jobs = new AgentJobs({ client: server.client, taskQueue: `nobody-${randomUUID()}` });
  const job = await jobs.start({ key: randomUUID(), projectId: server.projectId, prompt: 'hello', ...QUICK });
  const interruptAt = /no worker of/;
  const { code, stdout, stderr } = await runCli(['wait', job.workflowId], { env: envOf(server), interruptAt });
  expect(stderr.match(/still waiting: no worker of the task queue "nobody-.*agent-jobs doctor/g)).toHaveLength(1);
  expect(stderr).toContain(`agent-jobs: to wait again: npx agent-jobs wait ${job.workflowId}\n`);
  expect(stderr).toContain('interrupted; what was started goes on');
  expect(stdout).toBe('');
  expect(code).toBe(130);
  await server.client.workflow.getHandle(job.workflowId).terminate();
});

afterEach(() => void vi.restoreAllMocks());

/** What each listing shows: nothing yet, an outage, or jobs by their status. */
type Listing = 'nothing' | 'outage' | Record<string, string>;

/** Jobs whose list shows this, one after the other; the last one lasts. No real server lags or fails on request. */
function sessionOf(listings: Listing[]): { session: Session; asked: () => number } {
  let asked = 0;
  async function* list() {
    const listing = listings[Math.min(asked++, listings.length - 1)] ?? 'nothing';
    if (listing === 'outage') throw new TemporalUnavailableError('away');
    if (listing === 'nothing') return;
    for (const [workflowId, workflowStatus] of Object.entries(listing)) {
      const outcome = workflowStatus === 'RUNNING' ? null : 'completed';
      yield await Promise.resolve({ workflowId, runId: 'r', workflowStatus, outcome, prLink: null });
    }
  }
  const session = { jobs: { list }, globals: {}, signal: new AbortController().signal };
  return { session: session as unknown as Session, asked: () => asked };
}

function mute() {
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  return vi.spyOn(process.stdout, 'write').mockReturnValue(true);
}

test('a batch is waited for over an outage, and where its jobs are listed late', async () => {
  const printed = mute();
  const done = { a: 'COMPLETED' };
  const { session, asked } = sessionOf(['nothing', 'outage', { a: 'RUNNING' }, done, { ...done, b: 'COMPLETED' }]);
  await waitForBatch(session, 'batch', false);
  expect(printed.mock.calls.map(([line]) => line)).toEqual(['a  completed\n', 'b  completed\n']);
  expect(asked()).toBe(5);
});

test('a batch without a job in four lists is an error', async () => {
  mute();
  const { session, asked } = sessionOf(['nothing']);
  await expect(waitForBatch(session, 'batch', false)).rejects.toThrow('no job has the batch "batch"');
  expect(asked()).toBe(4);
});
