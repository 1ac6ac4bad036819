/**
 * Decides what an event makes of a write and of the deadline. `afterEvent` alone changes a write, until the write is
 * resolved. job-run.ts decides what the new state means for the run. States are in brackets:
 *
 *     [ready]     ── it is sent ──────────────────────────────▶ [sending]
 *     [sending]   ── accepted, rejected or given up ──────────▶ [resolved]
 *     [sending]   ── not sent, or in doubt, policy `retry` ───▶ [waiting]
 *     [sending]   ── in doubt, a person is asked ─────────────▶ [inDoubt]
 *     [waiting]   ── its turn or its time has come ───────────▶ [sending]
 *     [waiting]   ── its time is over, or the run ends ───────▶ [resolved]
 *     [waiting]   ── cancelled, and it may have arrived ──────▶ [inDoubt]
 *     [inDoubt]   ── a person says `retry` ───────────────────▶ [confirmed]
 *     [inDoubt]   ── a person decides, or their time is over ─▶ [resolved]
 *     [confirmed] ── it is sent ──────────────────────────────▶ [sending]
 *
 * Pure: no Temporal. Times in milliseconds.
 */
import { heldWaitMs, lookAfterOf, resendWaitMs, spreadWaitMs, throttledWaitMs } from '../../agent-job/waits.js';
import type { InDoubtWrite, ResolveUnknownInput, Turn } from '../../contract.js';
import { askAgainMs } from '../../request-queue/waits.js';
import type { JobSpec } from '../../agent-job/input.js';
import type { WriteOutcome } from '../../contract/write-outcome.js';
import { leftAt, passesAt, resume, stop, type Deadline } from './deadline.js';
import {
  canUseTurn,
  countsAsInFlight,
  inDoubtOf,
  interruptionOf,
  isHeldUp,
  mayHaveArrived,
  NO_SENDS,
  stopsDeadline,
  type Interruption,
  type Resolution,
  type WaitingWrite,
  type Write,
} from './write.js';

/** Sends of one write under policy `retry`. */
const MAX_SENDS = 5;
/** `pollNow` has a queue asked again at most this often. */
const MIN_BETWEEN_ASKS_MS = 1_000;

type InDoubtOutcome = WriteOutcome & { kind: 'inDoubt' };

/** What changes a write. */
export type WriteEvent =
  | { kind: 'send' }
  /** A send ended. `beganAt` is when it began. */
  | { kind: 'sendEnded'; outcome: WriteOutcome; beganAt: number }
  /** Its queue gives it a turn. */
  | { kind: 'turn'; turn: Turn }
  /** It was held, and a worker lets it try. */
  | { kind: 'mayTry' }
  /** It waits at least until then. */
  | { kind: 'postponed'; notBefore: number }
  /** A person wants to know at once: its queue may be gone. */
  | { kind: 'pollNow' }
  /** A person decides what became of it. */
  | { kind: 'decided'; decision: ResolveUnknownInput }
  /** The time to wait, or to decide, is over. */
  | { kind: 'timeOver' }
  | { kind: 'runEnds' };

/** What the next state depends on besides the write and the event. */
export interface Situation {
  spec: Pick<JobSpec, 'onUnknownOutcome' | 'decideWithinMs' | 'startWithinMs'>;
  now: number;
  /** When the job began. */
  startedAt: number;
  isCancelRequested: boolean;
}

/** The write after an event; the same object if the event changes nothing. */
export function afterEvent(write: Write, event: WriteEvent, situation: Situation): Write {
  const { state } = write;
  switch (event.kind) {
    case 'send':
      return startSending(write);
    case 'sendEnded':
      return sendEnded(write, event, situation);
    case 'turn':
      return canUseTurn(write) ? { ...write, turn: event.turn } : write;
    case 'mayTry':
      return state.kind === 'waiting' ? { ...write, state: { ...state, mustAsk: false } } : write;
    case 'postponed':
      return state.kind === 'waiting' ? { ...write, state: { ...state, notBefore: event.notBefore } } : write;
    case 'pollNow':
      return askAgain(write, situation);
    case 'decided':
      return state.kind === 'inDoubt' ? decided(write, event.decision, state.inDoubt) : write;
    case 'timeOver':
      return timeOver(write, situation);
    case 'runEnds':
      return leave(write, situation);
  }
}

function startSending(write: Write): Write {
  return { ...write, turn: null, state: { kind: 'sending', interruption: interruptionOf(write) } };
}

function sendEnded(sent: Write, { outcome, beganAt }: WriteEvent & { kind: 'sendEnded' }, situation: Situation): Write {
  const { now } = situation;
  const write = { ...sent, turn: null };
  switch (outcome.kind) {
    case 'accepted':
      return resolve(write, outcome);
    case 'rejected':
      return rejected(write, outcome, situation);
    case 'throttled':
    case 'held':
      return waitForTurn(write, sent.turn, outcome, situation);
    case 'unauthorized':
    case 'blocked':
      return held(write, outcome, situation);
    case 'notDelivered': {
      const tried = count(write, 'notDelivered');
      const notBefore = now + resendWaitMs(tried.counts.notDelivered);
      return wait(tried, 'upstream', outcome.reason, situation, { notBefore });
    }
    case 'inDoubt':
      return sendInDoubt(write, outcome, beganAt, situation);
  }
}

function rejected(write: Write, { status, error }: WriteOutcome & { kind: 'rejected' }, situation: Situation): Write {
  if (!mayHaveArrived(write)) return resolve(write, { kind: 'rejected', status, error });
  // The reason is logged: it leaves the upstream's text out.
  const reason = `rejected with ${status}, but an earlier send may have arrived`;
  return write.kind === 'create' ? fail(write, reason, situation) : resolve(write, { kind: 'unknown', reason });
}

/** A queue gives it a turn; without an answer it tries by itself. */
function waitForTurn(
  write: Write,
  turn: Turn | null,
  outcome: WriteOutcome & { kind: 'throttled' | 'held' },
  situation: Situation,
): Write {
  const { now } = situation;
  const { kind, reason, queued = null } = outcome;
  const retryAfterMs = kind === 'throttled' ? outcome.retryAfterMs : undefined;
  const tried = queued ? write : count(write, 'unqueued');
  const waitMs = queued
    ? askAgainMs(queued.position, Math.random())
    : spreadWaitMs(throttledWaitMs(tried.counts.unqueued, retryAfterMs), Math.random());
  // A turn that came during the send is of use while it lasts.
  const kept = turn && turn.until > now ? turn : null;
  const what = queued?.for ?? (kind === 'held' ? 'turn' : 'rateLimit');
  return { ...wait(tried, what, reason, situation, { notBefore: now + waitMs, queued }), turn: kept };
}

/**
 * The gate that sent it says when it may try again. None does if it is held alone, or if one gate lets it try and
 * another holds it: then it waits by itself before it asks.
 */
function held(
  write: Write,
  { kind, reason, isHeld, isAlone }: WriteOutcome & { kind: 'unauthorized' | 'blocked' },
  situation: Situation,
): Write {
  const tried = isHeld || isAlone ? count(write, 'unpaced') : write;
  const waitMs = tried === write ? 0 : heldWaitMs(tried.counts.unpaced);
  const what = kind === 'unauthorized' ? 'key' : 'upstream';
  const notBefore = waitMs && situation.now + waitMs;
  return wait(tried, what, reason, situation, { notBefore, mustAsk: true });
}

function sendInDoubt(write: Write, outcome: InDoubtOutcome, beganAt: number, situation: Situation): Write {
  const { reason, toConfirm } = outcome;
  // When a run before a reset or a restore sent is not known. The first send counts.
  const mayHaveArrivedSince = write.mayHaveArrivedSince ?? (toConfirm ? situation.startedAt : beganAt);
  const noted = { ...write, mayHaveArrivedSince };
  const policy = policyFor(outcome, situation);
  // A cancelled run fails no more and sends no more: its closed state shows the write in doubt.
  if (policy === 'ask' || situation.isCancelRequested) return askPerson(noted, outcome, situation);
  return policy === 'fail' ? fail(noted, reason, situation) : resend(noted, reason, situation);
}

function policyFor({ toConfirm, asksBeforeRetry }: InDoubtOutcome, { spec }: Situation) {
  if (toConfirm || (asksBeforeRetry && spec.onUnknownOutcome === 'retry')) return 'ask';
  return spec.onUnknownOutcome;
}

/** Policy `retry`: a send in doubt is followed by another, unless there were enough. */
function resend(write: Write, reason: string, situation: Situation): Write {
  const { now } = situation;
  const inDoubtSince = write.inDoubtSince ?? now;
  const tried = count({ ...write, inDoubtSince, toConfirm: null }, 'inDoubt');
  const sends = tried.counts.inDoubt;
  if (sends >= MAX_SENDS) return fail(tried, `${MAX_SENDS} sends, the last: ${reason}`, situation);
  const interruption: Interruption = { for: 'upstream', since: now, reason };
  const notBefore = now + resendWaitMs(sends);
  return { ...tried, state: { kind: 'waiting', interruption, heldAt: now, notBefore, isResend: true } };
}

/** It may or may not have arrived: a person is asked, and the deadline stands still. */
function askPerson(
  write: Write,
  { reason, lookAfter, toConfirm }: Omit<InDoubtOutcome, 'kind'>,
  { now, spec: { decideWithinMs } }: Situation,
): Write {
  const { kind, followUpId } = write;
  const times = { since: isoTime(now), lookAfter: isoTime(lookAfterOf(lookAfter, now)) };
  const inDoubt = { kind, ...(followUpId === undefined ? {} : { followUpId }), reason, ...times };
  const decideBy = decideWithinMs === null ? null : (write.inDoubtSince ?? now) + decideWithinMs;
  return { ...write, toConfirm: toConfirm ?? null, state: { kind: 'inDoubt', inDoubt, decideBy } };
}

/** The run fails, for the outcome is unknown. A cancelled run shows its create in doubt instead. */
function fail(write: Write, reason: string, situation: Situation): Write {
  const mustShow = situation.isCancelRequested && write.kind === 'create' && !inDoubtOf(write);
  return mustShow ? askPerson(write, { reason }, situation) : resolve(write, { kind: 'failed', reason });
}

function decided(write: Write, decision: ResolveUnknownInput, { reason }: InDoubtWrite): Write {
  switch (decision.action) {
    case 'retry':
      // What happened before counts no more.
      return { ...write, counts: NO_SENDS, inDoubtSince: null, isConfirmed: true, state: { kind: 'confirmed' } };
    case 'adopt':
      return resolve(write, { kind: 'accepted', jobId: decision.jobId, job: null });
    case 'delivered':
      return resolve(write, { kind: 'accepted', jobId: null, job: null });
    case 'abandon':
      return resolve(write, write.kind === 'create' ? { kind: 'abandoned' } : { kind: 'unknown', reason });
  }
}

function timeOver(write: Write, situation: Situation): Write {
  const inDoubt = inDoubtOf(write);
  const why = interruptionOf(write)?.reason ?? 'not taken';
  const [reason, ending] = inDoubt
    ? [inDoubt.reason, 'no person decided in time']
    : [why, 'an earlier send may have arrived, and the time for this one is over'];
  if (write.kind === 'create') return fail(write, `${reason}; ${ending}`, situation);
  return resolve(write, { kind: 'unknown', reason: inDoubt ? reason : `${reason}; ${ending}` });
}

/** What waits was surely never sent, but for a write that may have arrived. */
function leave(write: Write, situation: Situation): Write {
  const mustShow = situation.isCancelRequested && write.kind === 'create' && mayHaveArrived(write) && !inDoubtOf(write);
  const reason = interruptionOf(write)?.reason ?? 'an earlier send may have arrived';
  return resolve(mustShow ? askPerson(write, { reason }, situation) : write, { kind: 'left' });
}

/** A write that has just asked its queue waits a moment. */
function askAgain(write: Write, { now }: Situation): Write {
  const { state } = write;
  if (state.kind !== 'waiting' || !state.queued || write.turn) return write;
  const notBefore = Math.max(now, state.heldAt + MIN_BETWEEN_ASKS_MS);
  return notBefore < state.notBefore ? { ...write, state: { ...state, notBefore } } : write;
}

function resolve(write: Write, as: Resolution): Write {
  return { ...write, state: { kind: 'resolved', as, inDoubt: endsRun(as) ? inDoubtOf(write) : null } };
}

function endsRun({ kind }: Resolution): boolean {
  return kind === 'failed' || kind === 'left';
}

/** The deadline after an event that made this write of another. */
export function deadlineAfter(before: Deadline, event: WriteEvent, write: Write, now: number): Deadline {
  const { state } = write;
  const isSendInDoubt = event.kind === 'sendEnded' && event.outcome.kind === 'inDoubt';
  // The wait for the turn of this send is over; what follows may stop the deadline again.
  const deadline = isSendInDoubt ? resume(before, now) : before;
  if (state.kind === 'inDoubt') return stop(deadline, now);
  // With a run that is over, no deadline goes on: one that has expired is why it ended.
  if (state.kind === 'resolved' && endsRun(state.as)) return deadline;
  if (!stopsDeadline(write)) return resume(deadline, now);
  // One that has passed before the send began has passed for good.
  const since = event.kind === 'sendEnded' ? event.beganAt : now;
  return leftAt(deadline, since) > 0 ? stop(deadline, since) : deadline;
}

function count(write: Write, end: keyof Write['counts']): Write {
  return { ...write, counts: { ...write.counts, [end]: write.counts[end] + 1 } };
}

/** The time of an interruption counts from its first send. */
function wait(
  write: Write,
  what: Interruption['for'],
  reason: string,
  { now }: Situation,
  more: Pick<WaitingWrite, 'notBefore' | 'queued' | 'mustAsk'>,
): Write {
  const before = interruptionOf(write);
  const since = before && isSameWait(before.for, what) ? before.since : now;
  const interruption: Interruption = { for: what, since, reason };
  return { ...write, state: { kind: 'waiting', interruption, heldAt: now, ...more } };
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** The budget of a project keeps a write in both cases. */
function isSameWait(one: Interruption['for'], other: Interruption['for']): boolean {
  const isOfBudget = (what: Interruption['for']) => what === 'turn' || what === 'rateLimit';
  return one === other || (isOfBudget(one) && isOfBudget(other));
}

/**
 * When a write that waits is given up. The deadline and `startWithin` end the wait of a create; for a follow-up, the
 * poll loop checks the deadline. `decideWithin` ends the wait of a write in doubt. A create that may have arrived has
 * had its first turn.
 */
export function waitEndsAt(write: Write, { spec, startedAt }: Situation, deadline: Deadline): number {
  // The next of a few sends of policy `retry` is near.
  if (!isHeldUp(write)) return Infinity;
  const isCreate = write.kind === 'create';
  const deadlineAt = (isCreate && !countsAsInFlight(write) ? passesAt(deadline) : null) ?? Infinity;
  const startBy = isCreate && !mayHaveArrived(write) ? startedAt + (spec.startWithinMs ?? Infinity) : Infinity;
  const decideBy = write.inDoubtSince === null ? Infinity : write.inDoubtSince + (spec.decideWithinMs ?? Infinity);
  return Math.min(deadlineAt, startBy, decideBy);
}
