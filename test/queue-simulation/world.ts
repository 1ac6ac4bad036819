/** One simulated world: a time-skipping Temporal server, the sandbox upstream in its time, and worker processes. */
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from '@temporalio/client';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { agentJobStartOptions } from '../../src/agent-job/start-options.js';
import {
  agentJobWorkflowId,
  jobStateQuery,
  requestQueueId,
  requestQueueStateQuery,
  resolveUnknownUpdate,
  type Priority,
} from '../../src/contract.js';
import type { RateLimits } from '../../src/sandbox/access.js';
import type { agentJob } from '../../src/workflows/index.js';
import type { HistoryEvents } from '../support/billable-actions.js';
import { startTimeSkippingServer } from '../support/time-skipping-server.js';
import type { WorkerProcess } from '../support/worker-process.js';
import { VirtualTime } from './virtual-time.js';
import { VirtualUpstream, type SeenRequest } from './virtual-upstream.js';
import { startWorker } from './workers.js';

export interface WorldOptions {
  /** The program of the time-skipping server. */
  server: string;
  limits: RateLimits;
  workers?: number;
  /** Settings of the workers. */
  env?: Record<string, string>;
  /** A worker will be killed. */
  mayDie?: boolean;
}

/** A job to start; its name is its key and its prompt. */
export interface JobOrder {
  projectId: string;
  name: string;
  priority?: Priority;
}

const TASK_QUEUE = 'queue-simulation';
/** What is under way at the same time where the simulation itself asks many things of the server. */
const AT_ONCE = 16;
/** So much is skipped at a time, in milliseconds. */
const SLICE_MS = 20_000;

export class World {
  readonly upstream: VirtualUpstream;
  readonly time: VirtualTime;
  readonly client: Client;
  readonly #environment: TestWorkflowEnvironment;
  readonly #options: WorldOptions;
  readonly #workers = new Map<number, WorkerProcess>();

  private constructor(
    options: WorldOptions,
    environment: TestWorkflowEnvironment,
    time: VirtualTime,
    upstream: VirtualUpstream,
  ) {
    this.#options = options;
    this.#environment = environment;
    this.time = time;
    this.upstream = upstream;
    // Not the environment's own client, which skips time whenever a result is awaited.
    this.client = new Client({ connection: environment.connection });
  }

  static async open(options: WorldOptions): Promise<World> {
    const environment = await startTimeSkippingServer(options.server);
    const time = await VirtualTime.of(environment);
    const upstream = await VirtualUpstream.start({ time, limits: options.limits });
    const world = new World(options, environment, time, upstream);
    try {
      for (let i = 0; i < (options.workers ?? 3); i++) await world.startWorker();
    } catch (error) {
      await world.close();
      throw error;
    }
    return world;
  }

  async startWorker(): Promise<void> {
    const { door, url } = await this.upstream.openDoor();
    const { env, mayDie = false } = this.#options;
    const settings = {
      TEMPORAL_ADDRESS: this.#environment.address,
      AGENT_JOBS_TASK_QUEUE: TASK_QUEUE,
      UPSTREAM_BASE_URL: url,
      ADMIN_API_KEY: this.upstream.sandbox.apiKey,
      ...env,
    };
    this.#workers.set(door, await startWorker(settings, { mayDie }));
  }

  /** Kills the worker behind a door, with whatever it has under way. */
  killWorker(door: number): void {
    this.#workers.get(door)?.signal('SIGKILL');
  }

  #job({ projectId, name }: JobOrder) {
    return this.client.workflow.getHandle<typeof agentJob>(agentJobWorkflowId(projectId, name));
  }

  /** Starts jobs in this order. */
  async start(orders: readonly JobOrder[]): Promise<void> {
    await eachOf(orders, ({ name, projectId, priority }) => {
      const input = { projectId, prompt: name, ...(priority && { priority }) };
      const options = agentJobStartOptions(input, { key: name, taskQueue: TASK_QUEUE });
      return this.client.workflow.start('agentJob', options);
    });
  }

  /** Waits until so many jobs of a project were created, or wait in its queue. */
  async allAsked(projectId: string, jobs: number): Promise<void> {
    const queue = this.client.workflow.getHandle(requestQueueId({ operation: 'create', projectId }));
    for (;;) {
      // Without a queue nobody waits.
      const { waitingCount = 0 } = (await queue.query(requestQueueStateQuery).catch(() => null)) ?? {};
      if (this.createdCount(projectId) + waitingCount >= jobs) return;
      await delay(200);
    }
  }

  /** Lets time pass until the condition holds, looked at after each slice; false where it still does not. */
  async passUntil(holds: () => boolean, mostMs: number): Promise<boolean> {
    const endsAt = (await this.time.now()) + mostMs;
    while (!holds()) {
      if ((await this.time.now()) >= endsAt) return false;
      await this.time.pass(SLICE_MS);
      // Whoever speaks with the server on their own, such as a report to the queue, needs a moment.
      await delay(5);
    }
    return true;
  }

  /** As a person would settle writes in doubt, who looks at the upstream. Returns how many there were. */
  async settleDoubts(orders: readonly JobOrder[]): Promise<number> {
    let settled = 0;
    await eachOf(orders, async ({ projectId, name }) => {
      const job = this.#job({ projectId, name });
      if ((await job.describe()).status.name !== 'RUNNING' || !(await job.query(jobStateQuery)).unknown) return;
      const [created] = await this.upstream.sandbox.creates({ projectId, promptIncludes: name });
      const action = created ? ({ action: 'adopt', jobId: created.id } as const) : ({ action: 'retry' } as const);
      await job.executeUpdate(resolveUnknownUpdate, { args: [action] });
      settled += 1;
    });
    return settled;
  }

  /** Creates that the upstream answered, in order. */
  creates(projectId: string): SeenRequest[] {
    return this.upstream.seen.filter((one) => one.operation === 'create' && one.projectId === projectId);
  }

  createdCount(projectId: string): number {
    return this.creates(projectId).filter(({ status }) => status < 300).length;
  }

  async outcomes(orders: readonly JobOrder[]): Promise<Record<string, number>> {
    const counts: Record<string, number> = {};
    await eachOf(orders, async (order) => {
      const { status } = await this.#job(order).describe();
      const outcome = status.name === 'COMPLETED' ? (await this.#job(order).result()).outcome : status.name;
      counts[outcome] = (counts[outcome] ?? 0) + 1;
    });
    return counts;
  }

  /** When each job was started, in milliseconds of virtual time, by its name. */
  async startTimes(orders: readonly JobOrder[]): Promise<Map<string, number>> {
    const times = new Map<string, number>();
    await eachOf(orders, async (order) => {
      times.set(order.name, (await this.#job(order).describe()).startTime.getTime());
    });
    return times;
  }

  /** The history of a job, and how often it holds the job's prompt. */
  async history(order: JobOrder): Promise<{ events: HistoryEvents; prompts: number }> {
    const { events } = await this.#job(order).fetchHistory();
    const prompts = textsIn(events).filter((text) => text.includes(`"prompt":"${order.name}"`)).length;
    return { events: events ?? [], prompts };
  }

  /** The histories of the queue of a project's creates, the newest run first. */
  async queueHistories(projectId: string): Promise<HistoryEvents[]> {
    const workflowId = requestQueueId({ operation: 'create', projectId });
    const runs: HistoryEvents[] = [];
    for (let runId: string | undefined; ;) {
      const { events } = await this.client.workflow.getHandle(workflowId, runId).fetchHistory();
      runs.push(events ?? []);
      runId = events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? undefined;
      if (!runId) return runs;
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#workers.values()].map((worker) => worker.kill()));
    await this.upstream.close();
    await this.#environment.teardown();
  }
}

async function eachOf<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  const left = items.values();
  const next = async () => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, next));
}

/** All payloads of a history, as text. */
function textsIn(value: unknown): string[] {
  if (value instanceof Uint8Array) return [Buffer.from(value).toString()];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}
