/**
 * One write to the upstream, from its beginning until its outcome is settled. No other file changes its state:
 * job-run.ts (a person's decision, the end of the run), write-results.ts (the end of a send) and writes.ts call it.
 * States are in brackets:
 *
 *     [ready]     ── it is sent ──────────────────────────────▶ [sending]
 *     [sending]   ── accepted, rejected or given up ──────────▶ [settled]
 *     [sending]   ── not sent, or in doubt, policy `retry` ───▶ [waiting]
 *     [sending]   ── in doubt, a person is asked ─────────────▶ [inDoubt]
 *     [waiting]   ── its turn or its time has come ───────────▶ [sending]
 *     [waiting]   ── its time is over, or the run ends ───────▶ [settled]
 *     [waiting]   ── cancelled, and it may have arrived ──────▶ [inDoubt]
 *     [inDoubt]   ── a person says `retry` ───────────────────▶ [confirmed]
 *     [inDoubt]   ── a person decides, or their time is over ─▶ [settled]
 *     [confirmed] ── it is sent ──────────────────────────────▶ [sending]
 *
 * Pure: no Temporal. Times in milliseconds.
 */
import type { InDoubtWrite, RequestTurn } from '../../contract.js';
import type { Queued } from '../../activities/index.js';
import { askAgainMs, keyWaitMs, resendWaitMs, spreadWaitMs, throttledWaitMs } from '../../agent-job/retry-waits.js';
import { isSameWait, type Interruption } from './waiting.js';
import { NO_SENDS, type Throttled, type WriteData, type WriteIdentity, type WriteState } from './write-data.js';

/** Sends of one write under policy `retry`. */
export const MAX_SENDS = 5;
/** `pollNow` has a queue asked again at most this often. */
const MIN_PAUSE_MS = 1_000;

export class PendingWrite {
  readonly #data: WriteData;

  constructor(data: WriteData) {
    this.#data = { ...data };
  }

  static begin(identity: WriteIdentity): PendingWrite {
    const nothingSent = { counts: NO_SENDS, inDoubtSince: null, isConfirmed: false, confirmationRequestedIn: null };
    return new PendingWrite({ ...identity, ...nothingSent, state: { kind: 'ready' } });
  }

  get identity(): Readonly<WriteIdentity> {
    return this.#data;
  }

  get #waiting(): (WriteState & { kind: 'waiting' }) | null {
    const { state } = this.#data;
    return state.kind === 'waiting' ? state : null;
  }

  get isSending(): boolean {
    return this.#data.state.kind === 'sending';
  }

  get isSettled(): boolean {
    return this.#data.state.kind === 'settled';
  }

  /** What a person must decide, or nobody decided before the run ended. */
  get inDoubt(): InDoubtWrite | null {
    const { state } = this.#data;
    return state.kind === 'inDoubt' || state.kind === 'settled' ? state.inDoubt : null;
  }

  get decideBy(): number | null {
    const { state } = this.#data;
    return state.kind === 'inDoubt' ? state.decideBy : null;
  }

  /** What kept the last send from being accepted; null where nothing did. */
  get interruption(): Interruption | null {
    const { state } = this.#data;
    return state.kind === 'waiting' || state.kind === 'sending' ? state.interruption : null;
  }

  /** A turn ends the wait, even one that came too late: the worker that sends then asks for another. */
  get notBefore(): number {
    return this.turn ? 0 : (this.#waiting?.notBefore ?? 0);
  }

  /** Its place in a queue; null where none could be asked, undefined where it waits for no turn. */
  get queued(): Queued | null | undefined {
    return this.#waiting?.queued;
  }

  get turn(): RequestTurn | null {
    return this.#waiting?.turn ?? null;
  }

  /** It has heard nothing from its queue, and asks again. */
  get isOverdue(): boolean {
    return Boolean(this.queued) && !this.turn;
  }

  get inDoubtSince(): number | null {
    return this.#data.inDoubtSince;
  }

  get mayHaveArrivedSince(): number | undefined {
    return this.#data.mayHaveArrivedSince;
  }

  /** What a person said to send; null where nobody was asked. */
  get confirmedInRun(): string | null {
    return this.#data.isConfirmed ? this.#data.confirmationRequestedIn : null;
  }

  /** An earlier send of it may have arrived. */
  get mayHaveArrived(): boolean {
    return this.#data.counts.inDoubt > 0 || this.#data.isConfirmed;
  }

  /** It waits, nothing is on its way, and its waiting must end with the run. */
  get isHeldUp(): boolean {
    return this.#waiting?.isResend === false;
  }

  /** It may have arrived, and is surely sent again, soon or in its turn. Whether a key ever comes is not known. */
  get countsAsInFlight(): boolean {
    return this.mayHaveArrived && (!this.isHeldUp || this.queued !== undefined);
  }

  /** It is sent right now for the first time, or within this very workflow task. */
  get isLeaving(): boolean {
    const { kind } = this.#data.state;
    return kind === 'ready' || kind === 'confirmed' || (kind === 'sending' && this.interruption === null);
  }

  /** It waits for a key: a worker tells when there is one. */
  get needsKey(): boolean {
    return this.interruption?.for === 'key' && this.#waiting?.hasKey !== true;
  }

  startSending(): void {
    const { interruption, turn } = this;
    if (turn) this.#data.counts = { ...this.#data.counts, queued: 0 };
    this.#data.state = { kind: 'sending', interruption };
  }

  /** The queue gives it a turn: kept where it is being sent; false where it waits for something else. */
  takeTurn(turn: RequestTurn): boolean {
    const { state } = this.#data;
    const isOfUse = state.kind === 'sending' || (state.kind === 'waiting' && state.queued !== undefined);
    if (isOfUse) this.#data.state = { ...state, turn };
    return isOfUse;
  }

  /**
   * The upstream answered 429, or its worker held it back: a queue gives it a turn. One that hears nothing tries by
   * itself.
   */
  throttle({ reason, retryAfterMs, queued }: Throttled, now: number): void {
    const { turn = null } = this.#data.state as Partial<WriteState & { kind: 'sending' }>;
    const waitMs = queued
      ? askAgainMs(this.#count('queued'), queued, now)
      : spreadWaitMs(throttledWaitMs(this.#count('throttled'), retryAfterMs), Math.random());
    // One that came during the send is of use while it lasts.
    const kept = turn && turn.until > now ? turn : null;
    this.#wait(queued?.for ?? 'rateLimit', reason, now, now + waitMs, { queued, turn: kept });
  }

  /** Somebody wants to know at once: its queue may be gone. Who has just asked waits a moment. */
  askAgain(now: number): void {
    const waiting = this.#waiting;
    if (!waiting?.queued || waiting.turn) return;
    const notBefore = Math.min(waiting.notBefore, Math.max(now, waiting.heldAt + MIN_PAUSE_MS));
    this.#data.state = { ...waiting, notBefore };
  }

  /** Its key was refused. Where that comes again though one was found, workers may have different keys. */
  refuseKey(reason: string, now: number): void {
    const refusals = this.#count('unauthorized');
    this.#wait('key', reason, now, refusals === 1 ? 0 : now + keyWaitMs(refusals));
  }

  /** It surely never left. */
  failDelivery(reason: string, now: number): void {
    this.#wait('upstream', reason, now, now + resendWaitMs(this.#count('notDelivered')));
  }

  /** A send that began at that time may have arrived; the first one counts, whatever a person says later. */
  noteDoubt(beganAt: number): void {
    this.#data.mayHaveArrivedSince ??= beganAt;
  }

  /** Policy `retry`: a send in doubt is followed by another; false where there were enough. */
  resend(reason: string, now: number): boolean {
    this.#data.confirmationRequestedIn = null;
    this.#data.inDoubtSince ??= now;
    const sends = this.#count('inDoubt');
    if (sends >= MAX_SENDS) return false;
    const interruption: Interruption = { for: 'upstream', since: now, reason };
    const notBefore = now + resendWaitMs(sends);
    this.#data.state = { kind: 'waiting', interruption, heldAt: now, notBefore, isResend: true };
    return true;
  }

  /** It may or may not have arrived, and a person is asked. */
  becomeInDoubt(inDoubt: InDoubtWrite, decideBy: number | null, confirmationRequestedIn: string | null): void {
    this.#data.confirmationRequestedIn = confirmationRequestedIn;
    this.#data.state = { kind: 'inDoubt', inDoubt, decideBy };
  }

  /** A person said to send it again: what happened before counts no more. */
  confirm(): void {
    this.#data.counts = NO_SENDS;
    this.#data.inDoubtSince = null;
    this.#data.isConfirmed = true;
    this.#data.state = { kind: 'confirmed' };
  }

  /** A worker has found a key that is accepted. */
  foundKey(): void {
    if (this.#waiting) this.#data.state = { ...this.#waiting, hasKey: true };
  }

  postpone(notBefore: number): void {
    if (this.#waiting) this.#data.state = { ...this.#waiting, notBefore };
  }

  /** Its outcome is known, or decided. */
  settle(): void {
    this.#data.state = { kind: 'settled', inDoubt: null };
  }

  /** The run ends with it: where it is in doubt, nobody decided. */
  leave(): void {
    this.#data.state = { kind: 'settled', inDoubt: this.inDoubt };
  }

  carry(requiresConfirmation: boolean): WriteData {
    return { ...this.#data, requiresConfirmation: this.#data.requiresConfirmation || requiresConfirmation };
  }

  #count(end: keyof WriteData['counts']): number {
    const { counts } = this.#data;
    const count = counts[end] + 1;
    this.#data.counts = { ...counts, [end]: count };
    return count;
  }

  /** The time of an interruption counts from its first send. */
  #wait(what: Interruption['for'], reason: string, now: number, notBefore: number, queue = {}): void {
    const before = this.interruption;
    const since = before && isSameWait(before.for, what) ? before.since : now;
    const interruption: Interruption = { for: what, since, reason };
    const waiting = {
      kind: 'waiting',
      interruption,
      heldAt: now,
      notBefore,
      isResend: false,
    } as const;
    this.#data.state = { ...waiting, ...queue };
  }
}
