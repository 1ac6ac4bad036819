/**
 * One short life per path of writes that wait for their turn: of the jobs, and of the queue that orders them. As
 * `scenarios.ts` has them of jobs that need not wait.
 */
import { randomUUID } from 'node:crypto';
import type { Client } from '@temporalio/client';
import {
  followUpSignal,
  jobStateQuery,
  joinQueueSignal,
  pollNowSignal,
  queuePlaceQuery,
  reportRequestSignal,
  requestQueueId,
  requestQueueStateQuery,
  requestTurnSignal,
  type QueueName,
} from '../../src/contract.js';
import { until } from '../export/export.js';
import type { JobBench } from '../support/job-bench.js';
import { throttled } from '../support/outcomes.js';
import type { ScriptedUpstream } from '../support/scripted-upstream.js';

/** A project of its own, and a worker. */
export interface QueueLife {
  client: Client;
  bench: JobBench;
  upstream: ScriptedUpstream;
  projectId: string;
}

export interface QueueScenario {
  /** Returns the workflow ids of the jobs to record; the queues of the project are recorded after them. */
  act: (life: QueueLife) => Promise<string[]>;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const OPERATIONS = ['create', 'message'] as const;

/** The queues that a life may have made. */
export function queuesOf({ projectId }: QueueLife): string[] {
  return OPERATIONS.map((operation) => requestQueueId({ operation, projectId }));
}

/** A queue whose budget of one is used, and free again after a time. */
async function usedUp(
  life: QueueLife,
  freeInMs: number,
  operation: (typeof OPERATIONS)[number] = 'create',
): Promise<void> {
  const at = Date.now() - HOUR + freeInMs;
  await tell(life, operation, reportRequestSignal.name, { turn: null, outcome: 'accepted', at, perHour: 1 });
}

async function tell(
  { client, bench, projectId }: QueueLife,
  operation: QueueName['operation'],
  signal: string,
  argument: unknown,
): Promise<void> {
  const name = { operation, projectId } as QueueName;
  await client.workflow.signalWithStart('requestQueue', {
    workflowId: requestQueueId(name),
    taskQueue: bench.taskQueue,
    args: [name],
    signal,
    signalArgs: [argument],
  });
}

async function start({ bench, projectId }: QueueLife, more: object = {}): Promise<string> {
  const input = { projectId, prompt: 'Fix the login page', settle: 0, ...more };
  return (await bench.start(input, { workflowId: `agent-job/recorded/${randomUUID()}` })).workflowId;
}

/** Starts a job and lets it join the queue. */
async function startWaiting(life: QueueLife, more: object = {}): Promise<string> {
  const id = await start(life, more);
  await waits(life, id);
  return id;
}

async function waits({ client, projectId }: QueueLife, id: string, operation: (typeof OPERATIONS)[number] = 'create') {
  const queue = client.workflow.getHandle(requestQueueId({ operation, projectId }));
  const job = client.workflow.getHandle(id);
  await until(async () => {
    const place = await queue.query(queuePlaceQuery, id).catch(() => null);
    return place !== null && (await job.query(jobStateQuery)).waiting !== null;
  });
}

async function end({ client }: QueueLife, id: string): Promise<void> {
  await client.workflow
    .getHandle(id)
    .result()
    .catch(() => {});
}

const isIdle =
  ({ client, projectId }: QueueLife) =>
  async () => {
    const queue = client.workflow.getHandle(requestQueueId({ operation: 'create', projectId }));
    const { waitingCount, inFlight } = await queue.query(requestQueueStateQuery);
    return waitingCount === 0 && inFlight === 0;
  };

/** A job that waits with a create, and then does what the scenario is about until it ends. */
const waiting =
  (freeInMs: number, more: object, work: (life: QueueLife, id: string) => Promise<unknown>) =>
  async (life: QueueLife) => {
    await usedUp(life, freeInMs);
    const id = await startWaiting(life, more);
    await work(life, id);
    await end(life, id);
    return [id];
  };

export const QUEUE_SCENARIOS: Record<string, QueueScenario> = {
  'turn-after-429': {
    act: async (life) => {
      life.upstream.createFaults.push(throttled('upstream answered 429', 10_000));
      const id = await startWaiting(life);
      await end(life, id);
      await until(isIdle(life));
      return [id];
    },
  },
  'turn-of-follow-up': {
    act: async (life) => {
      const { upstream, client } = life;
      upstream.show = () => ({ status: upstream.messages.length > 0 ? 'completed' : 'active' });
      await usedUp(life, 30_000, 'message');
      const id = await start(life, { polling: { min: MINUTE } });
      await until(async () => (await client.workflow.getHandle(id).query(jobStateQuery)).phase === 'watching');
      await client.workflow.getHandle(id).signal(followUpSignal, { prompt: 'And a test', id: 'one', priority: 1 });
      await waits(life, id, 'message');
      await end(life, id);
      return [id];
    },
  },
  'turn-start-within': { act: waiting(HOUR, { startWithin: '10 seconds' }, () => Promise.resolve()) },
  'turn-wait-cancelled': { act: waiting(HOUR, {}, ({ client }, id) => client.workflow.getHandle(id).cancel()) },
  'turn-too-late': {
    act: waiting(5_000, {}, ({ client }, id) =>
      client.workflow
        .getHandle(id)
        .signal(requestTurnSignal, { operation: 'create', id: 'late:1', until: Date.now() - 1_000, requests: 1 }),
    ),
  },
  'turn-twice': {
    act: waiting(5_000, {}, async ({ client }, id) => {
      const turn = { operation: 'create' as const, id: 'twice:1', until: Date.now() + MINUTE, requests: 1 };
      for (let i = 0; i < 2; i++) await client.workflow.getHandle(id).signal(requestTurnSignal, turn);
    }),
  },
  'turn-after-continue-as-new': {
    act: waiting(12_000, {}, async ({ client }, id) => {
      const { runId } = await client.workflow.getHandle(id).describe();
      await until(async () => {
        await Promise.all(Array.from({ length: 30 }, () => client.workflow.getHandle(id).signal(pollNowSignal)));
        return (await client.workflow.getHandle(id).describe()).runId !== runId;
      });
    }),
  },
  'turn-probe-after-429': {
    act: async (life) => {
      const refusal = throttled('upstream answered 429', 1_000);
      life.upstream.createFaults.push(refusal, refusal, refusal);
      const ids = [await startWaiting(life), await startWaiting(life)];
      for (const id of ids) await end(life, id);
      await until(isIdle(life));
      return ids.slice(1);
    },
  },
  'queue-ended-waiters': {
    act: async (life) => {
      await usedUp(life, 8_000);
      const asked = { priority: 1, askedAt: 0 };
      for (let i = 0; i < 3; i++)
        await tell(life, 'create', joinQueueSignal.name, { workflowId: `gone ${i}`, ...asked });
      const terminated = await startWaiting(life, { priority: 2 });
      await life.client.workflow.getHandle(terminated).terminate();
      const id = await startWaiting(life);
      await end(life, id);
      await until(isIdle(life));
      return [];
    },
  },
  'queue-continue-as-new': {
    act: async (life) => {
      await usedUp(life, 10_000);
      const id = await startWaiting(life);
      const queue = life.client.workflow.getHandle(requestQueueId({ operation: 'create', projectId: life.projectId }));
      const { runId } = await queue.describe();
      for (let i = 0; (await queue.describe()).runId === runId; i++) {
        await tell(life, 'create', joinQueueSignal.name, { workflowId: `gone ${i % 5}`, priority: 1, askedAt: i });
      }
      await end(life, id);
      await until(isIdle(life));
      return [];
    },
  },
};
