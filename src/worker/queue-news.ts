/**
 * Tells the queues of writes of budgets that have changed. A queue hears of budgets with the messages of writes, and
 * those that wait send none. Nothing is told where no queue runs.
 */
import { Client, type WorkflowExecutionInfo } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import type { BudgetedWrites, Budgets } from '../activities/agent-job/budgets.js';
import { openPayloadKeys, type WorkerConfig } from '../config.js';
import {
  AGENT_JOB_WORKFLOW,
  pollNowSignal,
  reportRequestSignal,
  REQUEST_QUEUE_WORKFLOW,
  requestQueueId,
  type RequestQueueState,
  requestQueueStateQuery,
  SEARCH_ATTRIBUTE,
} from '../contract.js';
import { payloadCodecs } from '../temporal/payload-codec.js';
import { askWorkflow } from '../temporal/workflow-clients.js';
import { every } from './every.js';
import type { Logger } from './logging.js';

interface WatchBudgetsOptions {
  config: Pick<WorkerConfig, 'budgets' | 'payloadKeysFile' | 'roles' | 'taskQueue' | 'temporal'>;
  connection: NativeConnection;
  budgets: Budgets;
  log: Logger;
}

const LOOK_INTERVAL_MS = 5_000;
/** Whatever has changed, 50 workers make 250 requests a second at most. */
const MOST_TOLD_A_LOOK = 25;
/** So many queues are asked by a worker that starts. */
const MOST_ASKED = 100;
/** A queue believes after a quarter of an hour that none is set any more; other workers may see the file later. */
const NONE_AFTER_MS = 17 * 60_000;
const CALL_LIMIT_MS = 10_000;

/** Looks now and then for budgets that have changed, once for queues that know others; returns what stops that. */
export function watchBudgets(options: WatchBudgetsOptions): () => void {
  const { config, connection, budgets, log } = options;
  const { roles, taskQueue, temporal, payloadKeysFile } = config;
  if (!roles.includes('jobs') || Object.keys(config.budgets).length === 0) return () => {};
  const dataConverter = payloadCodecs(openPayloadKeys(payloadKeysFile));
  const client = new Client({ connection, namespace: temporal.namespace, dataConverter });
  const news = new BudgetNews({ client, taskQueue, budgets, log });
  // What holds now is no news.
  const began = budgets.changes();
  const look = async (stopped: AbortSignal) => {
    await began;
    await news.look(stopped);
  };
  // By then this worker answers for queues, too. Workers that start together do not ask together.
  return every(LOOK_INTERVAL_MS, look, { firstMs: LOOK_INTERVAL_MS * (1 + Math.random()) });
}

interface BudgetNewsOptions {
  client: Client;
  taskQueue: string;
  budgets: Pick<Budgets, 'changes' | 'facts'>;
  log: Pick<Logger, 'debug' | 'warn'>;
  /** Milliseconds. */
  now?: () => number;
}

export class BudgetNews {
  readonly #client: Client;
  readonly #taskQueue: string;
  readonly #budgets: BudgetNewsOptions['budgets'];
  readonly #log: BudgetNewsOptions['log'];
  readonly #now: () => number;
  /** Whom to tell, by workflow id, and from when on. */
  readonly #due = new Map<string, { writes: BudgetedWrites; at: number }>();
  /** The queues were asked what they know, or are just being asked. */
  #isAsked = false;
  #hasWarned = false;

  constructor({ client, taskQueue, budgets, log, now = () => performance.now() }: BudgetNewsOptions) {
    this.#client = client;
    this.#taskQueue = taskQueue;
    this.#budgets = budgets;
    this.#log = log;
    this.#now = now;
  }

  async look(stopped: AbortSignal): Promise<void> {
    try {
      for (const writes of inAnyOrder(await this.#budgets.changes())) await this.#add(writes);
      await this.#tellDue(stopped);
      this.#hasWarned = false;
    } catch (error) {
      if (!stopped.aborted) this.#warn(error);
    }
    // After the news, so that nothing is told twice; what changes next does not wait for the answers.
    if (!this.#isAsked) void this.#askQueues(stopped);
  }

  async #add(writes: BudgetedWrites): Promise<void> {
    const at = this.#now() + ((await this.#isSet(writes)) ? 0 : NONE_AFTER_MS);
    this.#due.set(requestQueueId(writes), { writes, at });
  }

  async #isSet({ operation, projectId }: BudgetedWrites): Promise<boolean> {
    const { perHour, isUnlimited } = await this.#budgets.facts(operation, projectId);
    return perHour !== null || isUnlimited === true;
  }

  /** This worker may have other settings than the one before it. */
  async #askQueues(stopped: AbortSignal): Promise<void> {
    this.#isAsked = true;
    try {
      for await (const workflowId of this.#openQueues()) {
        if (stopped.aborted) return;
        const writes = await this.#misinformed(workflowId);
        if (writes) await this.#add(writes);
      }
      this.#log.debug({ behind: [...this.#due.keys()] }, 'Looked which queues of writes know another budget');
    } catch (error) {
      this.#isAsked = false;
      if (!stopped.aborted) this.#warn(error);
    }
  }

  async *#openQueues(): AsyncGenerator<string, void, undefined> {
    const isOwn = `TaskQueue = '${this.#taskQueue.replaceAll("'", "''")}'`;
    const query = `WorkflowType = '${REQUEST_QUEUE_WORKFLOW}' AND ExecutionStatus = 'Running' AND ${isOwn}`;
    let queues = 0;
    for await (const { workflowId } of this.#client.workflow.list({ query, pageSize: MOST_ASKED })) {
      if (queues === MOST_ASKED) return;
      queues += 1;
      yield workflowId;
    }
  }

  /** Null where nobody waits, the queue knows what is set here, and where nothing is. */
  async #misinformed(workflowId: string): Promise<BudgetedWrites | null> {
    // One that does not answer has other troubles.
    const state = await this.#stateOf(workflowId).catch(() => null);
    if (!state || state.projectId === null || state.operation === 'visitors' || state.waitingCount === 0) return null;
    const writes = { operation: state.operation, projectId: state.projectId };
    if (!(await this.#isSet(writes))) return null;
    const { perHour } = await this.#budgets.facts(writes.operation, writes.projectId);
    // A budget that was learned hides the one that was told.
    return state.isLearned || state.perHour !== perHour ? writes : null;
  }

  #stateOf(workflowId: string): Promise<RequestQueueState> {
    const ask = () => askWorkflow(this.#client, { workflowId }, requestQueueStateQuery);
    return this.#client.withDeadline(Date.now() + CALL_LIMIT_MS, ask);
  }

  /** One after the other. What can't be told is told later, after the others. */
  async #tellDue(stopped: AbortSignal): Promise<void> {
    const due = [...this.#due].filter(([, { at }]) => at <= this.#now()).slice(0, MOST_TOLD_A_LOOK);
    for (const [id, news] of due) {
      if (stopped.aborted) return;
      this.#due.delete(id);
      try {
        await this.#tell(news.writes);
      } catch (error) {
        this.#due.set(id, news);
        throw error;
      }
    }
  }

  /** Every worker tells: one that has seen the change later may have told the old budget meanwhile. */
  async #tell({ operation, projectId }: BudgetedWrites): Promise<void> {
    const queue = this.#client.workflow.getHandle(requestQueueId({ operation, projectId }));
    const facts = await this.#budgets.facts(operation, projectId);
    const message = { turn: null, outcome: 'unsent', at: Date.now(), ...facts } as const;
    try {
      await this.#client.withDeadline(Date.now() + CALL_LIMIT_MS, () => queue.signal(reportRequestSignal, message));
    } catch (error) {
      // No queue runs: nobody waits.
      if (!(error instanceof Error && error.name === 'WorkflowNotFoundError')) throw error;
    }
  }

  /** Once in a row: an outage of Temporal shows elsewhere too. */
  #warn(error: unknown): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    this.#log.warn({ error }, 'Could not tell the queues of writes which budgets are set: tries again');
  }
}

/** Where much has changed, each of many workers begins with others. */
function inAnyOrder<Item>(items: readonly Item[]): Item[] {
  return items
    .map((item) => ({ item, by: Math.random() }))
    .toSorted((a, b) => a.by - b.by)
    .map(({ item }) => item);
}

// Finds the jobs whose queue is gone: somebody terminated it, to have it forget what it learned. They hear nothing,
// and would ask again after hours; a worker has them ask at once.

const LOST_QUEUES_INTERVAL_MS = 120_000;

interface WatchLostQueuesOptions {
  config: Pick<WorkerConfig, 'payloadKeysFile' | 'roles' | 'taskQueue' | 'temporal'>;
  connection: NativeConnection;
  log: Logger;
}

/** Looks every two minutes; returns what stops that. */
export function watchLostQueues({ config, connection, log }: WatchLostQueuesOptions): () => void {
  const { roles, taskQueue, temporal, payloadKeysFile } = config;
  if (!roles.includes('jobs')) return () => {};
  const dataConverter = payloadCodecs(openPayloadKeys(payloadKeysFile));
  const client = new Client({ connection, namespace: temporal.namespace, dataConverter });
  const look = async (stopped: AbortSignal) => {
    const asked = await wakeWaiters(client, taskQueue, stopped);
    if (asked > 0) log.info({ jobs: asked }, 'Jobs waited for a queue that is gone: they ask for their turn again');
  };
  const onError = (error: unknown) => log.debug({ error }, 'Could not look for jobs whose queue is gone');
  // Workers that start together do not look together.
  return every(LOST_QUEUES_INTERVAL_MS, look, { firstMs: LOST_QUEUES_INTERVAL_MS * (0.5 + Math.random()), onError });
}

/** Has the jobs whose queue does not run ask for their turn again; returns how many. */
export async function wakeWaiters(client: Client, taskQueue: string, stopped: AbortSignal): Promise<number> {
  const isLost = new Map<string, boolean>();
  let asked = 0;
  for await (const run of client.workflow.list({ query: waitingJobs(taskQueue) })) {
    if (stopped.aborted) break;
    const queueId = queueOf(run);
    if (queueId === null) continue;
    if (!isLost.has(queueId)) isLost.set(queueId, await isGone(client, queueId));
    if (!isLost.get(queueId)) continue;
    await client.workflow.getHandle(run.workflowId).signal(pollNowSignal);
    asked += 1;
  }
  return asked;
}

/** The id of the queue that it waits in; null where its attributes do not tell. */
function queueOf({ typedSearchAttributes }: WorkflowExecutionInfo): string | null {
  const values = new Map(typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]));
  const projectId = values.get(SEARCH_ATTRIBUTE.project);
  if (typeof projectId !== 'string') return null;
  const operation = values.get(SEARCH_ATTRIBUTE.phase) === 'creating' ? 'create' : 'message';
  return requestQueueId({ operation, projectId });
}

function waitingJobs(taskQueue: string): string {
  const isOwn = `TaskQueue = '${taskQueue.replaceAll("'", "''")}'`;
  const waits = `${SEARCH_ATTRIBUTE.waitingFor} IN ('turn', 'rateLimit')`;
  return `WorkflowType = '${AGENT_JOB_WORKFLOW}' AND ExecutionStatus = 'Running' AND ${isOwn} AND ${waits}`;
}

async function isGone(client: Client, queueId: string): Promise<boolean> {
  try {
    const queue = client.workflow.getHandle(queueId);
    const { status } = await client.withDeadline(Date.now() + CALL_LIMIT_MS, () => queue.describe());
    return status.name !== 'RUNNING';
  } catch (error) {
    return error instanceof Error && error.name === 'WorkflowNotFoundError';
  }
}
