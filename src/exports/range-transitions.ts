/**
 * Decides what the export of a date range does next, and what each outcome makes of it:
 *
 *     [prepare] ─▶ [read] ── the scan has ended ──▶ [publish] ─▶ [done]
 *                  ▲   │ inconsistent, repeats left   │ implausible, an hour later
 *                  ├───┘                              │
 *                  └──────────────────────────────────┘
 *
 * Before each step the export may have to wait, and before a chunk is read it may need a turn of the queue of all
 * exports. The workflow performs what `next` names, and tells `after` how it went. The retries are the export's own: a
 * retry of Temporal would use the turn of the attempt before, and could not show why the export waits. Pure: no
 * Temporal. Times in milliseconds.
 */
import { doubled, resendWaitMs, throttledWaitMs } from '../agent-job/waits.js';
import { FAILURE, type SnapshotReceipt } from '../contract.js';
import type { Turn } from '../contract/request-queue.js';
import { DAY_MS, HOUR_MS } from '../contract/shared.js';
import type { Queued } from '../contract/write-outcome.js';
import { isProvisional } from './date-range.js';
import {
  NEW_SCAN,
  SECOND_SCAN_DELAY_MS,
  suspicionOf,
  type ScanCheckpoint,
  type SuspectScan,
} from './scan-checkpoint.js';

/**
 * The plain data of a date range's export, passed on by continue-as-new. `begin` makes it, and `after` alone makes
 * another one of it; each field that changes names the function that writes it.
 */
export interface RangeState {
  /** The first run id of the chain: it names the staging. */
  runId: string;
  /** Whether a suspect final day is scanned a second time. */
  secondScan: boolean;
  /** How long the upstream may give no page, and a step may fail for reasons that were not foreseen. */
  giveUpAfterMs: number;
  /** Whether what earlier runs left is tidied up. Written by `after`. */
  isPrepared: boolean;
  /** The rows of the snapshot that is there; null if there is none. Written by `after`. */
  expectedRows: number | null;
  /** Counts the scans from 1. Written by `newScan`. */
  scan: number;
  /** Written by `newScan`. */
  scanStartedAt: number;
  /** Written by `chunkRead` and `newScan`. */
  checkpoint: ScanCheckpoint;
  /** The inconsistent scan before this one. Written by `chunkRead` and `published`. */
  before: ScanCheckpoint | null;
  /** The implausible scan that this one confirms or refutes, if it is the day's second. Written by `published`. */
  suspect: SuspectScan | null;
  /** Repeats of an inconsistent scan that this run still allows. Written by `chunkRead`. */
  repeatsLeft: number;
  /** Scans begun anew because their staged rows were lost. Written by `failedOrRetried`. */
  staleStagings: number;
  /** Written by `chunkRead` and `interrupted`. */
  outage: Outage;
  /** The tries of the present step that failed; null if none did. Written by `failedOrRetried`, and by each success. */
  retries: Retries | null;
  /** Nothing is done before this time. Written by each step that makes the export wait, and by `chunkRead`. */
  notBefore: number;
  /** Why the export waits, but for a turn; null if it does not. Written beside `notBefore`, and by each success. */
  waitReason: string | null;
  /** Written by `withTurn`, `askedAgain` and `stepFailed`. */
  turns: TurnState;
  /** Written by `published` and `failed`. */
  end: RangeEnd | null;
}

/** How long the upstream has given no page. */
interface Outage {
  /** Consecutive chunks that were interrupted before they got a page. */
  failures: number;
  /** Null while it gives pages. */
  since: number | null;
}

interface Retries {
  tries: number;
  /** When each kind of failure came first. */
  since: Partial<Record<RetryKind, number>>;
  /** Whether the store or the worker failed last: the store is tried before pages are requested. */
  probe: boolean;
}

/** What an export knows of its turns in the queue of all exports. */
interface TurnState {
  /** The order among exports: when the scan began, or had its last two hours of turns. */
  since: number;
  /** When it got the first turn since then; null if it got none. */
  firstAt: number | null;
  /** The place of the turn that was asked for and did not come yet. */
  queued: Queued | null;
  /** Whether it did not come in time: it is asked for again. */
  isOverdue: boolean;
  /** The turn that came and was not used. */
  turn: Turn | null;
}

/** How an export ends: with a snapshot, or with a failure whose details are those of its type in the contract. */
export type RangeEnd =
  { kind: 'published'; receipt: SnapshotReceipt } | { kind: 'failed'; type: string; message: string; details: object };

/** What is to be done. */
export type Step =
  | { kind: 'wait'; ms: number }
  | { kind: 'prepare' }
  /** Waits for the turn that was asked for. */
  | { kind: 'awaitTurn'; queued: Queued }
  /** Reads a chunk of pages; without a turn where one is needed it only asks for one. */
  | { kind: 'read' }
  | { kind: 'publish' }
  | { kind: 'done'; end: RangeEnd };

/** How a step went. */
export type StepOutcome =
  | { kind: 'waited' }
  /** No turn came in time. */
  | { kind: 'noTurn' }
  /** A turn came; it may come at any time. */
  | { kind: 'turn'; turn: Turn }
  | ({ kind: 'prepared' } & Prepared)
  /** No page was requested: a turn is needed. `queued` is null if the Temporal server did not take the request. */
  | { kind: 'held'; queued: Queued | null }
  | { kind: 'read'; chunk: ChunkResult }
  | { kind: 'published'; receipt: SnapshotReceipt }
  | StepFailure;

/** What was found before the first scan. */
export interface Prepared {
  /** The rows of the snapshot that is there; null if there is none. */
  expectedRows: number | null;
  /** The place of the first turn; null if none is needed. */
  queued: Queued | null;
}

/** How far a chunk came, and why it stopped. */
export interface ChunkResult {
  /** The place of the next turn; null if none was asked for. */
  queued: Queued | null;
  checkpoint: ScanCheckpoint;
  /** Pages taken, of the requests made. */
  pages: number;
  requests: number;
  interruption: ChunkStop | null;
}

/** Why a chunk ended early: `busy` is a 429. */
export interface ChunkStop {
  kind: 'busy' | 'failed';
  reason: string;
  retryAfterMs: number | null;
}

/** A step that failed: `type` is null if its worker died without a word. */
export interface StepFailure {
  kind: 'failed';
  type: string | null;
  message: string;
  details: object | null;
  /** No worker took it in time. */
  wasNotStarted: boolean;
}

/** The failure of a step whose staged rows are lost, or are not the ones that were read. */
export const STALE_STAGING = 'StaleStaging';

/** Requests are shared with others: after two repeats the last scan is published as it is. */
const MAX_REPEATS = 2;
const MAX_STALE_STAGINGS = 3;
/** A scan that has had turns for this long lets the other scans go before it. */
const TURNS_IN_A_ROW_MS = 2 * HOUR_MS;

const FIRST_WAIT_MS = 1_000;
/** `unforeseen` are bugs, and workers that die or stop. Waits double up to these. */
const MAX_RETRY_WAIT_MS = { store: 60_000, unforeseen: 5 * 60_000 };
type RetryKind = keyof typeof MAX_RETRY_WAIT_MS;
const MAX_STORE_FAILURE_MS = 10 * 60_000;

/** The state of a date range's export at its beginning. */
export function begin(
  given: Pick<RangeState, 'runId' | 'secondScan' | 'giveUpAfterMs' | 'waitReason'>,
  now: number,
): RangeState {
  return {
    ...given,
    isPrepared: false,
    expectedRows: null,
    scan: 1,
    scanStartedAt: now,
    checkpoint: NEW_SCAN,
    before: null,
    suspect: null,
    repeatsLeft: MAX_REPEATS,
    staleStagings: 0,
    outage: { failures: 0, since: null },
    retries: null,
    notBefore: 0,
    turns: { since: now, firstAt: null, queued: null, isOverdue: false, turn: null },
    end: null,
  };
}

/** What is to be done now. */
export function next(state: RangeState, now: number): Step {
  const { end, isPrepared, notBefore, checkpoint, turns } = state;
  const { turn, queued, isOverdue } = turns;
  if (end) return { kind: 'done', end };
  if (now < notBefore) return { kind: 'wait', ms: notBefore - now };
  if (!isPrepared) return { kind: 'prepare' };
  if (checkpoint.stage === 'ended') return { kind: 'publish' };
  if (turn === null && queued !== null && !isOverdue) return { kind: 'awaitTurn', queued };
  return { kind: 'read' };
}

/** The state after an outcome. */
export function after(state: RangeState, outcome: StepOutcome, now: number): RangeState {
  switch (outcome.kind) {
    case 'waited':
      return state;
    case 'noTurn':
      return { ...state, turns: { ...state.turns, isOverdue: true } };
    case 'turn':
      return { ...state, turns: withTurn(state.turns, outcome.turn, now) };
    case 'prepared': {
      const { expectedRows, queued } = outcome;
      const turns = { ...state.turns, queued };
      return { ...state, isPrepared: true, expectedRows, retries: null, waitReason: null, turns };
    }
    case 'held':
      return held(state, outcome.queued, now);
    case 'read':
      return chunkRead(state, outcome.chunk, now);
    case 'published':
      return published(state, outcome.receipt, now);
    case 'failed':
      return stepFailed(state, outcome, now);
  }
}

function withTurn(turns: TurnState, turn: Turn, now: number): TurnState {
  const firstAt = turns.firstAt ?? now;
  return { ...turns, firstAt, turn, queued: null, isOverdue: false };
}

/** The scan keeps its place before scans that began later, for two hours of turns. */
function askedAgain(turns: TurnState, queued: Queued | null, now: number): TurnState {
  const isOthersTurn = now - (turns.firstAt ?? now) >= TURNS_IN_A_ROW_MS;
  const order = isOthersTurn ? { since: now, firstAt: null } : { since: turns.since, firstAt: turns.firstAt };
  return { ...order, queued, isOverdue: false, turn: null };
}

function held(state: RangeState, queued: Queued | null, now: number): RangeState {
  if (queued) return { ...state, turns: askedAgain(state.turns, queued, now) };
  const message = 'The Temporal server did not take the request for a turn';
  return failedOrRetried(state, { kind: 'failed', type: '', message, details: null, wasNotStarted: false }, now);
}

function chunkRead(state: RangeState, chunk: ChunkResult, now: number): RangeState {
  const { checkpoint, pages, requests, interruption, queued } = chunk;
  const turns = askedAgain(state.turns, queued, now);
  const hasGivenPages = pages > 0 || (!interruption && requests > 0);
  const outage = hasGivenPages ? { failures: 0, since: null } : state.outage;
  const read = { ...state, checkpoint, turns, outage, retries: null, notBefore: now, waitReason: null };
  if (interruption) return interrupted(read, interruption, now);
  return mayRepeat(read) ? { ...newScan(read, now), repeatsLeft: read.repeatsLeft - 1, before: checkpoint } : read;
}

/** An inconsistent scan is repeated while the run allows it. */
function mayRepeat({ checkpoint, repeatsLeft }: RangeState): boolean {
  return checkpoint.stage === 'ended' && checkpoint.inconsistency !== null && repeatsLeft > 0;
}

function interrupted(state: RangeState, interruption: ChunkStop, now: number): RangeState {
  const { reason } = interruption;
  const { failures, since } = state.outage;
  const outage = { failures: failures + 1, since: since ?? now };
  if (now - outage.since >= patienceMs(state, outage.since)) {
    const message = `The upstream gave no page for ${hoursText(now - outage.since)}: ${reason}`;
    return failed(state, { type: FAILURE.upstreamUnavailable, message, details: { error: reason } });
  }
  // A queue makes it wait for no longer than it must.
  if (state.turns.queued !== null) return { ...state, outage };
  return { ...state, outage, waitReason: reason, notBefore: now + interruptionWaitMs(outage.failures, interruption) };
}

/** A scan that has gone on for hours is worth the same time again, up to a day: another one would begin anew. */
function patienceMs({ giveUpAfterMs, scanStartedAt }: RangeState, since: number): number {
  return Math.max(giveUpAfterMs, Math.min(since - scanStartedAt, DAY_MS));
}

function interruptionWaitMs(failures: number, { kind, retryAfterMs }: ChunkStop): number {
  if (kind === 'failed' && retryAfterMs === null) return resendWaitMs(failures);
  return throttledWaitMs(failures, retryAfterMs ?? undefined);
}

/** A finished day whose scan is implausible is scanned a second time, an hour later. */
function published(state: RangeState, receipt: SnapshotReceipt, now: number): RangeState {
  const { secondScan, suspect, scanStartedAt, checkpoint } = state;
  const waitReason = suspicionOf(receipt);
  const isConfirmed = !secondScan || suspect !== null || isProvisional(scanStartedAt, receipt.dateTo);
  if (waitReason === undefined || isConfirmed) return { ...state, end: { kind: 'published', receipt } };
  const notBefore = now + SECOND_SCAN_DELAY_MS;
  const doubted = { rows: checkpoint.rows, exportedAt: new Date(scanStartedAt).toISOString() };
  return newScan({ ...state, suspect: doubted, before: null, retries: null, notBefore, waitReason }, now);
}

function stepFailed(state: RangeState, failure: StepFailure, now: number): RangeState {
  const isReading = state.isPrepared && state.checkpoint.stage !== 'ended';
  if (!isReading) return failedOrRetried(state, failure, now);
  const { turns } = state;
  // No worker was free in time: another turn is asked for at once, and this one given back.
  if (failure.wasNotStarted && turns.turn) return { ...state, turns: { ...turns, turn: { ...turns.turn, until: 0 } } };
  return failedOrRetried({ ...state, turns: { ...turns, turn: null } }, failure, now);
}

function failedOrRetried(state: RangeState, failure: StepFailure, now: number): RangeState {
  const { type, message, details } = failure;
  if (type === FAILURE.exportRejected || type === FAILURE.invalidInput)
    return failed(state, { type, message, details: details ?? {} });
  if (type === STALE_STAGING) {
    if (state.staleStagings < MAX_STALE_STAGINGS)
      return newScan({ ...state, staleStagings: state.staleStagings + 1, retries: null }, now);
    return failed(state, {
      type: FAILURE.snapshotStoreFailed,
      message,
      details: { operation: 'read', error: message },
    });
  }
  const kind = type === FAILURE.snapshotStoreFailed ? 'store' : 'unforeseen';
  const { tries, since } = state.retries ?? { tries: 0, since: {} };
  const firstAt = since[kind] ?? now;
  const maxMs = kind === 'store' ? MAX_STORE_FAILURE_MS : state.giveUpAfterMs;
  if (now - firstAt >= maxMs) return failed(state, finalFailure(state, kind, failure));
  const retries = { tries: tries + 1, since: { ...since, [kind]: firstAt }, probe: kind === 'store' || type === null };
  const waitMs = Math.min(doubled(FIRST_WAIT_MS, retries.tries), MAX_RETRY_WAIT_MS[kind]);
  return { ...state, retries, notBefore: now + waitMs, waitReason: message };
}

function finalFailure(
  state: RangeState,
  kind: RetryKind,
  { message: error, details }: StepFailure,
): Omit<RangeEnd & { kind: 'failed' }, 'kind'> {
  if (kind === 'store') return { type: FAILURE.snapshotStoreFailed, message: error, details: details ?? { error } };
  const howLong = hoursText(state.giveUpAfterMs);
  const message = `The export failed for ${howLong}, though neither upstream nor store failed: ${error}`;
  return { type: FAILURE.exportFailed, message, details: { error } };
}

function failed(state: RangeState, end: Omit<RangeEnd & { kind: 'failed' }, 'kind'>): RangeState {
  return { ...state, end: { kind: 'failed', ...end } };
}

/** What an export waits for that has got no page, or not on, for an hour; null if it has, or waits for its turn. */
export function stuckOn({ outage, retries }: RangeState, now: number): 'upstream' | 'store' | 'worker' | null {
  const isLong = (since: number | null | undefined) => now - (since ?? now) >= HOUR_MS;
  if (isLong(outage.since)) return 'upstream';
  if (isLong(retries?.since.unforeseen)) return 'worker';
  return isLong(retries?.since.store) ? 'store' : null;
}

function hoursText(ms: number): string {
  return `${Math.round(ms / HOUR_MS)} hours`;
}

function newScan(state: RangeState, now: number): RangeState {
  return { ...state, scan: state.scan + 1, scanStartedAt: Math.max(now, state.notBefore), checkpoint: NEW_SCAN };
}
