import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { type Allowed, allowedAfter, type RunEnd } from '../../src/agent-job/closed-run.js';
import { agentJobWorkflowId } from '../../src/contract.js';
import { KeyConflictError, NoJobError, type JobHandle } from '../../src/starter.js';
import { gathered, QUICK, startJobServer } from './job-server.js';
import { useForFile } from '../support/use.js';

/** In the order of the page. */
const RUN_ENDS: readonly RunEnd[] = [
  ...(['result', 'InvalidInput', 'CreateRejected', 'UnknownOutcome', 'OtherFailure'] as const),
  ...(['Canceled', 'Terminated', 'TimedOut'] as const),
];

const server = useForFile(startJobServer);
beforeAll(async () => {
  await server.sandbox.addScript({ promptIncludes: 'fails', script: { steps: [{ status: 'failed' }] } });
  await server.sandbox.addScript({ promptIncludes: 'never ends', script: { activeMs: 3_600_000 } });
});

const begin = (prompt: string, options: object = {}): Promise<JobHandle> =>
  server.jobs.start({ projectId: server.projectId, key: randomUUID(), prompt, ...QUICK, ...options });
const raw = ({ workflowId }: JobHandle) => server.client.workflow.getHandle(workflowId);
const watching = async (job: JobHandle): Promise<JobHandle> => {
  await expect.poll(async () => (await job.state()).phase).toBe('watching');
  return job;
};

/** Started by another client than ours. */
async function startPlainly(input: object, options: object = {}): Promise<JobHandle> {
  const { client, taskQueue, projectId, jobs } = server;
  const workflowId = agentJobWorkflowId(projectId, randomUUID());
  const args = [{ projectId, ...input }];
  await client.workflow.start('agentJob', { workflowId, taskQueue, args, ...options });
  return jobs.handle(workflowId);
}

const ENDS: [outcome: string, start: () => Promise<JobHandle>][] = [
  ['completed', () => begin('completes')],
  ['failed', () => begin('fails')],
  ['timedOut', () => begin('never ends', { deadline: 0 })],
  [
    'CreateRejected',
    async () => {
      const projectId = `rejected-${randomUUID()}`;
      await server.sandbox.addFault({ kind: 'status', status: 422, operation: 'create', projectId });
      return begin('x', { projectId });
    },
  ],
  [
    'UnknownOutcome',
    async () => {
      const prompt = randomUUID();
      await server.sandbox.addFault({ kind: 'reset', effect: 'after', promptIncludes: prompt });
      return begin(prompt, { onUnknownOutcome: 'fail' });
    },
  ],
  ['InvalidInput', () => startPlainly({ prompt: 5 })],
  [
    'Canceled',
    async () => {
      const job = await watching(await begin('never ends'));
      await job.cancel();
      return job;
    },
  ],
  [
    'Terminated',
    async () => {
      const job = await watching(await begin('never ends'));
      await raw(job).terminate();
      return job;
    },
  ],
  // By a time limit that its client gave, against the advice.
  ['TimedOut', () => startPlainly({ prompt: 'never ends', ...QUICK }, { workflowRunTimeout: '8 seconds' })],
];

test.for(ENDS)(
  '%s: state, list and filter tell the end, and a start and a follow-up do what it allows',
  async ([outcome, start]) => {
    // Others fill the server meanwhile.
    const startedAfter = new Date(Date.now() - 5_000);
    const job = await start();
    await raw(job)
      .result()
      .catch(() => {});
    expect(await job.state()).toMatchObject({ outcome, waiting: null });
    const listed = async (filter: object) => {
      const rows = await gathered(server.jobs.list({ startedAfter, ...filter }));
      return rows.filter(({ workflowId }) => workflowId === job.workflowId);
    };
    await expect.poll(async () => (await listed({ outcome }))[0]?.outcome).toBe(outcome);
    expect(await listed({})).toMatchObject([{ outcome }]);
    expect(await listed({ outcome: 'lost' })).toEqual([]);
    await expectAllowed(job, allowedAfter(RUN_ENDS.find((end) => end === outcome) ?? 'result', await jobIdOf(job)));
  },
);

async function jobIdOf(job: JobHandle): Promise<string | null> {
  return (await job.state()).jobId;
}

async function expectAllowed(job: JobHandle, allowed: Allowed): Promise<void> {
  const another = { projectId: job.projectId!, key: job.key!, prompt: 'Another', ...QUICK };
  const asValue = (error: unknown) => error;
  const followUp = await job.followUp('And the tests', { id: 'after' }).catch(asValue);
  const start = await server.jobs.start(another).catch(asValue);
  const errors = [expect.any(NoJobError), expect.any(KeyConflictError)];
  const isNew = expect.objectContaining({ isNew: true });
  const expected = {
    'start again': [errors[0], isNew],
    'go on': [{ id: 'after', checked: true }, errors[1]],
    nothing: errors,
  };
  expect([followUp, start]).toEqual(expected[allowed]);
}

test('the contract’s page has the table of what a closed run allows', () => {
  const page = readFileSync(new URL('../../docs/contract.md', import.meta.url), 'utf8');
  const rows = [...page.matchAll(/^\| (.+?) +\| (joins|starts again) +\| (goes on|is declined) +\|$/gm)];
  const told = { 'start again': ['starts again', 'is declined'], 'go on': ['joins', 'goes on'], nothing: [] };
  const ends = RUN_ENDS.map((end) => {
    const allowed = allowedAfter(end, null);
    return told[allowed === 'start again' ? allowed : allowedAfter(end, 'job-1')];
  });
  expect(rows.map(([, , start, followUp]) => [start, followUp])).toEqual(ends);
});

test('Terminated before a worker took what came last: the state is of the task before', async () => {
  const own = { ...server, taskQueue: `test-${randomUUID()}`, close: async () => {} };
  const first = await startJobServer(own);
  await first.sandbox.setScript({ activeMs: 3_600_000 });
  const { projectId, client } = first;
  const { workflowId } = await first.jobs.start({ projectId, key: randomUUID(), prompt: 'x', ...QUICK });
  const state = () => first.jobs.handle(workflowId).state();
  await expect.poll(async () => (await state()).jobId).not.toBeNull();
  const { jobId } = await state();
  await first.close();
  const raw = client.workflow.getHandle(workflowId);
  await raw.signal('followUp', { id: 'late', message: 'x' });
  await raw.terminate();
  const next = await startJobServer(own);
  expect(await state()).toMatchObject({ outcome: 'Terminated', jobId, followUps: [] });
  await next.close();
});
