import { afterEach, expect, test, vi } from 'vitest';
import { showProgress } from '../../src/cli/export-run.js';
import type { VisitorExportProgress } from '../../src/contract.js';
import type { VisitorExportHandle } from '../../src/starter.js';
import { gate } from '../support/observed-upstream.js';

afterEach(() => void vi.restoreAllMocks());

const UNBEGUN: VisitorExportProgress = {
  dateFrom: '2026-01-01',
  dateTo: '2026-01-02',
  scan: 1,
  pages: 0,
  rows: 0,
  expectedRows: null,
  waitReason: 'no worker of the exports has begun yet (task queue agent-jobs-export)',
  nextRequestAt: null,
};
const BEGUN = { ...UNBEGUN, pages: 2, rows: 199, waitReason: null };

/** What is written while the export goes through these states, one each poll. */
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
  const over = new AbortController();
  showProgress(handle, over.signal, { everyMs: 1 }).catch(() => {});
  await looked.opened;
  over.abort();
  return write.mock.calls.map(([text]) => String(text).trim());
}

const [AT_FIRST, AT_LAST] = ['2026-01-01..2026-01-02  0 pages, 0 rows', '2026-01-01..2026-01-02  2 pages, 199 rows'];

test('each change is a line, with what the export waits for', async () => {
  const begins = `${AT_FIRST}, waits: ${UNBEGUN.waitReason}`;
  const waiting = { ...BEGUN, waitReason: 'upstream answered 503' };
  const told = await shown(UNBEGUN, UNBEGUN, BEGUN, BEGUN, waiting);
  expect(told).toEqual([begins, AT_LAST, `${AT_LAST}, waits: upstream answered 503`]);
});

test('that no worker answers is shown once', async () => {
  expect(await shown(null, null, BEGUN)).toEqual(['no worker answers yet', AT_LAST]);
});
