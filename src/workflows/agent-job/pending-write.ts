/**
 * One write to the upstream, from its beginning until its outcome is settled. No other file changes its state:
 * job-run.ts (a person's decision, the end of the run), write-results.ts (the end of a send) and writes.ts call it.
 * States are in brackets:
 *
 *     [ready]     ── it is sent ──────────────────────────────▶ [sending]
 *     [sending]   ── accepted, rejected or given up ──────────▶ [settled]
 *     [sending]   ── not sent, or in doubt, policy `retry` ───▶ [waiting]
 *     [sending]   ── in doubt, a person is asked ─────────────▶ [inDoubt]
 *     [waiting]   ── its time has come, it has its turn ──────▶ [sending]
 *     [waiting]   ── its time is over, or the run ends ───────▶ [settled]
 *     [waiting]   ── cancelled, and it may have arrived ──────▶ [inDoubt]
 *     [inDoubt]   ── a person says `retry` ───────────────────▶ [confirmed]
 *     [inDoubt]   ── a person decides, or their time is over ─▶ [settled]
 *     [confirmed] ── it is sent ──────────────────────────────▶ [sending]
 *
 * Pure: no Temporal. Times in milliseconds.
 */
import { MAX_RETRY_AFTER_MS, type InDoubtWrite } from '../../contract.js';
import { keyWaitMs, NEXT_TURN_MS, throttledWaitMs, resendWaitMs, spreadWaitMs } from '../../agent-job/retry-waits.js';
import type { Interruption } from './waiting.js';

type WriteState =
  /** Nothing keeps it from being sent. */
  | { kind: 'ready' }
  /** Its activity runs. `interruption` is what the send before met. */
  | { kind: 'sending'; interruption: Interruption | null; permitUntil: number | null }
  /** `isResend`: policy `retry` sends again what may have arrived. `permitUntil`: until when a worker permits it. */
  | { kind: 'waiting'; interruption: Interruption; notBefore: number; isResend: boolean; permitUntil: number | null }
  /** It may or may not have arrived: a person decides, by `decideBy` where that is given. */
  | { kind: 'inDoubt'; inDoubt: InDoubtWrite; decideBy: number | null }
  /** A person said to send it, whatever happened before. */
  | { kind: 'confirmed' }
  /** `inDoubt`: the run ended before anybody decided. */
  | { kind: 'settled'; inDoubt: InDoubtWrite | null };

/** Ends of sends, since the write began or a person confirmed it. */
interface SendCounts {
  throttled: number;
  unauthorized: number;
  notDelivered: number;
  inDoubt: number;
}

const NO_SENDS: SendCounts = { throttled: 0, unauthorized: 0, notDelivered: 0, inDoubt: 0 };

/** Which write it is. */
export interface WriteIdentity {
  kind: 'create' | 'followUp';
  followUpId?: string;
  askedAt: number;
  /** It comes from a run that an operator reset: a person must confirm it before it is sent. */
  requiresConfirmation: boolean;
}

/** What continue-as-new hands on; the prompt is not in it. */
export interface WriteData extends WriteIdentity {
  state: WriteState;
  counts: SendCounts;
  /** When the first send in doubt ended; null where none did since a person confirmed the write. */
  inDoubtSince: number | null;
  isConfirmed: boolean;
  /** The run, and the restore, about which a person was asked; null where nobody was. */
  confirmationRequestedIn: string | null;
}

/** Sends of one write under policy `retry`. */
export const MAX_SENDS = 5;

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

  get notBefore(): number {
    const { state } = this.#data;
    return state.kind === 'waiting' ? state.notBefore : 0;
  }

  get permitUntil(): number | null {
    const { state } = this.#data;
    return state.kind === 'waiting' || state.kind === 'sending' ? state.permitUntil : null;
  }

  get inDoubtSince(): number | null {
    return this.#data.inDoubtSince;
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
    const { state } = this.#data;
    return state.kind === 'waiting' && !state.isResend;
  }

  /** Between the sends of policy `retry` and before a confirmed one, it counts as in flight unless it is held up. */
  get countsAsInFlight(): boolean {
    return this.mayHaveArrived && !this.isHeldUp;
  }

  /** It is sent right now for the first time, or within this very workflow task. */
  get isLeaving(): boolean {
    const { kind } = this.#data.state;
    return kind === 'ready' || kind === 'confirmed' || (kind === 'sending' && this.interruption === null);
  }

  /** Others of the project may wait too: a worker tells when it may be sent. */
  needsPermit(now: number): boolean {
    const what = this.interruption?.for;
    return (what === 'rateLimit' || what === 'key') && (this.permitUntil ?? 0) <= now;
  }

  startSending(): void {
    const { interruption, permitUntil } = this;
    this.#data.state = { kind: 'sending', interruption, permitUntil };
  }

  /** The upstream answered 429, or (`isHeld`) its worker held it back for one. */
  throttle(result: { reason: string; retryAfterMs?: number; isHeld?: true }, now: number): void {
    const { reason, retryAfterMs, isHeld } = result;
    if (isHeld !== true) {
      const waitMs = throttledWaitMs(this.#count('throttled'), retryAfterMs);
      return this.#wait('rateLimit', reason, now, now + spreadWaitMs(waitMs, Math.random()));
    }
    // The worker that held it back knows more than the one that gave the permit.
    const heldMs = Math.min(retryAfterMs ?? NEXT_TURN_MS, MAX_RETRY_AFTER_MS);
    this.#wait('rateLimit', reason, now, this.permitUntil === null ? 0 : now + heldMs);
  }

  /** Its key was refused. Workers may have different keys: one gives permits for ever, another is refused. */
  refuseKey(reason: string, now: number): void {
    const waitMs = keyWaitMs(this.#count('unauthorized'));
    this.#wait('key', reason, now, this.permitUntil === null ? 0 : now + waitMs);
  }

  /** It surely never left. */
  failDelivery(reason: string, now: number): void {
    this.#wait('upstream', reason, now, now + resendWaitMs(this.#count('notDelivered')));
  }

  /** Policy `retry`: a send in doubt is followed by another; false where there were enough. */
  resend(reason: string, now: number): boolean {
    this.#data.confirmationRequestedIn = null;
    this.#data.inDoubtSince ??= now;
    const sends = this.#count('inDoubt');
    if (sends >= MAX_SENDS) return false;
    const interruption: Interruption = { for: 'upstream', since: now, reason };
    const notBefore = now + resendWaitMs(sends);
    this.#data.state = { kind: 'waiting', interruption, notBefore, isResend: true, permitUntil: null };
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

  /** A worker permits it to be sent past others that wait. */
  permit(until: number): void {
    const { state } = this.#data;
    if (state.kind === 'waiting') this.#data.state = { ...state, permitUntil: until };
  }

  postpone(notBefore: number): void {
    const { state } = this.#data;
    if (state.kind === 'waiting') this.#data.state = { ...state, notBefore };
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

  #count(end: keyof SendCounts): number {
    const { counts } = this.#data;
    this.#data.counts = { ...counts, [end]: counts[end] + 1 };
    return this.#data.counts[end];
  }

  /** The time of an interruption counts from its first send. */
  #wait(what: Interruption['for'], reason: string, now: number, notBefore: number): void {
    const before = this.interruption;
    const since = before?.for === what ? before.since : now;
    const interruption: Interruption = { for: what, since, reason };
    this.#data.state = { kind: 'waiting', interruption, notBefore, isResend: false, permitUntil: null };
  }
}
