/** The workflow `requestQueue` before an upstream of the test, and stand-ins for jobs that wait in it. */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { activityInfo } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import {
  joinQueueSignal,
  requestQueueId,
  requestQueueStateQuery,
  type BudgetFacts,
  type JoinRequest,
  type Priority,
  type QueueName,
} from '../../src/contract.js';
import { RateLimiter, type RateLimits } from '../../src/sandbox/rate-limit.js';
import { createTestWorker } from '../support/worker.js';
import type { WaiterActivities, WaiterInput } from './workflows/waiter.js';

interface BenchOptions {
  limits?: RateLimits;
  memo?: Record<string, unknown>;
  /** Where the queue's own worker is another one. */
  queueTaskQueue?: string;
}

export interface Sent {
  workflowId: string;
  at: number;
  isAccepted: boolean;
}

export type QueueBench = Awaited<ReturnType<typeof startQueueBench>>;

export async function startQueueBench(
  { client, nativeConnection }: { client: Client; nativeConnection: NativeConnection },
  { limits = {}, memo = {}, queueTaskQueue }: BenchOptions = {},
) {
  const taskQueue = `test-${randomUUID()}`;
  const name: QueueName = { operation: 'create', projectId: `p-${randomUUID()}` };
  const queueId = requestQueueId(name);
  const limiter = new RateLimiter(limits);
  const sent: Sent[] = [];
  const activities: WaiterActivities = {
    async sendUpstream(workflowId) {
      const at = activityInfo().currentAttemptScheduledTimestampMs;
      const isAccepted = !limiter.refuse('create', 'p', at);
      sent.push({ workflowId, at, isAccepted });
      return { outcome: isAccepted ? 'accepted' : 'throttled', at };
    },
  };
  const worker = await createTestWorker({
    connection: nativeConnection,
    taskQueue,
    activities,
    workflowsPath: fileURLToPath(new URL('workflows/index.ts', import.meta.url)),
    interceptors: {
      workflowModules: [fileURLToPath(new URL('../model/early-continue-as-new.ts', import.meta.url))],
    },
  });
  const running = worker.run();
  const handle = client.workflow.getHandle(queueId);
  const join = async (request: Partial<JoinRequest> & BudgetFacts & { workflowId: string }) => {
    await client.workflow.signalWithStart('requestQueue', {
      workflowId: queueId,
      taskQueue: queueTaskQueue ?? taskQueue,
      args: [name],
      memo,
      signal: joinQueueSignal,
      signalArgs: [{ priority: 3, askedAt: 0, ...request }],
    });
  };
  return {
    client,
    name,
    handle,
    sent,
    limiter,
    join,
    state: () => handle.query(requestQueueStateQuery),
    /** Starts workflows that wait for a turn, and lets them join. */
    async wait(count: number, { priority = 3, ...more }: Partial<WaiterInput & BudgetFacts> & { from?: number } = {}) {
      const { from = 0, perHour, accepted, ...input } = more;
      const ids = Array.from({ length: count }, (_, i) => `waiter-${from + i}-${randomUUID()}`);
      for (const [i, workflowId] of ids.entries()) {
        const args = [{ queueId, priority, askedAt: from + i, ...input }];
        await client.workflow.start('waiter', { workflowId, taskQueue, args });
        await join({
          workflowId,
          priority: priority as Priority,
          askedAt: from + i,
          ...(perHour !== undefined && { perHour }),
          ...(accepted && { accepted }),
        });
      }
      return ids;
    },
    async events(runId?: string) {
      const { events } = await client.workflow.getHandle(queueId, runId).fetchHistory();
      return events!;
    },
    async stop() {
      await handle.terminate().catch(() => {});
      worker.shutdown();
      await running;
    },
  };
}
