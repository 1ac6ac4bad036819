/**
 * When a write may be sent: the one place where a worker holds writes back, for a budget or for want of a key. A write
 * that has its turn is sent at once. Any other is sent where nothing speaks against it, and waits in the queue of its
 * project where a budget is set, a queue is there, or the upstream answers 429.
 */
import type { BudgetFacts, RequestReport } from '../../contract.js';
import { NEXT_TURN_MS } from '../../agent-job/retry-waits.js';
import { tryLater } from '../../temporal/activity-attempt.js';
import type { WriteOutcome } from '../../upstream/upstream.js';
import { AskSpread, type AskSpreadOptions, type AwaitTurnInput } from './await-turn.js';
import { Budgets } from './budgets.js';
import type { KeyHealth } from './key-health.js';
import { QueueClient, type Queued } from '../queue-client.js';
import { RequestFacts } from '../request-facts.js';
import { SendLines } from './send-lines.js';
import { nameOf, QueueFound, queueOf, type FencedSend, type SendOutcome, type WantedSend } from './wanted-send.js';

export interface TurnsOptions extends AskSpreadOptions {
  keys: KeyHealth;
  budgets?: Budgets | undefined;
  /** Ends waits inside of this worker. */
  shutdownSignal: AbortSignal;
}

/** How long a write waits for those that this worker sends before it; then it joins the queue. */
const LINE_WAIT_MS = 15_000;
/** Whoever waits for a key asks this often whether there is another. */
const NEXT_KEY_MS = 5_000;
const WAITS_FOR_TURN = 'the budget of this project is shared: this waits for its turn';

export class Turns {
  readonly #keys: KeyHealth;
  readonly #budgets: Budgets;
  readonly #closed: AbortSignal;
  readonly #lines: SendLines;
  readonly #facts = new RequestFacts();
  readonly #queues = new QueueClient();
  readonly #asks: AskSpread;

  constructor({ keys, budgets = new Budgets(), shutdownSignal, ...asks }: TurnsOptions) {
    this.#keys = keys;
    this.#budgets = budgets;
    this.#closed = shutdownSignal;
    this.#lines = new SendLines(shutdownSignal);
    this.#asks = new AskSpread(asks);
  }

  /** Sends a write, or holds it back: then nothing was sent. */
  async send(wanted: WantedSend, fenced: FencedSend): Promise<SendOutcome> {
    const refusal = this.#refusedKey(wanted);
    if (refusal) return refusal;
    if (wanted.turn?.isValid) return this.#ended(wanted, fenced, await fenced.send(() => Promise.resolve()));
    const held = (await this.#isQueued(wanted)) ? await this.#held(wanted) : null;
    // Where no queue can be asked, a write is tried now and then; but a budget that is set is kept.
    if (held && (held.queued || this.#restMs(wanted) > 0 || (await this.#isBudgetSet(wanted)))) return held;
    const isUnlimited = await this.#budgets.isUnlimited(wanted.operation, wanted.projectId);
    const width = () => this.#facts.lineWidth(nameOf(wanted), wanted.now(), isUnlimited);
    const leave = await this.#lines.enter(nameOf(wanted), { forMs: LINE_WAIT_MS, width: width() });
    if (!leave) return this.#leftOut(wanted);
    let outcome: WriteOutcome | null;
    try {
      outcome = await this.#sendInLine(wanted, fenced, held === null);
    } finally {
      leave(width());
    }
    return outcome ? this.#ended(wanted, fenced, outcome) : this.#held(wanted);
  }

  /** Tells the queue that a turn may have been used by an attempt before this one. */
  usedBefore(wanted: WantedSend): void {
    if (wanted.turn) void this.#report(wanted, 'other');
  }

  /** Lets a write go that waited for a key (null), or says why not and when to ask again. */
  async awaitKey(
    { operation, projectId, jobId }: AwaitTurnInput,
    holder: string,
  ): Promise<{ reason: string; waitMs: number } | null> {
    const refusal = await this.#keys.refusalNow(projectId, jobId);
    if (refusal !== null) return { reason: refusal, waitMs: this.#asks.postpone(holder, NEXT_KEY_MS) };
    if (this.#lines.isBusy(nameOf({ operation, projectId }))) {
      return { reason: 'others of this project are sent first', waitMs: this.#asks.postpone(holder, NEXT_TURN_MS) };
    }
    this.#asks.done(holder);
    return null;
  }

  #refusedKey(wanted: WantedSend): SendOutcome | null {
    const reason = wanted.hasKeyPermit ? null : this.#keys.refusalOf(wanted.projectId);
    if (reason === null) return null;
    if (wanted.turn) void this.#report(wanted, 'unsent');
    return { kind: 'unauthorized', reason, isHeld: true };
  }

  /** Whether a queue orders these writes, as far as is known without a wait. */
  async #isQueued(wanted: WantedSend): Promise<boolean> {
    const { operation, projectId, now } = wanted;
    if (await this.#isBudgetSet(wanted)) return true;
    const ask = () => this.#queues.isRunning({ operation, projectId });
    return (await this.#facts.hasQueue(nameOf(wanted), now(), ask)) ?? false;
  }

  async #isBudgetSet({ operation, projectId }: WantedSend): Promise<boolean> {
    return (await this.#budgets.perHour(operation, projectId)) !== null;
  }

  /** Null where, as those before it in line or the server have shown, it must not be sent now after all. */
  async #sendInLine(wanted: WantedSend, fenced: FencedSend, minds: boolean): Promise<WriteOutcome | null> {
    const name = nameOf(wanted);
    const refusal = this.#refusedKey(wanted);
    if (refusal) return refusal;
    if (minds ? await this.#isQueued(wanted) : this.#restMs(wanted) > 0) return null;
    // Asked now: a queue that those behind it join meanwhile does not hold it.
    const isQueued = minds ? this.#facts.whenAsked(name, wanted.now()) : Promise.resolve(false);
    try {
      const outcome = await fenced.send(async () => {
        if (await isQueued) throw new QueueFound();
      });
      if (outcome.kind === 'throttled') this.#facts.throttled(name, wanted.now(), outcome.retryAfterMs);
      return outcome;
    } catch (error) {
      if (error instanceof QueueFound) return null;
      throw error;
    }
  }

  /** A send has ended: one that was throttled waits in the queue from now on. */
  async #ended(wanted: WantedSend, fenced: FencedSend, outcome: WriteOutcome): Promise<SendOutcome> {
    if (outcome.kind !== 'throttled') {
      if (wanted.turn?.isValid) void this.#report(wanted, REPORTED[outcome.kind]);
      return outcome;
    }
    const { retryAfterMs } = outcome;
    this.#facts.throttled(nameOf(wanted), wanted.now(), retryAfterMs);
    const telling = this.#tell(wanted, fenced, retryAfterMs);
    this.#facts.telling(nameOf(wanted), wanted.now(), telling);
    return { ...outcome, queued: await telling };
  }

  async #tell(wanted: WantedSend, fenced: FencedSend, retryAfterMs: number | undefined): Promise<Queued | null> {
    // From now on this attempt may die: the next one knows that nothing of it arrived.
    if (!(await fenced.clearMark())) return null;
    return this.#join(wanted, 'throttled', retryAfterMs);
  }

  async #held(wanted: WantedSend): Promise<SendOutcome & { kind: 'throttled' }> {
    await this.#facts.whenTold(nameOf(wanted), wanted.now());
    const queued = await this.#join(wanted, 'unsent');
    const restMs = queued ? 0 : this.#restMs(wanted);
    const held = { kind: 'throttled', reason: WAITS_FOR_TURN, isHeld: true, queued } as const;
    return { ...held, ...(restMs > 0 && { retryAfterMs: restMs }) };
  }

  #restMs(wanted: WantedSend): number {
    return this.#facts.restMs(nameOf(wanted), wanted.now());
  }

  /** The line was too long; another worker sends it where this one ends. */
  #leftOut(wanted: WantedSend): Promise<SendOutcome> {
    if (this.#closed.aborted) throw tryLater('StillWaiting', 'the worker shuts down', 'another sends this', 0);
    return this.#held(wanted);
  }

  async #join(wanted: WantedSend, outcome: RequestReport['outcome'], retryAfterMs?: number): Promise<Queued | null> {
    const { workflowId, priority, askedAt, turn, isOverdue, now } = wanted;
    const facts = await this.#budgetFacts(wanted);
    const isOfUse = turn !== null || outcome === 'throttled';
    const report = { turn: turn?.id ?? null, outcome, at: now(), ...(retryAfterMs !== undefined && { retryAfterMs }) };
    const joined = await this.#queues.join(queueOf(wanted), {
      workflowId,
      priority,
      askedAt,
      ...facts,
      ...(isOfUse && { report }),
    });
    if (joined) this.#facts.queueIsRunning(nameOf(wanted), now());
    return joined && (joined.isAnswered || !isOverdue) ? joined.place : null;
  }

  async #report(wanted: WantedSend, outcome: RequestReport['outcome']): Promise<void> {
    const { turn, now } = wanted;
    const facts = await this.#budgetFacts(wanted);
    await this.#queues.report(queueOf(wanted), { turn: turn?.id ?? null, outcome, at: now(), ...facts });
  }

  #budgetFacts({ operation, projectId }: WantedSend): Promise<BudgetFacts> {
    return this.#budgets.facts(operation, projectId);
  }
}

/** What of an outcome the budget must know; what was not delivered has not used its turn. */
const REPORTED: Record<Exclude<WriteOutcome['kind'], 'throttled'>, RequestReport['outcome']> = {
  accepted: 'accepted',
  rejected: 'other',
  unauthorized: 'other',
  notDelivered: 'unsent',
  inDoubt: 'other',
};
