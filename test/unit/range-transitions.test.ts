import { describe, expect, test } from 'vitest';
import type { SnapshotReceipt } from '../../src/contract.js';
import {
  after,
  begin,
  next,
  type ChunkResult,
  type StepOutcome,
  type RangeState,
  type StepFailure,
} from '../../src/exports/range-transitions.js';
import { NEW_SCAN, type ScanCheckpoint } from '../../src/exports/scan-checkpoint.js';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const NOW = Date.parse('2026-03-10T04:30:00Z');
const NEW = begin({ runId: 'run', secondScan: true, giveUpAfterMs: DAY_MS, waitReason: 'no worker' }, NOW);
const PREPARED = after(NEW, { kind: 'prepared', expectedRows: 7, queued: null }, NOW);
const ENDED: ScanCheckpoint = { ...NEW_SCAN, stage: 'ended', complete: true, pages: 2, rows: 300 };
const DRIFTED: ScanCheckpoint = { ...ENDED, inconsistency: { kind: 'overlap', offset: 9 } };
const TURN = { id: 'one', operation: 'visitors', until: NOW + 60_000, requests: 8 } as const;
const PLACE = { for: 'turn', position: 3 } as const;

const read = (chunk: Partial<ChunkResult>): StepOutcome => ({
  kind: 'read',
  chunk: { queued: null, checkpoint: NEW_SCAN, pages: 1, requests: 1, interruption: null, ...chunk },
});
const noPage = { pages: 0, requests: 1 };
const failing = (retryAfterMs: number | null = null) =>
  read({ ...noPage, interruption: { kind: 'failed', reason: '503', retryAfterMs } });
const busy = (queued: ChunkResult['queued'] = null) =>
  read({ ...noPage, queued, interruption: { kind: 'busy', reason: '429', retryAfterMs: 5_000 } });
const failed = (type: string | null, given: Partial<StepFailure> = {}): StepFailure => ({
  kind: 'failed',
  type,
  message: 'it broke',
  details: { operation: 'put', error: 'EIO' },
  wasNotStarted: false,
  ...given,
});
const published = (given: Partial<SnapshotReceipt> = {}): StepOutcome => ({
  kind: 'published',
  receipt: { rows: 300, dateTo: '2026-03-09', consistent: true, ...given } as SnapshotReceipt,
});

/** The state after outcomes at one moment. */
const through = (state: RangeState, ...outcomes: StepOutcome[]): RangeState =>
  outcomes.reduce((before, outcome) => after(before, outcome, NOW), state);

/** Gives the same outcome at each try, until another step than a wait follows the end. */
function until24Hours(state: RangeState, outcome: StepOutcome): { state: RangeState; tries: number; ms: number } {
  let [now, tries] = [NOW, 0];
  for (; !state.end && tries < 10_000; tries++) {
    const step = next(state, now);
    if (step.kind === 'wait') now += step.ms;
    else state = after(state, outcome, now);
  }
  return { state, tries, ms: now - NOW };
}

test('a range is prepared, read chunk by chunk, and published', () => {
  expect(next(NEW, NOW)).toEqual({ kind: 'prepare' });
  expect(next(PREPARED, NOW)).toEqual({ kind: 'read' });
  expect(next(through(PREPARED, read({})), NOW)).toEqual({ kind: 'read' });
  const scanned = through(PREPARED, read({ checkpoint: ENDED }));
  expect(next(scanned, NOW)).toEqual({ kind: 'publish' });
  expect(next(through(scanned, published()), NOW)).toMatchObject({ kind: 'done', end: { kind: 'published' } });
});

test('why it waits is told until a step of that kind has gone well', () => {
  expect(NEW.waitReason).toBe('no worker');
  expect(PREPARED).toMatchObject({ waitReason: null, expectedRows: 7 });
  const waiting = through(PREPARED, failing());
  expect(waiting.waitReason).toBe('503');
  expect(through(waiting, read({})).waitReason).toBeNull();
});

describe('a scan', () => {
  test('that is inconsistent is repeated twice, and knows the one before', () => {
    const second = through(PREPARED, read({ checkpoint: DRIFTED }));
    expect(second).toMatchObject({ scan: 2, repeatsLeft: 1, checkpoint: NEW_SCAN, before: DRIFTED });
    const third = through(second, read({ checkpoint: DRIFTED }));
    expect(next(third, NOW)).toEqual({ kind: 'read' });
    expect(next(through(third, read({ checkpoint: DRIFTED })), NOW)).toEqual({ kind: 'publish' });
  });

  test('whose staged rows are lost begins anew three times', () => {
    const again = (state: RangeState) => through(state, read({ checkpoint: ENDED }), failed('StaleStaging'));
    const third = again(again(again(PREPARED)));
    expect(third).toMatchObject({ scan: 4, staleStagings: 3, retries: null });
    const end = { type: 'SnapshotStoreFailed', details: { operation: 'read', error: 'it broke' } };
    expect(next(again(third), NOW)).toMatchObject({ kind: 'done', end });
  });

  const impossible = published({ consistent: false, drift: { kind: 'impossible', offset: 0 } });

  test('of a finished day that is implausible is made once more, an hour later', () => {
    const scanned = through(PREPARED, read({ checkpoint: ENDED }));
    const again = through(scanned, impossible);
    expect(next(again, NOW)).toEqual({ kind: 'wait', ms: HOUR_MS });
    expect(again).toMatchObject({ scan: 2, scanStartedAt: NOW + HOUR_MS, suspect: { rows: 300 }, before: null });
    expect(again.waitReason).toContain('the day is read once more');
    const confirmed = through(again, read({ checkpoint: ENDED }), impossible);
    expect(next(confirmed, NOW)).toMatchObject({ kind: 'done', end: { kind: 'published' } });
  });

  test.each([
    ['no second scan is wanted', { ...PREPARED, secondScan: false }, {}],
    ['the day may not be over', PREPARED, { dateTo: '2026-03-11' }],
  ])('that is implausible ends the export if %s', (_, state, given) => {
    const drift = { kind: 'shrunk', offset: 0 } as const;
    const ended = through(state, read({ checkpoint: ENDED }), published({ drift, ...given }));
    expect(next(ended, NOW).kind).toBe('done');
  });
});

describe('an upstream that gives no page', () => {
  test('is asked after waits that double, and as `Retry-After` says', () => {
    const once = through(PREPARED, failing());
    expect(next(once, NOW)).toEqual({ kind: 'wait', ms: 1_000 });
    expect(next(through(once, failing()), NOW)).toEqual({ kind: 'wait', ms: 2_000 });
    expect(next(through(once, failing(1_800_000)), NOW)).toEqual({ kind: 'wait', ms: 1_800_000 });
    expect(next(through(PREPARED, busy()), NOW)).toEqual({ kind: 'wait', ms: 5_000 });
  });

  test('ends the export after 24 hours', () => {
    const { state, ms } = until24Hours(PREPARED, failing(1_800_000));
    expect(state.end).toMatchObject({ type: 'UpstreamUnavailable', details: { error: '503' } });
    expect(ms).toBe(DAY_MS);
  });

  test('is waited for as long as the scan has gone on, if that is longer than the patience', () => {
    const hasty = { ...PREPARED, giveUpAfterMs: HOUR_MS, scanStartedAt: NOW };
    const endAfter = (state: RangeState, hours: number) =>
      after(after(state, failing(), NOW + hours * HOUR_MS), failing(), NOW + 3 * hours * HOUR_MS).end;
    expect(endAfter(hasty, 0.5)).toMatchObject({ type: 'UpstreamUnavailable' });
    expect(after(after(hasty, failing(), NOW + 5 * HOUR_MS), failing(), NOW + 9 * HOUR_MS).end).toBeNull();
    expect(endAfter(hasty, 5)).toMatchObject({ message: expect.stringContaining('for 10 hours') });
  });

  test('is ridden out if a page comes now and then, and a chunk that no worker could finish says nothing', () => {
    const failures = through(PREPARED, failing(), failing());
    expect(failures.outage).toEqual({ failures: 2, since: NOW });
    expect(through(failures, failed('WorkerStopped')).outage).toEqual(failures.outage);
    expect(
      through(failures, read({ interruption: { kind: 'busy', reason: '429', retryAfterMs: null } })),
    ).toMatchObject({ outage: { failures: 1 } });
    expect(through(failures, read({})).outage).toEqual({ failures: 0, since: null });
  });
});

describe('a turn', () => {
  const waiting = through(PREPARED, busy(PLACE));

  test('that was asked for is waited for, whatever the pause', () => {
    expect(next(waiting, NOW)).toEqual({ kind: 'awaitTurn', queued: PLACE });
    const come = through(waiting, { kind: 'turn', turn: TURN });
    expect(next(come, NOW)).toEqual({ kind: 'read' });
    expect(through(come, read({})).turns).toMatchObject({ turn: null, queued: null });
  });

  test('that does not come in time is asked for again, and keeps its place', () => {
    const overdue = through(waiting, { kind: 'noTurn' });
    expect(next(overdue, NOW)).toEqual({ kind: 'read' });
    expect(overdue.turns).toMatchObject({ isOverdue: true, since: NOW });
    const again = through(overdue, { kind: 'held', queued: PLACE });
    expect(next(again, NOW)).toEqual({ kind: 'awaitTurn', queued: PLACE });
  });

  test('that no worker took in time is given back by name, without a wait', () => {
    const come = through(waiting, { kind: 'turn', turn: TURN });
    const unused = through(come, failed(null, { wasNotStarted: true }));
    expect(unused.turns.turn).toEqual({ ...TURN, until: 0 });
    expect(next(unused, NOW)).toEqual({ kind: 'read' });
  });

  test('that the server did not take the request for is asked for again after a wait', () => {
    const lost = through(PREPARED, { kind: 'held', queued: null }, { kind: 'held', queued: null });
    expect(next(lost, NOW)).toEqual({ kind: 'wait', ms: 2_000 });
    expect(lost.waitReason).toBe('The Temporal server did not take the request for a turn');
  });

  test('goes to the scan that began first, and after two hours of turns to the next', () => {
    const chunkWithTurn = (state: RangeState, now: number) =>
      after(after(state, { kind: 'turn', turn: TURN }, now), read({ queued: PLACE }), now);
    let state = chunkWithTurn(waiting, NOW + 1);
    state = chunkWithTurn(state, NOW + 2 * HOUR_MS);
    expect(state.turns.since).toBe(NOW);
    const order = [1, 2, 3, 4].map(
      (hours) => (state = chunkWithTurn(state, NOW + 1 + (1 + hours) * HOUR_MS)).turns.since,
    );
    expect(order.map((since) => (since - NOW - 1) / HOUR_MS)).toEqual([2, 2, 2, 5]);
  });

  test('is not used again after the chunk that had it failed', () => {
    const failure = through(waiting, { kind: 'turn', turn: TURN }, failed(null));
    expect(failure.turns.turn).toBeNull();
  });

  test('that comes while a snapshot is published is kept', () => {
    const publishing = through(PREPARED, read({ checkpoint: ENDED }), { kind: 'turn', turn: TURN });
    expect(through(publishing, failed('SnapshotStoreFailed')).turns.turn).toEqual(TURN);
  });
});

describe('a step that fails', () => {
  test.each([
    ['SnapshotStoreFailed', 10 * 60_000, 'SnapshotStoreFailed', { operation: 'put', error: 'EIO' }],
    ['TypeError', DAY_MS, 'ExportFailed', { error: 'it broke' }],
    [null, DAY_MS, 'ExportFailed', { error: 'it broke' }],
  ])('with %s is tried again for %d ms', (type, maxMs, endType, details) => {
    const { state, ms } = until24Hours(PREPARED, failed(type));
    expect(state.end).toMatchObject({ kind: 'failed', type: endType, details });
    expect(ms).toBeGreaterThanOrEqual(maxMs);
    expect(ms).toBeLessThan(maxMs + 6 * 60_000);
  });

  test('is tried after waits that double up to a maximum, and a success begins them anew', () => {
    const twice = through(PREPARED, failed('TypeError'), failed('TypeError'));
    expect(next(twice, NOW)).toEqual({ kind: 'wait', ms: 2_000 });
    const { state } = until24Hours(PREPARED, failed('TypeError'));
    expect(state.retries!.tries).toBeGreaterThan(280);
    expect(through(twice, read({}), failed('TypeError'))).toMatchObject({ retries: { tries: 1 } });
  });

  test.each([
    ['SnapshotStoreFailed', true],
    [null, true],
    ['TypeError', false],
  ])('with %s has the store tried first: %s', (type, probe) => {
    expect(through(PREPARED, failed(type)).retries).toMatchObject({ probe });
  });

  test('because the upstream rejects it ends the export at once', () => {
    const details = { status: 404, error: 'no project' };
    const end = { type: 'ExportRejected', message: 'it broke', details };
    expect(next(through(PREPARED, failed('ExportRejected', { details })), NOW)).toMatchObject({ kind: 'done', end });
  });

  test('is tried by its own kind alone: an answer that only gives a place in the queue is no success', () => {
    const onlyAsked = { kind: 'held', queued: PLACE } as const;
    expect(through(PREPARED, failed('TypeError'), onlyAsked).retries).toMatchObject({ tries: 1 });
  });
});
