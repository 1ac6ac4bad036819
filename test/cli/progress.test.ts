import { getEventListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, expect, test, vi } from 'vitest';
import { showProgress } from '../../src/cli/export-run.js';
import { barOf, ProgressLine } from '../../src/cli/terminal.js';
import type { VisitorExportProgress } from '../../src/contract.js';
import type { VisitorExportHandle } from '../../src/starter.js';
import { gate } from '../support/observed-upstream.js';

const isTTY = process.stderr.isTTY;
afterEach(() => {
  process.stderr.isTTY = isTTY;
  vi.restoreAllMocks();
});

const UNBEGUN: VisitorExportProgress = {
  ...{ dateFrom: '2026-01-01', dateTo: '2026-01-02', scan: 1, pages: 0, rows: 0, expectedRows: null },
  ...{ waitReason: 'no worker of the exports has begun yet (task queue agent-jobs-export)', nextRequestAt: null },
};
const BEGUN = { ...UNBEGUN, pages: 2, rows: 199, waitReason: null };

/** What is written while the export goes through these states, one each look. */
async function shown(...states: (VisitorExportProgress | null)[]): Promise<string[]> {
  const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  const left = [...states];
  const looked = gate();
  const progress = async () => {
    const state = left.shift();
    if (state !== undefined) return state ?? Promise.reject(new Error('no worker answers'));
    looked.open();
    return new Promise<never>(() => {});
  };
  const handle = { progress } as unknown as VisitorExportHandle;
  const stop = await showProgress(handle, new AbortController().signal, { lookMs: 1 });
  await looked.opened;
  stop();
  return write.mock.calls.map(([text]) => String(text).trim());
}

const [AT_FIRST, AT_LAST] = ['2026-01-01..2026-01-02  0 pages, 0 rows', '2026-01-01..2026-01-02  2 pages, 199 rows'];

test('a worker that takes some seconds to begin is not told as missing', async () => {
  expect(await shown(UNBEGUN, UNBEGUN, UNBEGUN, BEGUN)).toEqual([AT_FIRST, AT_LAST]);
});

test('a worker that is slow to answer at first is not told as missing', async () => {
  expect(await shown(null, null, BEGUN)).toEqual([AT_LAST]);
});

test('that no worker ever answers is told', async () => {
  expect(await shown(...Array.from({ length: 8 }, () => null))).toEqual(['no worker answers yet']);
});

test('that no worker begins for long is told', async () => {
  const told = await shown(...Array.from({ length: 10 }, () => UNBEGUN), BEGUN);
  expect(told).toEqual([AT_FIRST, `${AT_FIRST}, waits: ${UNBEGUN.waitReason}`, AT_LAST]);
});

test('any other wait is told at once', async () => {
  const waiting = { ...BEGUN, waitReason: 'upstream answered 503' };
  expect(await shown(waiting)).toEqual([`${AT_LAST}, waits: upstream answered 503`]);
});

test('an export that is watched for long leaves no listeners behind, of which Node would warn', async () => {
  const signals = vi.spyOn(AbortSignal.prototype, 'addEventListener');
  const silent = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  const handle = { progress: () => Promise.resolve(null) } as unknown as VisitorExportHandle;
  const stop = await showProgress(handle, new AbortController().signal);
  try {
    await delay(4_500);
    const kept = signals.mock.contexts.map((signal) => getEventListeners(signal as AbortSignal, 'abort').length);
    expect(kept.length).toBeGreaterThan(2);
    expect(Math.max(...kept)).toBeLessThanOrEqual(1);
  } finally {
    stop();
    silent.mockRestore();
    signals.mockRestore();
  }
});

function written(isTerminal: boolean, act: (progress: ProgressLine) => void): string[] {
  process.stderr.isTTY = isTerminal;
  const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  act(new ProgressLine({ everyMs: 60_000 }));
  return write.mock.calls.map(([text]) => String(text));
}

test('a terminal shows one line in place, which goes before other output', () => {
  const lines = written(true, (progress) => {
    progress.show('1 line');
    progress.clear();
    progress.clear();
  });
  expect(lines).toEqual(['\r\u001B[K1 line', '\r\u001B[K']);
});

test('elsewhere each is a line of its own, and no more than one in the given time', () => {
  const lines = written(false, (progress) => {
    progress.show('1 line');
    progress.show('2 lines');
    progress.clear();
  });
  expect(lines).toEqual(['1 line\n']);
});

test('a bar has the same length at every share', () => {
  expect([0, 0.5, 1].map(barOf)).toEqual([
    `[${'.'.repeat(24)}]   0 %`,
    `[${'#'.repeat(12)}${'.'.repeat(12)}]  50 %`,
    `[${'#'.repeat(24)}] 100 %`,
  ]);
});
