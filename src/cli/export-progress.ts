import { setTimeout as delay } from 'node:timers/promises';
import type { VisitorExportProgress } from '../contract.js';
import type { VisitorExportHandle } from '../starter.js';
import { barOf, ProgressLine } from './progress-line.js';
import { printable } from './text.js';

const LOOK_MS = 1_000;
/** A worker that is there takes a second or two to begin. */
const LOOKS_UNTIL_MISSED = 5;
/** How the workflow's own words begin until its first activity has. */
const UNBEGUN = 'no worker of the exports has begun';

/**
 * Shows how far an export is until it ends: a bar on a terminal, else a line for each change. On stderr, so that stdout
 * stays the answer.
 */
export async function showProgress(
  handle: VisitorExportHandle,
  signal: AbortSignal,
  { lookMs = LOOK_MS } = {},
): Promise<() => void> {
  const progressLine = new ProgressLine();
  const stop = new AbortController();
  const looking = (async () => {
    for (let looks = 1; !stop.signal.aborted && !signal.aborted; looks++) {
      const progress = await handle.progress({ signal }).catch(() => null);
      if (stop.signal.aborted) break;
      const isEarly = looks < LOOKS_UNTIL_MISSED;
      const told = progress && isEarly ? withoutUnbegun(progress) : progress;
      if (told) progressLine.show(lineOf(told, progressLine.isTerminal));
      else if (!isEarly) progressLine.show('no worker answers yet');
      // It takes its listener off again: a long export makes thousands of pauses.
      await delay(lookMs, undefined, { signal: stop.signal }).catch(() => {});
    }
  })();
  return () => {
    stop.abort();
    void looking;
    progressLine.clear();
  };
}

function withoutUnbegun(progress: VisitorExportProgress): VisitorExportProgress {
  return progress.waitReason?.startsWith(UNBEGUN) ? { ...progress, waitReason: null } : progress;
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
