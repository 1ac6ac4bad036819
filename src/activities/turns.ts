/**
 * Decides whether what wants to be sent must have a turn of its queue first: a write, or a chunk of an export. Asks for
 * turns, and reports what became of them. No call to a queue throws, and each is bounded: a queue that can't be reached
 * holds nothing up unless a budget is set.
 */
import { activityInfo, Context } from '@temporalio/activity';
import {
  joinQueueSignal,
  queuePlaceQuery,
  REQUEST_QUEUE_WORKFLOW,
  reportRequestSignal,
  requestQueueId,
  type JoinRequest,
  type Priority,
  type QueueName,
  type RequestReport,
  type Turn,
} from '../contract.js';
import { queueSummary } from '../agent-job/web-ui-text.js';
import type { BudgetFacts } from '../contract/request-queue.js';
import type { Queued } from '../contract/write-outcome.js';
import type { AttemptClock } from '../temporal/activity-attempt.js';
import { isOpen } from '../temporal/visibility.js';
import { queryAgain } from '../temporal/workflow-clients.js';

/** How a workflow asks for its turn. */
export interface TurnRequest {
  priority: Priority;
  /** When it first wanted to send, in milliseconds of the server's clock: the order within a priority. */
  askedAt: number;
  /** The turn that the queue gave it; null if none came. */
  turn: Turn | null;
  /** It has waited for a turn longer than it should: a queue that does not answer holds it no more. */
  isOverdue: boolean;
}

/** What an activity wants to send. */
export interface WantedTurn extends TurnRequest {
  name: QueueName;
  clock: AttemptClock;
  /** The number of requests; default 1. */
  requests?: number;
  /** The task queue of the queue's workflow; default: the activity's. */
  taskQueue?: string;
  /** Says to the server that nothing was sent, so that no other attempt uses the turn; false if one may. */
  confirmUnsent?: () => Promise<boolean>;
}

/** How a turn was used, for the queue. */
export type Used = Pick<RequestReport, 'outcome' | 'requests' | 'retryAfterMs'>;

/** What became of something that was sent. */
export interface Sent<T> {
  result: T;
  used: Used;
  /** The workflow will send more, and asks for the next turn as soon as this is known. */
  asksAgain: boolean | Promise<boolean>;
}

/** Nothing was sent. `held` is its place: null if a budget is set, and the Temporal server did not take the request. */
export interface Held {
  held: Queued | null;
}

/** `queued` is the place of the next request; null if none was asked for, or no queue took it. */
type TurnResult<T> = { result: T; queued: Queued | null } | Held;

type BudgetOf = (name: QueueName) => BudgetFacts | Promise<BudgetFacts>;

/** The limit to join and learn the place, even among thousands: the attempt of a write has 45 s in all. */
const JOIN_LIMIT_MS = 10_000;
/** The limit is short: the write waits for the answer. */
const CHECK_QUEUE_LIMIT_MS = 2_000;
const REPORT_LIMIT_MS = 10_000;
/** A queue that has ended, or that another worker began, is noticed within this time. */
const CHECK_QUEUE_EVERY_MS = 30_000;
/** A worker that serves every project keeps little. */
const MAX_REMEMBERED = 10_000;
/** Thousands of workflows ask one queue for turns: the queue's tasks go before theirs. */
const BEFORE_ALL = { priorityKey: 1 } as const;

/** The turns of one worker. It remembers no budgets, only which queues run. */
export class Turns {
  readonly #budgetOf: BudgetOf;
  /** Whether a queue runs, as the server said; after a 429, whether it could be joined. */
  readonly #running = new Map<string, { answer: Promise<boolean>; askedAt: number }>();

  /** @param budgetOf The budget that is set, which goes with each message. */
  constructor(budgetOf: BudgetOf) {
    this.#budgetOf = budgetOf;
  }

  /** Sends with the turn that was given, or without one if none is needed; asks for one that is needed and missing. */
  async withTurn<T>(wanted: WantedTurn, send: (turn: Turn | null) => Promise<Sent<T>>): Promise<TurnResult<T>> {
    const turn = usableTurn(wanted);
    const held = turn ? null : await this.askIfNeeded(wanted);
    if (held) return held;
    const { result, used, asksAgain } = await send(turn);
    const report = { ...used, turn: turn?.id ?? null, at: Math.round(wanted.clock.late()) };
    if (asksAgain === false) {
      if (turn && used.outcome === 'unsent') await this.giveBack(wanted);
      else if (turn) void this.#report(wanted.name, report);
      return { result, queued: null };
    }
    const joining = Promise.resolve(asksAgain).then((asks) => (asks ? this.#join(wanted, report) : null));
    // From now on others ask the queue, too.
    const isRunning = joining.then((queued) => queued !== null || null);
    void this.#remember(wanted, isRunning);
    return { result, queued: await joining };
  }

  /** Asks for a turn if a budget is set or a queue runs; null if nothing holds what wants to be sent. */
  async askIfNeeded(wanted: WantedTurn): Promise<Held | null> {
    // A budget that is set is kept, whether the queue can be asked or not.
    const isSet = isLimited(await this.#budgetOf(wanted.name));
    if (!isSet && !(await this.#isRunning(wanted))) return null;
    const queued = await this.#join(wanted, await unused(wanted));
    return queued || isSet ? { held: queued } : null;
  }

  /** Gives back a turn that is not used. Resolves once no other attempt can use it. */
  async giveBack(wanted: WantedTurn): Promise<void> {
    const report = await unused(wanted);
    if (report) void this.#report(wanted.name, report);
  }

  /** Whether a queue orders such requests; false if that is not known. */
  #isRunning(wanted: WantedTurn): Promise<boolean> {
    const known = this.#running.get(requestQueueId(wanted.name));
    if (known && wanted.clock.monotonic() - known.askedAt < CHECK_QUEUE_EVERY_MS) return known.answer;
    return this.#remember(wanted, isQueueOpen(wanted.name));
  }

  /** An unknown answer holds nothing, and the next one asks anew. */
  #remember({ name, clock }: WantedTurn, asked: Promise<boolean | null>): Promise<boolean> {
    const id = requestQueueId(name);
    const answer = asked.then((isRunning) => {
      if (isRunning === null && this.#running.get(id)?.answer === answer) this.#running.delete(id);
      return isRunning ?? false;
    });
    if (this.#running.size >= MAX_REMEMBERED) this.#running.clear();
    this.#running.set(id, { answer, askedAt: clock.monotonic() });
    return answer;
  }

  /**
   * Joins the queue, and starts it if none runs. Null if no queue holds what wants to be sent: the server does not
   * confirm the request, or no number is set and the queue does not answer one that is overdue.
   */
  async #join(wanted: WantedTurn, report: RequestReport | null): Promise<Queued | null> {
    const { name, priority, askedAt, requests = 1, isOverdue } = wanted;
    const { client, info } = Context.current();
    const budget = await this.#budgetOf(name);
    const workflowId = ownWorkflowId();
    const request: JoinRequest = { workflowId, priority, askedAt: Math.round(askedAt), requests, report, ...budget };
    const start = {
      workflowId: requestQueueId(name),
      taskQueue: wanted.taskQueue ?? info.taskQueue,
      args: [name],
      signal: joinQueueSignal,
      signalArgs: [request] as [JoinRequest],
      priority: BEFORE_ALL,
      staticSummary: queueSummary(name),
    };
    const deadline = Date.now() + JOIN_LIMIT_MS;
    const joining = within(deadline, () => client.workflow.signalWithStart(REQUEST_QUEUE_WORKFLOW, start));
    const isConfirmed = await joining.then(
      () => true,
      () => false,
    );
    if (!isConfirmed) return null;
    // Null if the sender no longer waits: its turn is on the way.
    const asking = within(deadline, () => queryAgain(() => queueOf(name).query(queuePlaceQuery, workflowId)));
    const place = await asking.catch(() => undefined);
    const isSilent = place === undefined && !isLimited(budget);
    return isOverdue && isSilent ? null : { for: 'turn', ...place };
  }

  /** A lost report does no harm: the queue counts the turn as used. */
  async #report(name: QueueName, report: RequestReport): Promise<void> {
    const reporting = within(Date.now() + REPORT_LIMIT_MS, async () =>
      queueOf(name).signal(reportRequestSignal, { ...report, ...(await this.#budgetOf(name)) }),
    );
    await reporting.catch(() => {});
  }
}

/** Whether a number is set: then each request needs a turn. */
export function isLimited({ perHour, perDay }: BudgetFacts): boolean {
  return typeof perHour === 'number' || typeof perDay === 'number';
}

/** The turn, if this attempt may use it: it still holds, and no attempt before may have used it. */
export function usableTurn({ turn, clock }: Pick<WantedTurn, 'turn' | 'clock'>): Turn | null {
  return turn && !isUsed() && clock.server() < turn.until ? turn : null;
}

/** No byte leaves without a mark: after one, a worker that died may have used the turn. */
function isUsed(): boolean {
  return activityInfo().heartbeatDetails !== undefined;
}

/** How a turn is reported that this attempt does not use; null if another attempt may use it: the queue counts it. */
async function unused({ turn, clock, confirmUnsent }: WantedTurn): Promise<RequestReport | null> {
  if (!turn) return null;
  const outcome = isUsed() ? 'other' : 'unsent';
  if (outcome === 'unsent' && confirmUnsent && !(await confirmUnsent())) return null;
  return { turn: turn.id, outcome, at: Math.round(clock.late()) };
}

/** Whether a queue is there; null if that is not known. */
async function isQueueOpen(name: QueueName): Promise<boolean | null> {
  try {
    const { status } = await within(Date.now() + CHECK_QUEUE_LIMIT_MS, () => queueOf(name).describe());
    return isOpen(status.name);
  } catch (error) {
    return error instanceof Error && error.name === 'WorkflowNotFoundError' ? false : null;
  }
}

function ownWorkflowId(): string {
  return activityInfo().workflowExecution?.workflowId ?? '';
}

function queueOf(name: QueueName) {
  return Context.current().client.workflow.getHandle(requestQueueId(name));
}

async function within<T>(deadline: number, call: () => Promise<T>): Promise<T> {
  return Context.current().client.withDeadline(deadline, call);
}
