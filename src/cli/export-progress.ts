import { setTimeout as delay } from 'node:timers/promises';
import type { VisitorExportProgress } from '../contract.js';
import type { VisitorExportHandle } from '../starter.js';
import { barOf, ProgressLine } from './progress-line.js';
import { printable } from './text.js';

const LOOK_MS = 1_000;

/**
 * Shows how far an export is until it ends: a bar on a terminal, else a line for each change. On stderr, so that stdout
 * stays the answer.
 */
export async function showProgress(handle: VisitorExportHandle, signal: AbortSignal): Promise<() => void> {
  const progressLine = new ProgressLine();
  const stop = new AbortController();
  const looking = (async () => {
    while (!stop.signal.aborted && !signal.aborted) {
      const progress = await handle.progress({ signal }).catch(() => null);
      if (stop.signal.aborted) break;
      progressLine.show(progress ? lineOf(progress, progressLine.isTerminal) : 'no worker answers yet');
      // It takes its listener off again: a long export makes thousands of pauses.
      await delay(LOOK_MS, undefined, { signal: stop.signal }).catch(() => {});
    }
  })();
  return () => {
    stop.abort();
    void looking;
    progressLine.clear();
  };
}

/** One line for a person. */
function lineOf(progress: VisitorExportProgress, hasBar: boolean): string {
  const { dateFrom, dateTo, scan, pages, rows, expectedRows, waitReason, nextRequestAt } = progress;
  const share = expectedRows === null || expectedRows === 0 ? null : Math.min(1, rows / expectedRows);
  const bar = hasBar && share !== null ? ` ${barOf(share)}` : '';
  const about = expectedRows === null ? '' : ` of about ${Math.max(rows, expectedRows)}`;
  const waits = nextRequestAt === null ? '' : `, next request ${nextRequestAt.slice(11, 19)} UTC`;
  const why = waitReason === null ? '' : `, waits: ${printable(waitReason)}`;
  const again = scan > 1 ? `, scan ${scan}` : '';
  return `${dateFrom}..${dateTo}${bar}  ${pages} pages, ${rows} rows${about}${again}${waits}${why}`;
}
