import {
  ApplicationFailure,
  CancellationScope,
  condition,
  log,
  makeContinueAsNewFunc,
  setCurrentDetails,
  setHandler,
  sleep,
  uuid4,
  workflowInfo,
} from '@temporalio/workflow';
import {
  FAILURE,
  joinQueueSignal,
  leaveQueueSignal,
  queuePlaceQuery,
  reportRequestSignal,
  requestQueueStateQuery,
  type QueueName,
  type RequestQueueInput,
  type RequestReport,
} from '../../contract.js';
import { InvalidInputError } from '../../contract/input-checks.js';
import { parseJoin, parseLeave, parseQueueName, parseReport } from '../../agent-job/queue-messages.js';
import { isNewRunWanted, isOtherVersionCurrent, leaveVersion, nextRunVersion } from '../worker-version.js';
import { QueueRun, type QueueData } from './queue-run.js';
import { queueDetails, queuePlace, queueState } from './queue-state.js';
import { TurnSender } from './turn-sender.js';

/** What continue-as-new hands on, inside the input; believed only in a run that continues another. */
interface Continued extends QueueData {
  version: number;
}

/** Raised with every change of `Continued` that another release would misread. */
const CONTINUED_VERSION = 1;
/** Where many join at once, a longer history takes so long to replay that more messages come than a task may miss. */
const MAX_EVENTS = 2_000;
/** Timers of a Temporal server do not fire sooner. */
const MIN_TIMER_MS = 1_000;

/**
 * Who may send next, where the upstream takes only so many requests an hour. It runs while somebody waits, and while
 * what was sent in the last hour counts. Names and shapes: docs/contract.md.
 */
export async function requestQueue(input: RequestQueueInput): Promise<void> {
  const { name, run } = open(input);
  const alarm = new Alarm();
  const sender = new TurnSender(run, name, alarm.ring);
  handleMessages(name, run, alarm.ring);
  for (;;) {
    expireTurns(run);
    const mustContinue = isNewRunWanted() || workflowInfo().historyLength > MAX_EVENTS;
    if (!mustContinue) sender.giveTurns();
    setCurrentDetails(queueDetails(name, run));
    // No await may stand between these checks and the end of the run: a message could arrive in between, and be lost.
    if (sender.isIdle && run.isOver) return leaveVersion();
    if (sender.isIdle && mustContinue) await continueRun(nextInput(name, run));
    await alarm.next(sender.isIdle ? run.wakeAt : Infinity, () => sender.isIdle && isOtherVersionCurrent());
  }
}

function continueRun(input: RequestQueueInput): Promise<never> {
  return makeContinueAsNewFunc<typeof requestQueue>(nextRunVersion())(input);
}

function open(input: unknown): { name: QueueName; run: QueueRun } {
  try {
    const name = parseQueueName(input);
    const { continued } = input as { continued?: Continued };
    if (!continued || workflowInfo().continuedFromExecutionRunId === undefined) {
      return { name, run: new QueueRun(emptyQueue(), Date.now) };
    }
    checkVersion(continued);
    return { name, run: new QueueRun(continued, Date.now) };
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    throw ApplicationFailure.nonRetryable(error.message, FAILURE.invalidInput, { field: error.field });
  }
}

function emptyQueue(): QueueData {
  return { name: uuid4(), nextTurn: 1, waiters: [], turns: [], budget: null, wasUsed: false };
}

/** A worker of another release must not guess: the workflow task fails, and a worker of the right one takes it up. */
function checkVersion({ version }: Continued): void {
  if (version === CONTINUED_VERSION) return;
  throw new Error(`another release continued this queue (version ${version}, not ${CONTINUED_VERSION}): run it there`);
}

function nextInput(name: QueueName, run: QueueRun): RequestQueueInput {
  const continued: Continued = { version: CONTINUED_VERSION, ...run.carry() };
  return { ...name, continued };
}

/** Handlers change the state alone; the loop acts on it. */
function handleMessages(name: QueueName, run: QueueRun, changed: () => void): void {
  setHandler(requestQueueStateQuery, () => queueState(name, run));
  setHandler(queuePlaceQuery, (workflowId) => queuePlace(run, workflowId));
  setHandler(reportRequestSignal, (input) => {
    take('reportRequest', () => run.report(asToldLate(run, parseReport(input))));
    changed();
  });
  setHandler(leaveQueueSignal, (input) => {
    take('leaveQueue', () => run.leave(parseLeave(input)));
    changed();
  });
  setHandler(joinQueueSignal, (input) => {
    take('joinQueue', () => {
      const { report, ...join } = parseJoin(input);
      for (const { workflowId } of run.join({ ...join, ...(report && { report: asToldLate(run, report) }) })) {
        log.warn('The queue is full: a workflow waits no more, and tries by itself', { waiting: workflowId });
      }
    });
    changed();
  });
}

/**
 * What is told after the end of its turn corrects nothing, but a time that the upstream named is obeyed: as if its
 * request had had no turn.
 */
function asToldLate<Report extends RequestReport>(run: QueueRun, report: Report): Report {
  const namesTime = report.outcome === 'throttled' && report.retryAfterMs !== undefined;
  return namesTime && run.hasEnded(report.turn) ? { ...report, turn: null } : report;
}

function take(signal: string, work: () => void): void {
  try {
    work();
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    log.warn(`A ${signal} signal was ignored`, { reason: error.message });
  }
}

function expireTurns(run: QueueRun): void {
  const requests = run.expireTurns();
  if (requests > 0) log.warn('Turns were not reported: their requests count as sent', { requests });
}

/** Wakes the loop: at a message, or at a time. At most one timer runs, and one that rings too early is left alone. */
class Alarm {
  #rings = false;
  #timer: { at: number; scope: CancellationScope } | null = null;

  readonly ring = (): void => {
    this.#rings = true;
  };

  async next(at: number, mustWake: () => boolean): Promise<void> {
    if (at < (this.#timer?.at ?? Infinity)) this.#set(Math.max(at, Date.now() + MIN_TIMER_MS));
    await condition(() => this.#rings || mustWake());
    this.#rings = false;
  }

  #set(at: number): void {
    this.#timer?.scope.cancel();
    const scope = new CancellationScope();
    this.#timer = { at, scope };
    void scope
      .run(() => sleep(at - Date.now(), { summary: 'Look who may send' }))
      .then(() => {
        this.#timer = null;
        this.ring();
      })
      .catch(() => {});
  }
}
