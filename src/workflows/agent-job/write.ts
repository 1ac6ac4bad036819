/**
 * One write to the upstream, as plain data that continue-as-new hands on, and what follows from it.
 * write-transitions.ts decides what changes it. Pure: no Temporal. Times in milliseconds.
 */
import type { InDoubtWrite, JobRecord, Priority, ShownWaitingFor, Turn } from '../../contract.js';
import { waitNamed } from '../../contract/words.js';
import type { Confirmation, Queued, ShownJob } from '../../contract/write-outcome.js';

/** What keeps a request from being made, or from being of use. */
export interface Interruption {
  for: Exclude<ShownWaitingFor, 'person'>;
  since: number;
  reason: string;
}

/** Which write it is. */
export interface WriteIdentity {
  kind: 'create' | 'followUp';
  followUpId?: string;
  askedAt: number;
  /** Its own; absent if the job's holds. */
  priority?: Priority;
  /** It comes from a run that an operator reset: a person must confirm it before it is sent. */
  requiresConfirmation: boolean;
}

/**
 * A write without its prompt. `beginWrite` makes it, and write-transitions.ts alone makes another one of it; each field
 * names the function there that writes it.
 */
export interface Write extends WriteIdentity {
  /** Written by every transition. */
  state: WriteState;
  /**
   * Ends of sends, since the write began or a person confirmed it. `unqueued`: no queue took it; `unpaced`: it was
   * held alone, or again, so that no gate chooses the time of its next try. Written by `count` and `decided`.
   */
  counts: typeof NO_SENDS;
  /** When the first send in doubt ended; null if none did since `confirmed`. Written by `resend` and `decided`. */
  inDoubtSince: number | null;
  /** No send that may have arrived began earlier; absent if none may have. Written by `sendInDoubt`. */
  mayHaveArrivedSince?: number;
  /** A person said to send it. Written by `decided`. */
  isConfirmed: boolean;
  /** What a person must confirm; null if no life and no restore. Written by `askPerson` and `resend`. */
  toConfirm: Confirmation | null;
  /** For the next send: its queue has given it, while it waited or was sent. Written by `afterEvent` and each send. */
  turn: Turn | null;
}

type WriteState =
  /** Nothing keeps it from being sent. */
  | { kind: 'ready' }
  | Sending
  | WaitingWrite
  /** It may or may not have arrived: a person decides, by `decideBy` if that is given. */
  | { kind: 'inDoubt'; inDoubt: InDoubtWrite; decideBy: number | null }
  /** A person said to send it, whatever happened before. */
  | { kind: 'confirmed' }
  | Resolved;

/** Its activity runs. */
interface Sending {
  kind: 'sending';
  /** What the send before met. */
  interruption: Interruption | null;
}

/** It is not on its way. */
export interface WaitingWrite {
  kind: 'waiting';
  interruption: Interruption;
  /** It waits since then; `interruption` says since when for the same reason. */
  heldAt: number;
  notBefore: number;
  /** Policy `retry` sends again what may have arrived. */
  isResend?: true;
  /** Writes of its kind are held: a worker must let it try first. */
  mustAsk?: boolean;
  /** Its place in a queue; null if none could be asked, absent if it waits for something else. */
  queued?: Queued | null;
}

interface Resolved {
  kind: 'resolved';
  as: Resolution;
  /** The run ended before a person decided. */
  inDoubt: InDoubtWrite | null;
}

/** What the run must carry out. */
export type Resolution =
  /** The upstream accepted it, or a person said so. `jobId` is null for a follow-up that a person saw there. */
  | ({ kind: 'accepted'; jobId: string | null; job: JobRecord | null } & Partial<ShownJob>)
  | { kind: 'rejected'; status: number; error: string }
  /** A follow-up that may have arrived is given up. */
  | { kind: 'unknown'; reason: string }
  /** A person gave the create up. */
  | { kind: 'abandoned' }
  /** Whether it arrived is not known, and the run fails. */
  | { kind: 'failed'; reason: string }
  /** The run ended before. */
  | { kind: 'left' };

/** A write that was never sent. */
export const NO_SENDS = { unqueued: 0, unpaced: 0, notDelivered: 0, inDoubt: 0 };

/** A write before its first send. */
export function beginWrite(identity: WriteIdentity): Write {
  const nothingSent = { counts: NO_SENDS, inDoubtSince: null, isConfirmed: false, toConfirm: null };
  return { ...identity, ...nothingSent, turn: null, state: { kind: 'ready' } };
}

/** What a person must decide, or did not decide before the run ended. */
export function inDoubtOf({ state }: Write): InDoubtWrite | null {
  return state.kind === 'inDoubt' || state.kind === 'resolved' ? state.inDoubt : null;
}

/** What kept the last send from being accepted; null if nothing did. */
export function interruptionOf({ state }: Write): Interruption | null {
  return state.kind === 'waiting' || state.kind === 'sending' ? state.interruption : null;
}

/** A person must decide, or it waits for its turn: the deadline stands still meanwhile. */
export function stopsDeadline(write: Write): boolean {
  return write.state.kind === 'inDoubt' || waitNamed(interruptionOf(write)?.for ?? '')?.stopsDeadline === true;
}

function asWaiting({ state }: Write): WaitingWrite | null {
  return state.kind === 'waiting' ? state : null;
}

/** Its place in a queue; null if none could be asked, undefined if it waits for no turn. */
export function queuedOf(write: Write): Queued | null | undefined {
  return asWaiting(write)?.queued;
}

/** A turn ends the wait, even one that came too late: the worker that sends then asks for another. */
export function notBeforeOf(write: Write): number {
  return write.turn ? 0 : (asWaiting(write)?.notBefore ?? 0);
}

/** It is being sent, or waits for a turn. */
export function canUseTurn({ state }: Write): boolean {
  return state.kind === 'sending' || (state.kind === 'waiting' && state.queued !== undefined);
}

/** Its queue has not answered, and it asks again. */
export function isOverdue(write: Write): boolean {
  return Boolean(queuedOf(write)) && !write.turn;
}

/** Writes of its kind are held: it waits until a worker lets it try. */
export function mustAsk(write: Write): boolean {
  return asWaiting(write)?.mustAsk === true;
}

/** An earlier send of it may have arrived. */
export function mayHaveArrived({ counts, isConfirmed }: Write): boolean {
  return counts.inDoubt > 0 || isConfirmed;
}

/** It may have arrived, and is surely sent again, soon or in its turn. A write that is held may never be. */
export function countsAsInFlight(write: Write): boolean {
  return mayHaveArrived(write) && (!isHeldUp(write) || queuedOf(write) !== undefined);
}

/** It waits, nothing is on its way, and its waiting must end with the run. */
export function isHeldUp({ state }: Write): boolean {
  return state.kind === 'waiting' && state.isResend !== true;
}

/** It is sent right now for the first time, or within this very workflow task. */
export function isLeaving({ state }: Write): boolean {
  const { kind } = state;
  return kind === 'ready' || kind === 'confirmed' || (kind === 'sending' && state.interruption === null);
}

/** Whose queue it waits in. */
export function operationOf({ kind }: Pick<WriteIdentity, 'kind'>): 'create' | 'message' {
  return kind === 'create' ? 'create' : 'message';
}
