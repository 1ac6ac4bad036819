/**
 * Tells the queues of writes of budgets that have changed. A queue hears of budgets with the messages of writes, and
 * those that wait send none. Nothing is told where no queue runs.
 */
import { type Client, type WorkflowExecutionInfo, WorkflowNotFoundError } from '@temporalio/client';
import type { BudgetedWrites, Budgets } from '../activities/agent-job/budgets.js';
import {
  AGENT_JOB_WORKFLOW,
  pollNowSignal,
  reportRequestSignal,
  REQUEST_QUEUE_WORKFLOW,
  requestQueueId,
  requestQueueStateQuery,
  SEARCH_ATTRIBUTE,
} from '../contract.js';
import { IS_OPEN, isOpen } from '../temporal/open-workflows.js';
import { askWorkflow } from '../temporal/workflow-clients.js';
import { every } from './every.js';
import type { Logger } from './logging.js';

const LOOK_INTERVAL_MS = 5_000;
/** Whatever has changed, 50 workers make 250 requests a second at most. */
const MOST_TOLD_A_LOOK = 25;
/** So many queues are asked by a worker that starts. */
const MOST_ASKED = 100;
/** A queue believes after a quarter of an hour that none is set any more; other workers may see the file later. */
const NONE_AFTER_MS = 17 * 60_000;
const CALL_LIMIT_MS = 10_000;

interface BudgetNewsOptions {
  client: Client;
  taskQueue: string;
  budgets: Pick<Budgets, 'changes' | 'facts'>;
  log: Pick<Logger, 'debug' | 'warn'>;
  /** Milliseconds. */
  now?: () => number;
}

/** Looks now and then for budgets that have changed, once for queues that know others; returns what stops that. */
export function watchBudgets(options: BudgetNewsOptions): () => void {
  const news = new BudgetNews(options);
  // What holds now is no news.
  const began = options.budgets.changes();
  const look = async (stopped: AbortSignal) => {
    await began;
    await news.look(stopped);
  };
  const onError = (error: unknown) =>
    options.log.warn({ error }, 'Could not tell the queues of writes which budgets are set: tries again');
  // By then this worker answers for queues, too. Workers that start together do not ask together.
  return every(LOOK_INTERVAL_MS, look, { firstMs: LOOK_INTERVAL_MS * (1 + Math.random()), onError });
}

export class BudgetNews {
  readonly #options: BudgetNewsOptions;
  readonly #now: () => number;
  /** Of whose queues to tell, by workflow id, and from when on. */
  readonly #due = new Map<string, { writes: BudgetedWrites; at: number }>();
  /** The queues were asked what they know, or are just being asked. */
  #isAsked = false;

  constructor(options: BudgetNewsOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  async look(stopped: AbortSignal): Promise<void> {
    for (const writes of await this.#options.budgets.changes()) await this.#add(writes);
    try {
      await this.#tellDue(stopped);
    } finally {
      // After the news, so that nothing is told twice; what changes next does not wait for the answers.
      if (!this.#isAsked) void this.#askQueues(stopped);
    }
  }

  async #add(writes: BudgetedWrites): Promise<void> {
    const at = this.#now() + ((await this.#isSet(writes)) ? 0 : NONE_AFTER_MS);
    this.#due.set(requestQueueId(writes), { writes, at });
  }

  async #isSet({ operation, projectId }: BudgetedWrites): Promise<boolean> {
    const { perHour, isUnlimited } = await this.#options.budgets.facts(operation, projectId);
    return perHour !== null || isUnlimited === true;
  }

  async #tellDue(stopped: AbortSignal): Promise<void> {
    const due = [...this.#due].filter(([, { at }]) => at <= this.#now()).slice(0, MOST_TOLD_A_LOOK);
    for (const [id, news] of due) {
      if (stopped.aborted) return;
      this.#due.delete(id);
      try {
        await this.#tell(id, news.writes);
      } catch (error) {
        // Later, after the others.
        this.#due.set(id, news);
        throw error;
      }
    }
  }

  /** This worker may have other settings than the one before it. */
  async #askQueues(stopped: AbortSignal): Promise<void> {
    const { client, taskQueue, log } = this.#options;
    this.#isAsked = true;
    let asked = 0;
    try {
      for await (const { workflowId } of client.workflow.list({
        query: runningOf(REQUEST_QUEUE_WORKFLOW, taskQueue),
        pageSize: MOST_ASKED,
      })) {
        if (stopped.aborted) return;
        if (asked++ === MOST_ASKED) break;
        const writes = await this.#misinformed(workflowId);
        if (writes) await this.#add(writes);
      }
      log.debug({ behind: [...this.#due.keys()] }, 'Looked which queues of writes know another budget');
    } catch (error) {
      this.#isAsked = false;
      if (!stopped.aborted)
        log.warn({ error }, 'Could not ask the queues of writes which budgets they know: tries again');
    }
  }

  /** Null where nobody waits, the queue knows what is set here, and where nothing is. */
  async #misinformed(workflowId: string): Promise<BudgetedWrites | null> {
    const { client, budgets } = this.#options;
    const ask = () => askWorkflow(client, { workflowId }, requestQueueStateQuery);
    // One that does not answer has other troubles.
    const state = await client.withDeadline(Date.now() + CALL_LIMIT_MS, ask).catch(() => null);
    if (!state || state.projectId === null || state.operation === 'visitors' || state.waitingCount === 0) return null;
    const writes = { operation: state.operation, projectId: state.projectId };
    if (!(await this.#isSet(writes))) return null;
    const { perHour } = await budgets.facts(writes.operation, writes.projectId);
    // A budget that was learned hides the one that was told.
    return state.isLearned || state.perHour !== perHour ? writes : null;
  }

  /** Every worker tells: one that has seen the change later may have told the old budget meanwhile. */
  async #tell(queueId: string, { operation, projectId }: BudgetedWrites): Promise<void> {
    const { client, budgets } = this.#options;
    const facts = await budgets.facts(operation, projectId);
    const message = { turn: null, outcome: 'unsent', at: Date.now(), ...facts } as const;
    const queue = client.workflow.getHandle(queueId);
    try {
      await client.withDeadline(Date.now() + CALL_LIMIT_MS, () => queue.signal(reportRequestSignal, message));
    } catch (error) {
      // No queue runs: nobody waits.
      if (!(error instanceof WorkflowNotFoundError)) throw error;
    }
  }
}

function runningOf(workflowType: string, taskQueue: string): string {
  const isOwn = `TaskQueue = '${taskQueue.replaceAll("'", "''")}'`;
  return `WorkflowType = '${workflowType}' AND ${IS_OPEN} AND ${isOwn}`;
}

// Finds the jobs whose queue is gone: somebody terminated it, to have it forget what it learned. They hear nothing,
// and would ask again after hours; a worker has them ask at once.

const LOST_QUEUES_INTERVAL_MS = 120_000;

/** Looks every two minutes; returns what stops that. */
export function watchLostQueues(client: Client, taskQueue: string, log: Logger): () => void {
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
  const isWaiting = `${SEARCH_ATTRIBUTE.waitingFor} IN ('turn', 'rateLimit')`;
  const query = `${runningOf(AGENT_JOB_WORKFLOW, taskQueue)} AND ${isWaiting}`;
  for await (const run of client.workflow.list({ query })) {
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

async function isGone(client: Client, queueId: string): Promise<boolean> {
  try {
    const queue = client.workflow.getHandle(queueId);
    const { status } = await client.withDeadline(Date.now() + CALL_LIMIT_MS, () => queue.describe());
    return !isOpen(status.name);
  } catch (error) {
    return error instanceof WorkflowNotFoundError;
  }
}
