/**
 * The workflow `requestQueue`. Decides when it sends turns, ends and continues as new. The room `request-queue` decides
 * when the next turn may be given, whose it is, and what its queries answer.
 */
import {
  CancellationScope,
  condition,
  continueAsNew,
  getExternalWorkflowHandle,
  log,
  setHandler,
  sleep,
  uuid4,
  workflowInfo,
} from '@temporalio/workflow';
import {
  joinQueueSignal,
  queuePlaceQuery,
  reportRequestSignal,
  requestQueueStateQuery,
  requestTurnSignal,
  type QueueName,
  type RequestQueueInput,
  type Turn,
} from '../contract.js';
import { validated } from '../agent-job/closed-run.js';
import { InvalidInputError } from '../contract/errors.js';
import { parseJoin, parseQueueName, parseReport } from '../request-queue/messages.js';
import { QueueRun, type GivenTurn, type QueueData } from '../request-queue/queue-run.js';
import { queuePlace, queueState } from '../request-queue/queue-shown.js';
import { handedOn } from './handed-on.js';
import { goOnWithAnyVersion } from './worker-version.js';

/** What continue-as-new hands on, inside the input; believed only in a run that continues another. */
interface Continued extends QueueData {
  version: number;
}

/** Raised with every change of `Continued` that another release would misread. */
const CONTINUED_VERSION = 1;
/** When many join at once, more messages come than a task may miss while a longer history is replayed. */
const MAX_EVENTS = 2_000;
/** How many workflows are asked at once whether they run: each takes two events. */
const MAX_ASKED = 256;
/** Timers of a Temporal server do not fire sooner. */
const MIN_TIMER_MS = 1_000;

/**
 * Gives turns to send to an upstream that limits requests. It runs while a workflow waits, and while what
 * was sent counts. Names and shapes: docs/operations.md.
 */
export async function requestQueue(input: RequestQueueInput): Promise<void> {
  // Jobs of every version wait in it. So a change of this workflow needs `patched`.
  goOnWithAnyVersion();
  const { name, run } = open(input);
  const alarm = new Alarm();
  let underWay = 0;
  let removal: Promise<void> | null = null;
  const give = async ({ workflowId, turn }: GivenTurn) => {
    underWay += 1;
    if (!(await hasTaken(workflowId, turn))) {
      await (removal ??= removeEnded(run).finally(() => (removal = null)));
      run.report({ turn: turn.id, outcome: 'unsent', at: Date.now() });
    }
    underWay -= 1;
    alarm.ring();
  };
  handleMessages(name, run, alarm.ring);
  for (;;) {
    const lost = run.expireTurns();
    if (lost > 0) log.warn('Turns were not reported: their requests count as sent', { requests: lost });
    const mustContinue = workflowInfo().continueAsNewSuggested || workflowInfo().historyLength > MAX_EVENTS;
    for (let given; !mustContinue && (given = run.nextTurn());) void give(given);
    // No await may stand between these checks and the end of the run: a message could arrive in between, and be lost.
    if (underWay === 0 && run.isOver) return;
    if (underWay === 0 && mustContinue) {
      const continued: Continued = { version: CONTINUED_VERSION, ...run.carry() };
      await continueAsNew<typeof requestQueue>({ ...name, continued });
    }
    await alarm.next(underWay === 0 ? run.wakeAt : Infinity);
  }
}

function open(input: unknown): { name: QueueName; run: QueueRun } {
  const continued = handedOn<Continued>(input, CONTINUED_VERSION);
  const name = validated(() => parseQueueName(input));
  const empty = () => ({ name: uuid4(), nextTurn: 1, waiters: [], turns: [], budget: null, wasUsed: false });
  return { name, run: new QueueRun(name.operation, continued ?? empty(), Date.now) };
}

/** Handlers change the state alone; the loop acts on it. A message of a wrong shape is ignored. */
function handleMessages(name: QueueName, run: QueueRun, changed: () => void): void {
  const take = (signal: string, work: () => void) => {
    try {
      work();
    } catch (error) {
      if (!(error instanceof InvalidInputError)) throw error;
      log.warn(`A ${signal} signal was ignored`, { reason: error.message });
    }
    changed();
  };
  setHandler(requestQueueStateQuery, (at) => queueState(name, run, latest(at)));
  setHandler(queuePlaceQuery, (workflowId) => queuePlace(name, run, workflowId));
  setHandler(reportRequestSignal, (input) => take('reportRequest', () => run.report(parseReport(input))));
  setHandler(joinQueueSignal, (input) =>
    take('joinQueue', () => {
      for (const { workflowId } of run.join(parseJoin(input))) {
        log.warn('The queue is full: a workflow leaves it, and asks again later', { waitingWorkflowId: workflowId });
      }
    }),
  );
}

/** A query sees the time of the last workflow task, which may be long ago: the asker gives the time of its own. */
function latest(at: unknown): number {
  return Math.max(Date.now(), Number.isSafeInteger(at) ? (at as number) : 0);
}

/** False if the workflow has ended. One that runs ignores an empty turn. */
async function hasTaken(workflowId: string, turn: Turn | null): Promise<boolean> {
  try {
    await getExternalWorkflowHandle(workflowId).signal(requestTurnSignal, turn);
    return true;
  } catch {
    log.info('A workflow that waited for a turn has ended', { waitingWorkflowId: workflowId });
    return false;
  }
}

/**
 * When one workflow has ended, many may have: a person cancels a batch. A turn for each, one after the other, would
 * hold up those behind them. So empty turns ask the next one, two, four, … workflows, until one of them runs.
 */
async function removeEnded({ waiters }: QueueRun): Promise<void> {
  for (let count = 1; count <= MAX_ASKED; count *= 2) {
    const asked = waiters.head(count);
    const areOpen = await Promise.all(asked.map(({ workflowId }) => hasTaken(workflowId, null)));
    for (const [i, waiter] of asked.entries()) if (!areOpen[i]) waiters.removeUnlessNew(waiter);
    if (asked.length < count || areOpen.includes(true)) return;
  }
}

/** Wakes the loop: at a message, or at a time. At most one timer runs, and one that rings too early is left alone. */
class Alarm {
  #rings = false;
  #timer: { at: number; scope: CancellationScope } | null = null;

  readonly ring = (): void => {
    this.#rings = true;
  };

  async next(at: number): Promise<void> {
    if (at < (this.#timer?.at ?? Infinity)) this.#set(Math.max(at, Date.now() + MIN_TIMER_MS));
    await condition(() => this.#rings);
    this.#rings = false;
  }

  #set(at: number): void {
    this.#timer?.scope.cancel();
    const scope = new CancellationScope();
    this.#timer = { at, scope };
    void scope
      .run(() => sleep(at - Date.now(), { summary: 'Check who may send' }))
      .then(() => {
        this.#timer = null;
        this.ring();
      })
      .catch(() => {});
  }
}
