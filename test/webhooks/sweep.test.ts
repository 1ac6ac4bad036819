import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import { defaultPayloadConverter, defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SEARCH_ATTRIBUTE } from '../../src/contract.js';
import {
  WEBHOOK_DELIVERY_WORKFLOW,
  WEBHOOK_SWEEP_WORKFLOW,
  webhookSweepId,
  type WebhookSweepState,
} from '../../src/contract/webhooks.js';
import { Endpoints } from '../../src/activities/webhooks/endpoints.js';
import { EventSweep } from '../../src/activities/webhooks/sweep.js';
import { startSweep } from '../../src/worker/webhooks.js';
import { QUICK, startJobServer, type JobServer } from '../client/job-server.js';
import { earlyBundle } from '../model/early-bundle.js';
import { createTestWorker } from '../support/worker.js';
import { until } from '../support/worker-process.js';
import { Receiver } from './receiver.js';
import { startWebhookWorker, startWebhookWorkers } from './webhook-workers.js';

const MINUTE = 60_000;
const NEVER = new AbortController().signal;

let server: JobServer;
let receiver: Receiver;
let endpoints: Endpoints;
let end: () => Promise<void>;
beforeAll(async () => {
  receiver = await new Receiver().start();
  endpoints = new Endpoints({ path: receiver.file, allowPrivate: true });
  server = await startJobServer();
  await server.sandbox.addScript({ promptIncludes: 'Never end', script: { activeMs: 3_600_000 } });
  end = await startWebhookWorker({ ...server, receiver });
}, 3 * MINUTE);
afterAll(async () => {
  await end();
  await server.close();
  await receiver.close();
});

const start = (more: object = {}) => {
  const key = randomUUID();
  return server.jobs.start({ projectId: server.projectId, key, prompt: 'Hide me', ...QUICK, ...more });
};
const toldOf = (type: string, workflowId: string) =>
  receiver.events(type).filter(({ data }) => data.workflowId === workflowId);
const told = async (type: string, workflowId: string) => {
  const isTold = () => toldOf(type, workflowId).length > 0;
  await until(isTold, `${type} of ${workflowId}`, () => JSON.stringify(receiver.received));
  return toldOf(type, workflowId)[0];
};

/** A process that begins to look, from a state. */
class Looker {
  state: WebhookSweepState;
  readonly #sweep: EventSweep;

  constructor(state: WebhookSweepState = { endsFrom: Date.now() - 10_000 }) {
    const { client, taskQueue } = server;
    this.state = state;
    const webUi = { url: 'http://ui', namespace: 'n' };
    this.#sweep = new EventSweep({ client, taskQueue, endpoints, webUi });
  }

  async look(): Promise<void> {
    this.state = await this.#sweep.look(this.state, { now: Date.now(), signal: NEVER });
  }

  async until(type: string, workflowId: string, count = 1): Promise<void> {
    const isTold = async () => {
      await this.look();
      return toldOf(type, workflowId).length >= count;
    };
    await until(isTold, `${type} of ${workflowId}`, () => JSON.stringify(this.state));
  }
}

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

test.concurrent(
  'an end is told once the run has closed, however it closed, without the prompt',
  async () => {
    const handle = await start({ tags: ['web'], metadata: { ticket: 'T-1' } });
    const { projectId, key, workflowId, runId } = handle;
    const { job } = await handle.result();
    const looker = new Looker();
    await looker.until('agent_job.ended', workflowId);
    expect(toldOf('agent_job.ended', workflowId)).toEqual([
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
    await looker.until('agent_job.ended', terminated.workflowId);
    expect(toldOf('agent_job.ended', terminated.workflowId)[0].data.outcome).toBe('Terminated');
    expect(JSON.stringify(receiver.received)).not.toContain('Hide me');
  },
  2 * MINUTE,
);

test.concurrent(
  'a follow-up after the end opens another end, and both are told',
  async () => {
    const handle = await start();
    await handle.result();
    await handle.followUp('more', { id: 'more' });
    await handle.result();
    const looker = new Looker();
    await looker.until('agent_job.ended', handle.workflowId, 2);
    const runs = toldOf('agent_job.ended', handle.workflowId).map(({ data }) => data.runId as string);
    expect(new Set(runs).size).toBe(2);
    expect(runs).toContain(handle.runId);
  },
  2 * MINUTE,
);

test.concurrent(
  'a run that is reset is no end: the job goes on',
  async () => {
    const handle = await start({ prompt: 'Never end' });
    await until(async () => (await handle.state()).jobId !== null, 'the job');
    const { workflowService, options } = server.client;
    const { namespace } = options;
    const { runId } = await workflowService.resetWorkflowExecution({
      ...{ namespace, reason: 'a test', requestId: randomUUID(), workflowTaskFinishEventId: 4 as never },
      workflowExecution: { workflowId: handle.workflowId, runId: handle.runId! },
    });
    await server.client.workflow.getHandle(handle.workflowId).terminate();
    await new Looker().until('agent_job.ended', handle.workflowId);
    await new Looker().look();
    expect(toldOf('agent_job.ended', handle.workflowId).map(({ data }) => data.runId as string)).toEqual([runId]);
  },
  2 * MINUTE,
);

test.concurrent(
  'a write in doubt is told with what settles it, once',
  async () => {
    const handle = await inDoubt();
    const { workflowId, projectId, key, runId } = handle;
    const looker = new Looker();
    await looker.until('agent_job.needs_attention', workflowId);
    const { unknown } = await handle.state();
    const [{ data }] = toldOf('agent_job.needs_attention', workflowId);
    const url = `http://ui/namespaces/n/workflows/${encodeURIComponent(workflowId)}/${runId}/user-metadata`;
    expect(data).toMatchObject({ projectId, workflowId, key, runId, unknown, url });
    expect(data.command).toBe(`npx agent-jobs resolve ${workflowId} ACTION --since ${unknown!.since}`);
    await new Looker(looker.state).look();
    expect(toldOf('agent_job.needs_attention', workflowId)).toHaveLength(1);
  },
  2 * MINUTE,
);

test.concurrent(
  'an export is told with its snapshots or its failure; what it was part of tells of the rest',
  async () => {
    const range = { projectId: server.projectId, dateFrom: '2026-01-01', dateTo: '2026-01-02' };
    const { workflowId, runId } = await server.jobs.exportVisitors(range);
    await server.client.workflow.getHandle(workflowId).terminate();
    await new Looker().until('visitor_export.ended', workflowId);
    expect(toldOf('visitor_export.ended', workflowId)[0].data).toEqual({
      ...{ projectId: server.projectId, workflowId, runId, snapshots: [], failure: 'Terminated' },
    });
  },
  2 * MINUTE,
);

/** A run of the workflow, with workers and a task queue of its own. */
async function startOwnSweep({ hasWorkers = true } = {}) {
  const { client, nativeConnection } = server;
  const taskQueue = `test-${randomUUID()}`;
  const workers = { nativeConnection, taskQueue, receiver };
  const endWorkers = hasWorkers ? await startWebhookWorkers(workers) : async () => {};
  await startSweep(client, taskQueue);
  const sweep = client.workflow.getHandle(webhookSweepId(taskQueue));
  const end = async () => {
    const args = [{ projectId: 'acme', prompt: 'Hide me' }];
    const job = await client.workflow.start('agentJob', { workflowId: randomUUID(), taskQueue, args });
    await job.terminate();
    return job.workflowId;
  };
  return { client, taskQueue, workers, endWorkers, sweep, end };
}

test.concurrent(
  'for more than two minutes each end is told within 20 seconds, and each minute leaves its state in the history',
  async () => {
    const { sweep, end, endWorkers } = await startOwnSweep();
    const ended: string[] = [];
    for (let round = 0; round < 28; round++) {
      ended.push(await end());
      await delay(5_000);
      const untold = ended.slice(0, -4).filter((id) => toldOf('agent_job.ended', id).length === 0);
      expect([round, untold]).toEqual([round, []]);
    }
    await told('agent_job.ended', ended.at(-1)!);
    const { events } = await sweep.fetchHistory();
    const attempts = events!.flatMap((event) => event.activityTaskStartedEventAttributes?.attempt ?? []);
    const kept = events!.filter((event) => event.activityTaskCompletedEventAttributes);
    expect(attempts).toEqual(kept.map(() => 1));
    expect(kept.length).toBeGreaterThanOrEqual(2);
    await sweep.terminate();
    await endWorkers();
  },
  4 * MINUTE,
);

test.concurrent.for([
  ['terminated', (sweep: WorkflowHandle) => sweep.terminate()],
  ['deleted after it told of something', deleteSweep],
] as const)(
  'a sweep that was %s goes on where it was, and tells nothing twice',
  { timeout: 2 * MINUTE },
  async ([, close]) => {
    const { client, taskQueue, workers, sweep, end, endWorkers } = await startOwnSweep();
    const first = await end();
    await told('agent_job.ended', first);
    await endWorkers();
    await close(sweep);
    const second = await end();
    await startSweep(client, taskQueue);
    const endAgain = await startWebhookWorkers(workers);
    await told('agent_job.ended', second);
    const ofFirst = receiver.received.filter(({ event }) => event.data.workflowId === first);
    expect(ofFirst).toHaveLength(1);
    await client.workflow.getHandle(sweep.workflowId).terminate();
    await endAgain();
  },
);

test.concurrent(
  'a sweep that was terminated before its first look loses nothing',
  async () => {
    const { client, taskQueue, workers, sweep, end, endWorkers } = await startOwnSweep({ hasWorkers: false });
    const ended = await end();
    await sweep.terminate();
    await startSweep(client, taskQueue);
    const endAgain = await startWebhookWorkers(workers);
    expect(await told('agent_job.ended', ended)).toBeDefined();
    await client.workflow.getHandle(sweep.workflowId).terminate();
    await Promise.all([endWorkers(), endAgain()]);
  },
  2 * MINUTE,
);

async function deleteSweep(sweep: WorkflowHandle): Promise<void> {
  const { workflowService, options } = server.client;
  const { workflowId } = sweep;
  await workflowService.deleteWorkflowExecution({ namespace: options.namespace, workflowExecution: { workflowId } });
  const isGone = () =>
    sweep.describe().then(
      () => false,
      (error: Error) => error.name === 'WorkflowNotFoundError',
    );
  await until(isGone, 'the sweep to be gone');
}

test.concurrent(
  'a job in doubt that no worker answers holds no end up',
  async () => {
    const { client } = server;
    const taskQueue = `test-${randomUUID()}`; // without a worker
    const phase = defineSearchAttributeKey(SEARCH_ATTRIBUTE.phase, SearchAttributeType.KEYWORD);
    const inDoubtForEver = { typedSearchAttributes: [{ key: phase, value: 'needsAttention' }] };
    const startRun = (more = {}) => client.workflow.start('agentJob', { workflowId: randomUUID(), taskQueue, ...more });
    const doubts = await Promise.all(Array.from({ length: 11 }, () => startRun(inDoubtForEver)));
    const listedDoubts = () => client.workflow.count(`TaskQueue = '${taskQueue}' AND ${phase.name} = 'needsAttention'`);
    await until(async () => (await listedDoubts()).count === 11, 'the doubts to be listed');
    const ended = await startRun();
    await ended.terminate();
    const sweep = new EventSweep({ client, taskQueue, endpoints, webUi: null });
    // In its time all doubts can't be asked: eleven, ten at once, of which none answers.
    const signal = AbortSignal.timeout(8_000);
    let announced: unknown[] = [];
    const isTold = async () => {
      await sweep.look({ endsFrom: Date.now() - MINUTE }, { now: Date.now(), signal });
      const query = `WorkflowType = '${WEBHOOK_DELIVERY_WORKFLOW}' AND TaskQueue = '${taskQueue}'`;
      announced = [];
      for await (const { memo } of client.workflow.list({ query })) announced.push(memo?.['of']);
      return announced.length > 0;
    };
    await until(isTold, 'the end to be told');
    expect(announced).toEqual([ended.workflowId]);
    await Promise.all(doubts.map((doubt) => doubt.terminate()));
  },
  MINUTE,
);

test('where webhooks are new, nothing that ended before is told', async () => {
  const { client } = server;
  const taskQueue = `test-${randomUUID()}`;
  await startSweep(client, taskQueue);
  const sweep = client.workflow.getHandle(webhookSweepId(taskQueue));
  expect(await givenTo(sweep)).toBeNull();
  await sweep.terminate();
});

async function givenTo(sweep: WorkflowHandle): Promise<unknown> {
  const [begun] = (await sweep.fetchHistory()).events!;
  const [given] = begun!.workflowExecutionStartedEventAttributes!.input!.payloads!;
  return defaultPayloadConverter.fromPayload(given!);
}

test('the id of the workflow has the name of its task queue as one part', () => {
  expect(webhookSweepId('team/a jobs')).toBe('webhook-sweep/team%2Fa%20jobs');
});

test(
  'a run of the workflow that is full hands over what it knows: nothing is told twice, or left out',
  async () => {
    const { client, nativeConnection: connection } = server;
    const taskQueue = `test-${randomUUID()}`;
    const workflowBundle = await earlyBundle();
    const workflows = await createTestWorker({ connection, taskQueue, activities: {}, workflowBundle });
    const running = workflows.run();
    const options = { nativeConnection: connection, taskQueue, receiver };
    const terminated = async () => {
      const args = [{ projectId: 'acme', prompt: 'Hide me' }];
      const job = await client.workflow.start('agentJob', { workflowId: randomUUID(), taskQueue, args });
      await job.terminate();
      return job.workflowId;
    };
    const endFirst = await startWebhookWorker(options);
    const workflowId = webhookSweepId(taskQueue);
    const run = { workflowId, taskQueue, args: [null], memo: { eventsPerRun: 8 } };
    const { firstExecutionRunId } = await client.workflow.start(WEBHOOK_SWEEP_WORKFLOW, run);
    const first = await terminated();
    await told('agent_job.ended', first);
    await endFirst();
    const second = await terminated();
    const endSecond = await startWebhookWorker(options);
    await told('agent_job.ended', second);
    const sweep = client.workflow.getHandle(workflowId);
    expect((await sweep.describe()).runId).not.toBe(firstExecutionRunId);
    const requests = receiver.received.filter(({ event }) => event.data.workflowId === first);
    expect(requests).toHaveLength(1);
    await sweep.terminate();
    workflows.shutdown();
    await Promise.all([running, endSecond()]);
  },
  3 * MINUTE,
);
