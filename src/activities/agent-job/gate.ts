/**
 * Decides whether a write may leave now. None may while its kind is held (key-health.ts). One that needs a turn
 * waits for it. Otherwise a worker sends a bounded number of writes of a project and kind at a time: a burst
 * beyond the upstream's limit gets few answers 429.
 */
import type { WriteOutcome } from '../../contract/write-outcome.js';
import type { RequestReport } from '../../contract.js';
import { UNLIMITED } from '../../contract/request-queue.js';
import { tryLater, type AttemptClock } from '../../temporal/activity-attempt.js';
import type { WriteOperation } from '../metrics.js';
import { isLimited, Turns, usableTurn, type Sent, type TurnRequest } from '../turns.js';
import type { Budgets } from './budgets.js';
import type { KeyHealth } from './key-health.js';
import { confirmNotAccepted } from './write-fence.js';

/** A write that wants to be sent. */
interface WantedSend extends TurnRequest {
  operation: WriteOperation;
  projectId: string;
  /** The workflow, which has one write at a time. */
  workflowId: string;
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

/** Writes of a kind that are sent at a time without a queue; each may be answered 429. */
const MAX_SENDING = 8;
/** The same if a setting says that the upstream takes any number; each write needs a connection of its own. */
const MAX_SENDING_UNLIMITED = 100;
/** The time that a write waits here for those that are sent before it; then the server keeps the wait. */
const WAIT_HERE_MS = 15_000;
const NEXT_ATTEMPT_MS = 5_000;
const BUDGET_SHARED = 'the budget of this project is shared: this waits for its turn';

/** What of an outcome the budget must know; what was not delivered has not used its turn. */
const REPORTED_AS: Record<WriteOutcome['kind'], RequestReport['outcome']> = {
  accepted: 'accepted',
  rejected: 'other',
  throttled: 'throttled',
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
  readonly #turns: Turns;

  constructor({ keys, budgets, shutdownSignal }: GateOptions) {
    this.#keys = keys;
    this.#budgets = budgets;
    this.#turns = new Turns(({ operation, projectId }) => budgets.of(operation as WriteOperation, projectId ?? ''));
    this.#lines = new Lines(shutdownSignal);
  }

  /** Sends a write, or holds it back: then nothing was sent. */
  async send(wanted: WantedSend, send: FencedSend): Promise<WriteOutcome> {
    const { operation, projectId } = wanted;
    const set = await this.#budgets.of(operation, projectId);
    // One that has its turn, or must ask for it, waits for no other.
    if (usableTurn(wanted) || isLimited(set)) return this.#sendInTurn(wanted, send);
    const maxSending = set.perHour === UNLIMITED ? MAX_SENDING_UNLIMITED : MAX_SENDING;
    const leave = await this.#lines.enter(`${operation} ${projectId}`, maxSending);
    if (!leave) throw tryLater('StillWaiting', 'others of this project are sent first', 'tries again', NEXT_ATTEMPT_MS);
    try {
      return await this.#sendInTurn(wanted, send);
    } finally {
      leave();
    }
  }

  async #sendInTurn(wanted: WantedSend, send: FencedSend): Promise<WriteOutcome> {
    const { operation, projectId } = wanted;
    const request = { ...wanted, name: { operation, projectId }, confirmUnsent: confirmNotAccepted };
    const held = await this.#keys.heldNow(wanted);
    if (held) {
      await this.#turns.giveBack(request);
      return { ...held, isHeld: true };
    }
    const ended = await this.#turns.withTurn(request, async () => sentOf(await this.#keys.ended(wanted, await send())));
    if ('held' in ended) return { kind: 'held', reason: ended.held?.reason ?? BUDGET_SHARED, queued: ended.held };
    const { result, queued } = ended;
    return result.kind === 'throttled' ? { ...result, queued } : result;
  }
}

function sentOf(result: WriteOutcome): Sent<WriteOutcome> {
  const outcome = REPORTED_AS[result.kind];
  if (result.kind !== 'throttled') return { result, used: { outcome }, asksAgain: false };
  const { retryAfterMs = null } = result;
  // Once it is confirmed, this attempt may die: the next one knows that nothing of it arrived.
  return { result, used: { outcome, retryAfterMs }, asksAgain: confirmNotAccepted() };
}

type Leave = () => void;

/** Lines of this worker's writes, one for each project and kind: first in, first out. */
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

  /** Resolves with what must be called after the send; with null after `WAIT_HERE_MS`, or if the lines were closed. */
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
