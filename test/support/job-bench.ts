/**
 * A worker with the real workflow and activities over an upstream, on a real Temporal server; for tests of `agentJob`.
 */
import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import type { Client, WorkflowHandleWithFirstExecutionRunId } from '@temporalio/client';
import type { NativeConnection, Worker, WorkerOptions } from '@temporalio/worker';
import { createJobActivities } from '../../src/activities/agent-job/job-activities.js';
import { KeyHealth, type KeyHealthOptions } from '../../src/activities/agent-job/key-health.js';
import { HeldPolls } from '../../src/activities/agent-job/held-polls.js';
import { requestQueueId, requestQueueStateQuery, type AgentJobInput } from '../../src/contract.js';
import { Budgets, type BudgetSettings } from '../../src/activities/agent-job/budgets.js';
import type { Metrics } from '../../src/activities/metrics.js';
import { noMetrics } from './no-metrics.js';
import type { Upstream } from '../../src/upstream/upstream.js';
import type { agentJob } from '../../src/workflows/index.js';
import { createTestWorker } from './worker.js';

export interface JobBench {
  client: Client;
  taskQueue: string;
  start(input: unknown, options?: object): Promise<WorkflowHandleWithFirstExecutionRunId<typeof agentJob>>;
  stop(): Promise<void>;
}

export interface JobBenchOptions {
  /** Whether attempts are held by the worker; default: each poll is an attempt, and a server may skip the waits. */
  holdsPolls?: boolean;
  metrics?: Metrics;
  tryKeyEveryMs?: number;
  onHold?: NonNullable<KeyHealthOptions['onChange']>;
  confirmWritesBefore?: string;
  /** Requests an hour of a project; default none is set. */
  budgets?: BudgetSettings;
  taskQueue?: string;
  worker?: Partial<WorkerOptions>;
}

function queuesOf(projectId: unknown): string[] {
  // Wrong inputs are started too; they have no queue.
  if (typeof projectId !== 'string' || !projectId.isWellFormed()) return [];
  return (['create', 'message'] as const).map((operation) => requestQueueId({ operation, projectId }));
}

export async function startJobBench(
  { client, nativeConnection }: { client: Client; nativeConnection: NativeConnection },
  upstream: Upstream,
  {
    holdsPolls = false,
    metrics = noMetrics,
    tryKeyEveryMs = 1_000,
    onHold = () => {},
    confirmWritesBefore,
    budgets,
    taskQueue = `test-${randomUUID()}`,
    worker: options,
  }: JobBenchOptions = {},
): Promise<JobBench> {
  const shutdown = new AbortController();
  setMaxListeners(0, shutdown.signal); // as a worker's own has it: every poll listens
  const heldPolls = holdsPolls ? new HeldPolls(shutdown.signal, noMetrics) : null;
  const activities = createJobActivities({
    upstream,
    shutdownSignal: shutdown.signal,
    metrics,
    heldPolls,
    confirmWritesBefore,
    budgets: new Budgets(budgets),
    keyHealth: new KeyHealth({ upstream, tryEveryMs: tryKeyEveryMs, onChange: onHold }),
  });
  const worker: Worker = await createTestWorker({ ...options, connection: nativeConnection, taskQueue, activities });
  const running = worker.run();
  const started: string[] = [];
  const projects = new Set<string>();
  return {
    client,
    taskQueue,
    async start(input, options) {
      const handle = await client.workflow.start<typeof agentJob>('agentJob', {
        taskQueue,
        workflowId: `agent-job/test/${randomUUID()}`,
        args: [input as AgentJobInput],
        workflowExecutionTimeout: '400 days',
        ...options,
      });
      started.push(handle.workflowId);
      projects.add((input as AgentJobInput | undefined)?.projectId ?? '');
      return handle;
    },
    async stop() {
      // A task that no worker takes any more keeps a server from skipping time, and queries of it wait.
      for (const workflowId of started) await terminate(client, workflowId);
      // A queue would hold the jobs of later workers.
      for (const workflowId of [...projects].flatMap(queuesOf)) await endQueue(client, workflowId);
      shutdown.abort();
      worker.shutdown();
      await running;
      await heldPolls?.ended();
    },
  };
}

/** Only if it still runs: one that has ended may be of an earlier worker, which answers no query any more. */
async function endQueue(client: Client, workflowId: string): Promise<void> {
  const handle = client.workflow.getHandle(workflowId);
  const described = await handle.describe().catch(() => null);
  if (described?.status.name !== 'RUNNING') return;
  // Once it answers it is idle: terminated during a task, it would keep the server from skipping time, too.
  await handle.query(requestQueueStateQuery).catch(() => {});
  await terminate(client, workflowId);
}

async function terminate(client: Client, workflowId: string): Promise<void> {
  await client.workflow
    .getHandle(workflowId)
    .terminate()
    .catch(() => {});
}
