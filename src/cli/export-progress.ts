import { setTimeout as delay } from 'node:timers/promises';
import type { VisitorExportProgress } from '../contract.js';
import type { VisitorExportHandle } from '../starter.js';
import { printToStderr } from './session.js';
import { printable } from './text.js';

const LOOK_MS = 1_000;
const BAR_CHARS = 24;

/**
 * Shows how far an export is until it ends: a bar on a terminal, else a line for each change. On stderr, so that stdout
 * stays the answer.
 */
export async function showProgress(handle: VisitorExportHandle, signal: AbortSignal): Promise<() => void> {
  const isTerminal = process.stderr.isTTY;
  let last = '';
  const stop = new AbortController();
  const looking = (async () => {
    while (!stop.signal.aborted && !signal.aborted) {
      const progress = await handle.progress({ signal }).catch(() => null);
      if (stop.signal.aborted) break;
      const line = progress ? lineOf(progress, isTerminal) : 'no worker answers yet';
      if (line !== last) {
        if (isTerminal) process.stderr.write(`\r\u001B[K${line.slice(0, (process.stderr.columns || 80) - 1)}`);
        else printToStderr(line);
      }
      last = line;
      // It takes its listener off again: a long export makes thousands of pauses.
      await delay(LOOK_MS, undefined, { signal: stop.signal }).catch(() => {});
    }
  })();
  return () => {
    stop.abort();
    void looking;
    if (isTerminal && last !== '') process.stderr.write('\r\u001B[K');
  };
}

/** One line for a person. */
function lineOf(progress: VisitorExportProgress, hasBar: boolean): string {
  const { dateFrom, dateTo, scan, pages, rows, expectedRows, waitReason, nextRequestAt } = progress;
  const share = expectedRows === null || expectedRows === 0 ? null : Math.min(1, rows / expectedRows);
  const bar = hasBar && share !== null ? ` ${barOf(share)} ${String(Math.floor(share * 100)).padStart(3)} %` : '';
  const about = expectedRows === null ? '' : ` of about ${Math.max(rows, expectedRows)}`;
  const waits = nextRequestAt === null ? '' : `, next request ${nextRequestAt.slice(11, 19)} UTC`;
  const why = waitReason === null ? '' : `, waits: ${printable(waitReason)}`;
  const again = scan > 1 ? `, scan ${scan}` : '';
  return `${dateFrom}..${dateTo}${bar}  ${pages} pages, ${rows} rows${about}${again}${waits}${why}`;
}

function barOf(share: number): string {
  const full = Math.round(share * BAR_CHARS);
  return `[${'#'.repeat(full)}${'.'.repeat(BAR_CHARS - full)}]`;
}
