/** The workflow `requestQueue` before an upstream of the test, and stand-ins for jobs that wait in it. */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { activityInfo } from '@temporalio/activity';
import type { Client, WorkflowHandle, WorkflowSignalWithStartOptions } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import {
  joinQueueSignal,
  requestQueueId,
  requestQueueStateQuery,
  type JoinRequest,
  type Priority,
  type QueueName,
} from '../../src/contract.js';
import { RateLimiter, type RateLimits } from '../../src/sandbox/access.js';
import { failedTasks } from '../support/failed-tasks.js';
import { createTestWorker } from '../support/worker.js';
import type { WaiterActivities, WaiterInput } from './workflows/waiter.js';

type History = Awaited<ReturnType<WorkflowHandle['fetchHistory']>>;

interface QueueRunHistory {
  eventCount: number;
  taskCount: number;
  /** Why workflow tasks failed, but for those that the server repeated. */
  causes: number[];
}

interface BenchOptions {
  /** The budget of the upstream. */
  limits?: RateLimits;
  /** The task queue on which a worker of the test itself runs the queue. */
  queueTaskQueue?: string;
  /** Options of the queue's start. */
  start?: Partial<WorkflowSignalWithStartOptions>;
}

interface Sent {
  workflowId: string;
  at: number;
  isAccepted: boolean;
}

export type QueueBench = Awaited<ReturnType<typeof startQueueBench>>;

export async function startQueueBench(
  { client, nativeConnection }: { client: Client; nativeConnection: NativeConnection },
  { limits = {}, queueTaskQueue, start = {} }: BenchOptions = {},
) {
  const taskQueue = `test-${randomUUID()}`;
  const ownQueueTaskQueue = `${taskQueue}-queue`;
  const name: QueueName = { operation: 'create', projectId: `p-${randomUUID()}` };
  const queueId = requestQueueId(name);
  const limiter = new RateLimiter(limits);
  const sent: Sent[] = [];
  const waiters: string[] = [];
  const activities: WaiterActivities = {
    async sendUpstream(workflowId) {
      const at = activityInfo().currentAttemptScheduledTimestampMs;
      const isAccepted = !limiter.throttle('create', 'p', at);
      sent.push({ workflowId, at, isAccepted });
      return { outcome: isAccepted ? 'accepted' : 'throttled', at };
    },
  };
  const worker = await createTestWorker({
    connection: nativeConnection,
    taskQueue,
    activities,
    workflowsPath: fileURLToPath(new URL('workflows/index.ts', import.meta.url)),
  });
  // The queue runs from the product's own bundle.
  const queueWorker = await createTestWorker({
    connection: nativeConnection,
    taskQueue: ownQueueTaskQueue,
    activities: {},
  });
  const running = Promise.all([worker.run(), queueWorker.run()]);
  const handle = client.workflow.getHandle(queueId);
  const starting = { ...start, workflowId: queueId, taskQueue: queueTaskQueue ?? ownQueueTaskQueue, args: [name] };

  /** Signals the queue, and starts it if there is none. */
  const signal = (signalName: string, argument: unknown) =>
    client.workflow.signalWithStart('requestQueue', { ...starting, signal: signalName, signalArgs: [argument] });
  const join = (request: Partial<JoinRequest> & { workflowId: string }) =>
    signal(joinQueueSignal.name, { priority: 3, askedAt: 0, ...request });
  return {
    name,
    handle,
    starting,
    sent,
    signal,
    join,
    state: (now?: number) => handle.query(requestQueueStateQuery, now),
    /** Starts workflows that wait for a turn, and lets each join before the next. */
    async wait(
      count: number,
      { priority = 3, askedAt = 0, habit, workflowId: id, ...more }: Partial<WaiterInput & JoinRequest> = {},
    ): Promise<string[]> {
      const ids = Array.from({ length: count }, (_, i) => id ?? `waiter-${i}-${randomUUID()}`);
      for (const [i, workflowId] of ids.entries()) {
        const asked = { priority: priority as Priority, askedAt: askedAt + i };
        const args = [{ queueId, habit, ...asked } satisfies WaiterInput];
        await client.workflow.start('waiter', { workflowId, taskQueue, args });
        waiters.push(workflowId);
        await join({ workflowId, ...asked, ...more });
      }
      return ids;
    },
    async eventCount(): Promise<number> {
      return (await handle.fetchHistory()).events!.length;
    },
    /** All runs of the queue, the newest first. */
    async runs(): Promise<QueueRunHistory[]> {
      const runs: QueueRunHistory[] = [];
      for (let runId: string | null | undefined = (await handle.describe()).runId; runId;) {
        const history: History = await client.workflow.getHandle(queueId, runId ?? undefined).fetchHistory();
        const events = history.events!;
        const taskCount = events.filter((event) => event.workflowTaskCompletedEventAttributes).length;
        const causes = failedTasks(events).map(({ cause }) => Number(cause));
        runs.push({ eventCount: events.length, taskCount, causes });
        runId = events[0]!.workflowExecutionStartedEventAttributes!.continuedExecutionRunId;
      }
      return runs;
    },
    async stop(): Promise<void> {
      // A task that no worker takes any more keeps a server from skipping time.
      const ends = [queueId, ...waiters].map((id) => client.workflow.getHandle(id).terminate());
      await Promise.allSettled(ends);
      worker.shutdown();
      queueWorker.shutdown();
      await running;
    },
  };
}
