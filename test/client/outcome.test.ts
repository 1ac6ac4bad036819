import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { JobHandle } from '../../src/starter.js';
import { gathered, QUICK, startJobServer, type JobServer } from './job-server.js';

let server: JobServer;
beforeAll(async () => {
  server = await startJobServer();
  await server.sandbox.addScript({ promptIncludes: 'fails', script: { steps: [{ status: 'failed' }] } });
  await server.sandbox.addScript({ promptIncludes: 'never ends', script: { activeMs: 3_600_000 } });
});
afterAll(() => server.close());

const begin = (prompt: string, options: object = {}): Promise<JobHandle> =>
  server.jobs.start({ projectId: server.projectId, key: randomUUID(), prompt, ...QUICK, ...options });
const raw = ({ workflowId }: JobHandle) => server.client.workflow.getHandle(workflowId);
const watching = async (job: JobHandle): Promise<JobHandle> => {
  await expect.poll(async () => (await job.state()).phase).toBe('watching');
  return job;
};

/** Started by a client that gave a time limit, against the advice. */
async function timeLimited(): Promise<JobHandle> {
  const { client, taskQueue, projectId, jobs } = server;
  const args = [{ projectId, prompt: 'never ends', ...QUICK }];
  const options = { workflowId: randomUUID(), taskQueue, args, workflowRunTimeout: '8 seconds' } as const;
  return jobs.handle((await client.workflow.start('agentJob', options)).workflowId);
}

const ENDS: [outcome: string, start: () => Promise<JobHandle>][] = [
  ['completed', () => begin('completes')],
  ['failed', () => begin('fails')],
  ['timedOut', () => begin('never ends', { deadline: 0 })],
  [
    'CreateRejected',
    async () => {
      const projectId = `refused-${randomUUID()}`;
      await server.sandbox.addFault({ kind: 'status', status: 422, operation: 'create', projectId });
      return begin('x', { projectId });
    },
  ],
  [
    'InvalidInput',
    async () => {
      const { client, taskQueue, projectId, jobs } = server;
      const options = { workflowId: randomUUID(), taskQueue, args: [{ projectId, prompt: 5 }] };
      return jobs.handle((await client.workflow.start('agentJob', options)).workflowId);
    },
  ],
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
  ['TimedOut', timeLimited],
];

test.for(ENDS)('%s: state, list and filter tell the end', async ([outcome, start]) => {
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
  expect(await listed({ outcome: outcome === 'lost' ? 'abandoned' : 'lost' })).toEqual([]);
});

test('a job that runs has no outcome', async () => {
  const job = await watching(await begin('never ends'));
  expect((await job.state()).outcome).toBeNull();
  await raw(job).terminate();
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
