/**
 * Decides whether a write may leave now. None may while another that was refused holds its kind. If a budget is set or
 * a queue runs, the write needs a turn. Otherwise a worker sends few writes of a project and kind at a time, so that a
 * burst beyond the upstream's limit meets few answers 429. A worker remembers no budgets, only which queues run.
 */
import type { Queued, WriteOutcome } from '../../contract/write-outcome.js';
import type { Priority, RequestReport } from '../../contract.js';
import { UNLIMITED } from '../../contract/request-queue.js';
import { tryLater, type AttemptClock } from '../../temporal/activity-attempt.js';
import type { WriteOperation } from '../metrics.js';
import { QueueClient } from '../queue-client.js';
import type { Budgets } from './budgets.js';
import type { KeyHealth } from './key-health.js';
import { confirmNotAccepted } from './write-fence.js';

/** A write that wants to be sent. Times in milliseconds of the Temporal server's clock. */
export interface WantedSend {
  operation: WriteOperation;
  projectId: string;
  /** The workflow, which has one write at a time. */
  workflowId: string;
  priority: Priority;
  askedAt: number;
  /** The turn that the queue gave it: whether an attempt before may have used it, and whether it still holds. */
  turn: { id: string; isUsed: boolean; isValid: boolean } | null;
  /** It has waited for a turn longer than it should: a queue that does not answer holds it no more. */
  isOverdue: boolean;
  clock: AttemptClock;
}

/** Sends a write, with the fence around its last byte. */
type FencedSend = () => Promise<WriteOutcome>;

interface GateOptions {
  keys: KeyHealth;
  budgets: Budgets;
  /** Ends waits inside of this worker. */
  shutdownSignal: AbortSignal;
}

/** So many writes are sent at a time without a queue: so many answers 429 may come at once. */
const MAX_SENDING = 8;
/** The same if a setting says that the upstream takes any number; each write needs a connection of its own. */
const MAX_SENDING_UNLIMITED = 100;
/** How long a write waits here for those that are sent before it; then the server keeps the wait. */
const WAIT_HERE_MS = 15_000;
const NEXT_ATTEMPT_MS = 5_000;
/** A queue that has ended, or that another worker began, is noticed within this time. */
const ASK_EVERY_MS = 30_000;
/** A worker that serves every project keeps little. */
const MAX_REMEMBERED = 10_000;

/** What of an outcome the budget must know; what was not delivered has not used its turn. */
const REPORTED: Record<Exclude<WriteOutcome['kind'], 'throttled'>, RequestReport['outcome']> = {
  accepted: 'accepted',
  rejected: 'other',
  unauthorized: 'other',
  blocked: 'other',
  notDelivered: 'unsent',
  held: 'unsent',
  inDoubt: 'other',
};

/** The gate of one worker, through which each write leaves. */
export class Gate {
  readonly #keys: KeyHealth;
  readonly #budgets: Budgets;
  readonly #lines: Lines;
  readonly #queues: QueueClient;
  /** Whether a queue runs, as the server said; after a 429, whether the write could join it. */
  readonly #running = new Map<string, { answer: Promise<boolean>; askedAt: number }>();

  constructor({ keys, budgets, shutdownSignal }: GateOptions) {
    this.#keys = keys;
    this.#budgets = budgets;
    this.#queues = new QueueClient(({ operation, projectId }) =>
      budgets.of(operation as WriteOperation, projectId ?? ''),
    );
    this.#lines = new Lines(shutdownSignal);
  }

  /** Sends a write, or holds it back: then nothing was sent. */
  async send(wanted: WantedSend, send: FencedSend): Promise<WriteOutcome> {
    const { operation, projectId, turn } = wanted;
    const held = await this.#heldByRefused(wanted);
    if (held) return held;
    if (turn?.isValid) return this.#ended(wanted, await send());
    const set = await this.#budgets.of(operation, projectId);
    // A budget that is set is kept, whether the queue can be asked or not.
    if (typeof set === 'number') return inQueue(await this.#join(wanted));
    const isQueued = await this.#isRunning(wanted);
    const queued = isQueued && (await this.#join(wanted));
    // If no queue can be joined, the write is sent.
    if (queued) return inQueue(queued);
    const leave = await this.#lines.enter(nameOf(wanted), set === UNLIMITED ? MAX_SENDING_UNLIMITED : MAX_SENDING);
    if (!leave) throw tryLater('StillWaiting', 'others of this project are sent first', 'tries again', NEXT_ATTEMPT_MS);
    try {
      return (await this.#heldByOthers(wanted, isQueued)) ?? (await this.#ended(wanted, await send()));
    } finally {
      leave();
    }
  }

  /** Reports that an attempt before this one may have used the turn. */
  usedBefore(wanted: WantedSend): void {
    if (wanted.turn) void this.#report(wanted, 'other');
  }

  /** What others have met meanwhile holds a write back. */
  async #heldByOthers(wanted: WantedSend, wasQueued: boolean): Promise<WriteOutcome | null> {
    const held = await this.#heldByRefused(wanted);
    if (held) return held;
    const queued = !wasQueued && (await this.#isRunning(wanted)) && (await this.#join(wanted));
    return queued ? inQueue(queued) : null;
  }

  /** A send has ended: one that was throttled waits in the queue from now on, and all others of its project do. */
  async #ended(wanted: WantedSend, sent: WriteOutcome): Promise<WriteOutcome> {
    const outcome = await this.#keys.ended(wanted, sent);
    if (outcome.kind !== 'throttled') {
      if (wanted.turn?.isValid) void this.#report(wanted, REPORTED[outcome.kind]);
      return outcome;
    }
    const joining = this.#joinAgain(wanted, outcome.retryAfterMs);
    const isRunning = joining.then(
      (queued) => queued !== null || null,
      () => null,
    );
    void this.#remember(wanted, isRunning);
    return { ...outcome, queued: await joining };
  }

  async #joinAgain(wanted: WantedSend, retryAfterMs: number | undefined): Promise<Queued | null> {
    // From now on this attempt may die: the next one knows that nothing of it arrived.
    if (!(await confirmNotAccepted())) return null;
    return this.#join(wanted, { outcome: 'throttled', ...(retryAfterMs !== undefined && { retryAfterMs }) });
  }

  /** One that was refused holds it: its turn goes to another. */
  async #heldByRefused(wanted: WantedSend): Promise<WriteOutcome | null> {
    const held = await this.#keys.heldNow(wanted);
    if (held && wanted.turn) void this.#report(wanted, unusedAs(wanted));
    return held && { ...held, isHeld: true };
  }

  /** Whether a queue orders these writes; false if that is not known. */
  #isRunning(wanted: WantedSend): Promise<boolean> {
    const known = this.#running.get(nameOf(wanted));
    if (known && wanted.clock.monotonic() - known.askedAt < ASK_EVERY_MS) return known.answer;
    return this.#remember(wanted, this.#queues.isRunning(queueOf(wanted)));
  }

  /** An unknown answer holds no write, and the next write asks anew. */
  #remember(wanted: WantedSend, asked: Promise<boolean | null>): Promise<boolean> {
    const name = nameOf(wanted);
    const answer = asked.then((isRunning) => {
      if (isRunning === null && this.#running.get(name)?.answer === answer) this.#running.delete(name);
      return isRunning ?? false;
    });
    if (this.#running.size >= MAX_REMEMBERED) this.#running.clear();
    this.#running.set(name, { answer, askedAt: wanted.clock.monotonic() });
    return answer;
  }

  #join(wanted: WantedSend, ended?: Pick<RequestReport, 'outcome' | 'retryAfterMs'>): Promise<Queued | null> {
    const { workflowId, priority, askedAt, turn, isOverdue, clock } = wanted;
    const report = { turn: turn?.id ?? null, outcome: unusedAs(wanted), at: clock.late(), ...ended } as const;
    const joining = { workflowId, priority, askedAt, ...((turn || ended) && { report }) };
    return this.#queues.join(queueOf(wanted), joining, { isOverdue });
  }

  #report(wanted: WantedSend, outcome: RequestReport['outcome']): Promise<void> {
    return this.#queues.report(queueOf(wanted), { turn: wanted.turn?.id ?? null, outcome, at: wanted.clock.late() });
  }
}

function inQueue(queued: Queued | null): WriteOutcome {
  return { kind: 'held', reason: 'the budget of this project is shared: this waits for its turn', queued };
}

/** How a turn is reported that this attempt does not use. */
function unusedAs({ turn }: WantedSend): RequestReport['outcome'] {
  return turn?.isUsed ? 'other' : 'unsent';
}

/** The queue of its project and kind. */
function queueOf({ operation, projectId }: WantedSend) {
  return { operation, projectId };
}

function nameOf({ operation, projectId }: WantedSend): string {
  return `${operation} ${projectId}`;
}

type Leave = () => void;

/** Lines of this worker's writes, one for each project and kind: so many are sent at a time, first in, first out. */
class Lines {
  /** An empty line is not kept. */
  readonly #lines = new Map<string, { sending: number; waiting: Set<(mayEnter: boolean) => void> }>();
  readonly #closed: AbortSignal;

  /** @param closed Ends the wait of all writes, and no write waits from then on. */
  constructor(closed: AbortSignal) {
    this.#closed = closed;
    const endAll = () => this.#lines.forEach(({ waiting }) => waiting.forEach((admit) => admit(false)));
    closed.addEventListener('abort', endAll, { once: true });
  }

  /** Resolves with what must be called after the send; with null if it took too long, or the lines were closed. */
  async enter(name: string, maxSending: number): Promise<Leave | null> {
    const line = this.#lines.get(name) ?? { sending: 0, waiting: new Set() };
    this.#lines.set(name, line);
    const { waiting } = line;
    if (line.sending < maxSending && waiting.size === 0) line.sending += 1;
    else if (this.#closed.aborted || !(await inTurn(waiting))) return null;
    return () => {
      // The next one takes the place of the one that leaves.
      const [next] = waiting;
      if (next) return next(true);
      line.sending -= 1;
      if (line.sending === 0) this.#lines.delete(name);
    };
  }
}

function inTurn(waiting: Set<(mayEnter: boolean) => void>): Promise<boolean> {
  return new Promise((resolve) => {
    const admit = (mayEnter: boolean) => {
      clearTimeout(timer);
      waiting.delete(admit);
      resolve(mayEnter);
    };
    const timer = setTimeout(() => admit(false), WAIT_HERE_MS);
    waiting.add(admit);
  });
}
