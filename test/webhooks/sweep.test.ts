import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, type WorkflowQueryInput } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SEARCH_ATTRIBUTE } from '../../src/contract.js';
import { WEBHOOK_DELIVERY_WORKFLOW, WEBHOOK_SWEEP_WORKFLOW, webhookSweepId } from '../../src/contract/webhooks.js';
import { Endpoints } from '../../src/activities/webhooks/endpoints.js';
import { sweepEvents } from '../../src/activities/webhooks/sweep.js';
import { startSweep } from '../../src/worker/webhooks.js';
import { QUICK, startJobServer } from '../client/job-server.js';
import { earlyBundle } from './early-bundle.js';
import { createTestWorker } from '../support/worker.js';
import { until } from '../support/worker-process.js';
import { useReceiver } from './receiver.js';
import { startWebhookWorker, startWebhookWorkers } from './webhook-workers.js';
import { useForFile } from '../support/use.js';

const MINUTE = 60_000;

const server = useForFile(startJobServer);
const receiver = useReceiver();
let end: () => Promise<void>;
let searches = 0;
beforeAll(async () => {
  await server.sandbox.addScript({ promptIncludes: 'Never end', script: { activeMs: 3_600_000 } });
  end = await startWebhookWorker({ ...server, receiver, onSearch: () => searches++ });
  await startSweep(server.client, server.taskQueue);
}, 3 * MINUTE);
afterAll(async () => {
  await server.client.workflow.getHandle(webhookSweepId(server.taskQueue)).terminate();
  await end();
});

const start = (more: object = {}) => {
  const key = randomUUID();
  return server.jobs.start({ projectId: server.projectId, key, prompt: 'Hide me', ...QUICK, ...more });
};
const reportedOf = (type: string, workflowId: string) =>
  receiver.events(type).filter(({ data }) => data.workflowId === workflowId);
const reported = async (type: string, workflowId: string, count = 1) => {
  const isReported = () => reportedOf(type, workflowId).length >= count;
  // An end that Temporal lists late is found by the next sweep, a minute later.
  const received = () => JSON.stringify(receiver.received);
  await until(isReported, `${type} of ${workflowId}`, received, 4 * MINUTE);
  return reportedOf(type, workflowId);
};
/** What a sweep on a task queue of its own is given. */
const sweepOptions = (taskQueue: string, more: Partial<Parameters<typeof sweepEvents>[0]> = {}) => ({
  ...{ client: server.client, taskQueue, webUi: null, onSearch: () => {}, signal: AbortSignal.timeout(5_000) },
  endpoints: new Endpoints({ path: receiver.file, allowPrivate: true }),
  ...more,
});

/** Jobs that say they are in doubt, on a task queue without a worker, once they are listed. */
async function startDoubts({ client, taskQueue }: ReturnType<typeof ownQueue>, count: number) {
  const phase = defineSearchAttributeKey(SEARCH_ATTRIBUTE.phase, SearchAttributeType.KEYWORD);
  const typedSearchAttributes = [{ key: phase, value: 'needsAttention' }];
  const startOne = () =>
    client.workflow.start('agentJob', { workflowId: randomUUID(), taskQueue, typedSearchAttributes });
  const doubts = await Promise.all(Array.from({ length: count }, startOne));
  const listed = () => client.workflow.count(`TaskQueue = '${taskQueue}' AND ${phase.name} = 'needsAttention'`);
  await until(async () => (await listed()).count === count, 'the doubts to be listed');
  return () => Promise.all(doubts.map((doubt) => doubt.terminate()));
}

const requestsOf = (workflowId: string) =>
  receiver.received.filter(({ event }) => event.data.workflowId === workflowId);

/** A job whose create is in doubt, and listed so. */
async function inDoubt() {
  const { sandbox, projectId, jobs } = server;
  const key = randomUUID();
  await sandbox.addFault({ kind: 'status', status: 500, operation: 'create', promptIncludes: key });
  const handle = await jobs.start({ projectId, key, prompt: key, ...QUICK });
  const isListed = async () => {
    for await (const job of jobs.list({ projectId, phase: 'needsAttention' })) {
      if (job.workflowId === handle.workflowId) return true;
    }
    return false;
  };
  await until(isListed, 'the doubt to be listed');
  return handle;
}

test.concurrent('an end is reported once the run has closed, however it closed, without the prompt', async () => {
  const handle = await start({ tags: ['web'], metadata: { ticket: 'T-1' } });
  const { projectId, key, workflowId, runId } = handle;
  const { job } = await handle.result();
  expect(await reported('agent_job.ended', workflowId)).toEqual([
    {
      type: 'agent_job.ended',
      timestamp: expect.stringMatching(/Z$/),
      data: {
        ...{ projectId, key, workflowId, runId, outcome: 'completed', jobId: job!.id, prLink: job!.prLink },
        ...{ tags: ['web'], metadata: { ticket: 'T-1' } },
      },
    },
  ]);
  const terminated = await start({ prompt: 'Never end' });
  await server.client.workflow.getHandle(terminated.workflowId).terminate();
  const [event] = await reported('agent_job.ended', terminated.workflowId);
  expect(event.data.outcome).toBe('Terminated');
  expect(JSON.stringify(receiver.received)).not.toContain('Hide me');
});

test.concurrent('a follow-up after the end makes another end, and both are reported', async () => {
  const handle = await start();
  await handle.result();
  await handle.followUp('more', { id: 'more' });
  await handle.result();
  const runs = (await reported('agent_job.ended', handle.workflowId, 2)).map(({ data }) => data.runId as string);
  expect(new Set(runs).size).toBe(2);
  expect(runs).toContain(handle.runId);
});

test.concurrent('a run that is reset is no end: the job goes on', async () => {
  const handle = await start({ prompt: 'Never end' });
  await until(async () => (await handle.state()).jobId !== null, 'the job');
  const { workflowService, options } = server.client;
  const { runId } = await workflowService.resetWorkflowExecution({
    ...{ namespace: options.namespace, reason: 'a test', requestId: randomUUID() },
    ...{ workflowTaskFinishEventId: 4 as never },
    workflowExecution: { workflowId: handle.workflowId, runId: handle.runId! },
  });
  await server.client.workflow.getHandle(handle.workflowId).terminate();
  const events = await reported('agent_job.ended', handle.workflowId);
  expect(events.map(({ data }) => data.runId as string)).toEqual([runId]);
});

test.concurrent('a write in doubt is reported with the command that resolves it, once', async () => {
  const handle = await inDoubt();
  const { workflowId, projectId, key, runId } = handle;
  const [{ data }] = await reported('agent_job.needs_attention', workflowId);
  const { unknown } = await handle.state();
  const page = `workflows/${encodeURIComponent(workflowId)}/${runId}/user-metadata`;
  const url = `http://ui/namespaces/${server.namespace}/${page}`;
  expect(data).toMatchObject({ projectId, workflowId, key, runId, unknown, url });
  expect(data.command).toBe(`npx agent-jobs resolve ${workflowId} ACTION --since ${unknown!.since}`);
  const seen = searches;
  await until(() => searches > seen + 2, 'the doubt to be found again');
  expect(requestsOf(workflowId)).toHaveLength(1);
});

test.concurrent('an export is reported with its snapshots or its failure', async () => {
  const range = { projectId: server.projectId, dateFrom: '2026-01-01', dateTo: '2026-01-02' };
  const { workflowId, runId } = await server.jobs.exportVisitors(range);
  await server.client.workflow.getHandle(workflowId).terminate();
  const [{ data }] = await reported('visitor_export.ended', workflowId);
  expect(data).toEqual({
    ...{ projectId: server.projectId, workflowId, runId, snapshots: [], failure: 'Terminated' },
  });
});

/** A task queue of its own, and a job on it that is terminated. */
function ownQueue() {
  const { client, nativeConnection } = server;
  const taskQueue = `test-${randomUUID()}`;
  const endJob = async () => {
    const args = [{ projectId: 'acme', prompt: 'Hide me' }];
    const job = await client.workflow.start('agentJob', { workflowId: randomUUID(), taskQueue, args });
    await job.terminate();
    return job.workflowId;
  };
  const sweep = client.workflow.getHandle(webhookSweepId(taskQueue));
  return { client, taskQueue, workers: { nativeConnection, taskQueue, receiver }, endJob, sweep };
}

test.concurrent.for([true, false])(
  'a sweep that was terminated goes on from there, and reports nothing twice (it had workers: %s)',
  async (hadWorkers) => {
    const { client, taskQueue, workers, sweep, endJob } = ownQueue();
    const endWorkers = hadWorkers ? await startWebhookWorkers(workers) : async () => {};
    await startSweep(client, taskQueue);
    const first = await endJob();
    if (hadWorkers) await reported('agent_job.ended', first);
    await endWorkers();
    const terminatedAt = Date.now();
    await sweep.terminate();
    const second = await endJob();
    await startSweep(client, taskQueue);
    const endAgain = await startWebhookWorkers(workers);
    await reported('agent_job.ended', second);
    await reported('agent_job.ended', first);
    expect(requestsOf(first)).toHaveLength(1);
    // However long no sweep ran, it begins before that: each one finds the ends of the last half minute.
    expect((await sweep.describe()).memo?.['endsFrom']).toBeLessThan(terminatedAt);
    await sweep.terminate();
    await endAgain();
  },
);

test.concurrent('a sweep that was killed half-way is done again, and the server refuses what was sent', async () => {
  const { client, taskQueue, workers, sweep, endJob } = ownQueue();
  const endWorkers = await startWebhookWorkers(workers);
  await startSweep(client, taskQueue);
  const ended = await endJob();
  await reported('agent_job.ended', ended);
  await new MockActivityEnvironment({}).run(sweepEvents, sweepOptions(taskQueue), { endsFrom: Date.now() - MINUTE });
  expect(requestsOf(ended)).toHaveLength(1);
  await sweep.terminate();
  await endWorkers();
});

test.concurrent('a job in doubt that no worker answers delays no end', async () => {
  const queue = ownQueue();
  const { client, taskQueue, endJob } = queue;
  const endDoubts = await startDoubts(queue, 11);
  const ended = await endJob();
  const over = new AbortController();
  const sweep = new MockActivityEnvironment({ currentAttemptScheduledTimestampMs: Date.now() });
  const swept = sweep.run(sweepEvents, sweepOptions(taskQueue, { signal: over.signal }), {
    endsFrom: Date.now() - MINUTE,
  });
  let announced: unknown[] = [];
  const isAnnounced = async () => {
    const query = `WorkflowType = '${WEBHOOK_DELIVERY_WORKFLOW}' AND TaskQueue = '${taskQueue}'`;
    announced = [];
    for await (const { memo } of client.workflow.list({ query })) announced.push(memo?.['of']);
    return announced.length > 0;
  };
  await until(isAnnounced, 'the end');
  expect(announced).toEqual([ended]);
  over.abort();
  await swept;
  await endDoubts();
});

test.concurrent(
  'each sweep asks jobs in doubt in another order: those that hang hide no other one for ever',
  async () => {
    const queue = ownQueue();
    const { client, taskQueue } = queue;
    const endDoubts = await startDoubts(queue, 60);
    const firstAsked = async () => {
      const [asked, over] = [new Set<string>(), new AbortController()];
      const query = ({ workflowExecution }: WorkflowQueryInput) => {
        asked.add(workflowExecution.workflowId!);
        if (asked.size === 50) over.abort();
        return new Promise(() => {});
      };
      const { connection } = client;
      const asking = new Client({ ...client.options, connection, interceptors: { workflow: [{ query }] } });
      const options = sweepOptions(taskQueue, { client: asking, signal: over.signal });
      const sweep = new MockActivityEnvironment({ currentAttemptScheduledTimestampMs: Date.now() });
      await sweep.run(sweepEvents, options, { endsFrom: Date.now() });
      return [...asked].toSorted();
    };
    expect(await firstAsked()).not.toEqual(await firstAsked());
    await endDoubts();
  },
);

test.concurrent(
  'a server too slow for a page of ends is asked for smaller ones, and an event that can not be built ends nothing',
  async () => {
    const { client, taskQueue, workers, endJob } = ownQueue();
    const ended = await endJob();
    const odd = await client.workflow.start('visitorExport', { workflowId: randomUUID(), taskQueue });
    await odd.terminate();
    const sizes: number[] = [];
    const { connection } = client;
    const workflowService = new Proxy(connection.workflowService, {
      get: (target, name) => {
        if (name !== 'listWorkflowExecutions') return target[name as 'listWorkflowExecutions'];
        return async (request: { pageSize: number; query: string }) => {
          if (!request.query.includes('CloseTime >=')) return target.listWorkflowExecutions(request);
          sizes.push(request.pageSize);
          if (request.pageSize > 200) throw new Error('too slow');
          const listed = await target.listWorkflowExecutions(request);
          // No event can be built of a run without a time of its end.
          for (const run of listed.executions) if (run.type?.name === 'visitorExport') run.closeTime = null;
          return listed;
        };
      },
    });
    const slow = new Proxy(connection, {
      get: (target, name) => (name === 'workflowService' ? workflowService : target[name as 'workflowService']),
    });
    const over = new AbortController();
    let found = 0;
    const onSearch = () => void (++found === 2 && over.abort());
    const asking = new Client({ ...client.options, connection: slow });
    const options = sweepOptions(taskQueue, { client: asking, onSearch, signal: over.signal });
    const sweep = new MockActivityEnvironment({ currentAttemptScheduledTimestampMs: Date.now() });
    const listed = () => client.workflow.count(`TaskQueue = '${taskQueue}' AND CloseTime IS NOT NULL`);
    await until(async () => (await listed()).count === 2, 'both to be listed');
    await sweep.run(sweepEvents, options, { endsFrom: Date.now() - MINUTE });
    expect(sizes.slice(0, 5)).toEqual([1_000, 500, 250, 125, 125]);
    const endWorkers = await startWebhookWorkers(workers);
    await reported('agent_job.ended', ended);
    await endWorkers();
  },
);

test('a new set-up of webhooks reports no earlier end', async () => {
  const { client, taskQueue, workers, endJob, sweep } = ownQueue();
  const before = await endJob();
  await delay(1_100); // the times of ends and starts are compared in milliseconds
  const endWorkers = await startWebhookWorkers(workers);
  await startSweep(client, taskQueue);
  // A later search looks back for ends that were listed late.
  for (let ends = 0; ends < 2; ends++) await reported('agent_job.ended', await endJob());
  expect(requestsOf(before)).toEqual([]);
  await sweep.terminate();
  await endWorkers();
});

test('the id of the workflow has the name of its task queue as one part', () => {
  expect(webhookSweepId('team/a jobs')).toBe('webhook-sweep/team%2Fa%20jobs');
});

test('a run of the workflow that is full hands on what it knows: nothing is reported twice or left out', async () => {
  const { client, taskQueue, workers, endJob, sweep } = ownQueue();
  const { nativeConnection: connection } = workers;
  const workflows = await createTestWorker({
    ...{ connection, taskQueue, activities: {}, workflowBundle: await earlyBundle() },
  });
  const running = workflows.run();
  const endFirst = await startWebhookWorker(workers);
  const endsFrom = Date.now();
  const run = { workflowId: sweep.workflowId, taskQueue, args: [{ endsFrom }], memo: { eventsPerRun: 8 } };
  const { firstExecutionRunId } = await client.workflow.start(WEBHOOK_SWEEP_WORKFLOW, run);
  const first = await endJob();
  await reported('agent_job.ended', first);
  await endFirst();
  const second = await endJob();
  const endSecond = await startWebhookWorker(workers);
  await reported('agent_job.ended', second);
  const { runId, memo } = await sweep.describe();
  expect(runId).not.toBe(firstExecutionRunId);
  // Temporal may list ends of the last minutes late: they are read again.
  expect(memo).toMatchObject({ endsFrom });
  expect(requestsOf(first)).toHaveLength(1);
  await sweep.terminate();
  workflows.shutdown();
  await Promise.all([running, endSecond()]);
});
