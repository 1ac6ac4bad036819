/** `export run` and `export backfill`: exports that a person starts and waits for. */
import { setInterval } from 'node:timers/promises';
import type { Command } from 'commander';
import type { SnapshotReceipt, VisitorExportProgress, VisitorExportRangeInput } from '../contract.js';
import { type DateRange, plusDays } from '../exports/date-range.js';
import { inconsistencyText, maySecondScan } from '../exports/scan-checkpoint.js';
import type { VisitorExportHandle } from '../starter.js';
import { addRangeOptions, checkOwnFolders, openSnapshots, readManifests, toExportRange } from './export-options.js';
import type { ExportFlags } from './export-options.js';
import { markOf } from './export-inspect.js';
import { print, printAnswer, printJson, printToStderr, progressPrinter, withSession, type Session } from './session.js';
import { countOf, printable, show } from './show.js';
import { CommandError, UsageError } from './exit.js';

/** Adds `export run`. */
export function addExportRun(group: Command): void {
  const command = group
    .command('run')
    .description('export one date range now, or join its running export (default: yesterday by UTC)')
    .requiredOption('--project <id>', 'the upstream project')
    .option('--no-wait', 'only start it')
    .option('--json', 'print the result as JSON')
    .addHelpText('after', EXAMPLE);
  addRangeOptions(command).action(async (flags: ExportFlags & { wait: boolean }) => {
    // A person who gives only the first day hardly wants all days up to yesterday as one snapshot.
    if ((flags.from === undefined) !== (flags.to === undefined))
      throw new UsageError('give --from and --to, or --day for one day');
    const range = { projectId: flags.project, ...(await toExportRange(flags)) };
    await checkOwnFolders(flags.project);
    await withSession(command, async (session) => {
      if (!flags.wait) return startExport(session, range, flags.json);
      const result = await runExport(session, range, flags.json);
      const shown = result.snapshots.map((receipt) => show({ ...receipt, drift: driftText(receipt) }));
      printAnswer(flags.json, result, () => shown.join('\n'));
    });
  });
}

const EXAMPLE = '\nExample: agent-jobs export run --project acme --day 2026-01-31';

async function startExport({ jobs, signal }: Session, range: VisitorExportRangeInput, isJson = false): Promise<void> {
  const { workflowId } = await jobs.exportVisitors(range, { signal });
  printAnswer(isJson, { workflowId }, () => show({ workflowId }));
}

/** Exports one date range and waits for it, for a person with its progress on stderr. */
async function runExport({ jobs, signal }: Session, range: VisitorExportRangeInput, isJson = false) {
  const handle = await jobs.exportVisitors(range, { signal });
  const over = new AbortController();
  if (!isJson) showProgress(handle, over.signal).catch(() => {});
  try {
    return await handle.result({ signal });
  } finally {
    over.abort();
  }
}

function driftText({ drift, consistent }: SnapshotReceipt): string | null {
  return drift ? `${inconsistencyText(drift)}${consistent ? '; the snapshot before was kept' : ''}` : null;
}

const PROGRESS_EVERY_MS = 3_000;

/** Shows on stderr how far an export is, a line for each change, until the signal ends it. */
export async function showProgress(
  handle: VisitorExportHandle,
  signal: AbortSignal,
  { everyMs = PROGRESS_EVERY_MS } = {},
): Promise<void> {
  const show = progressPrinter();
  // A worker that runs has begun the export by the first poll.
  for await (const _ of setInterval(everyMs, undefined, { signal })) {
    const progress = await handle.progress({ signal }).catch(() => null);
    if (!signal.aborted) show(progress === null ? 'no worker answers yet' : lineOf(progress));
  }
}

function lineOf(progress: VisitorExportProgress): string {
  const { dateFrom, dateTo, scan, pages, rows, expectedRows, waitReason, nextRequestAt } = progress;
  const about = expectedRows === null ? '' : ` of about ${Math.max(rows, expectedRows)}`;
  const waits = nextRequestAt === null ? '' : `, next request ${nextRequestAt.slice(11, 19)} UTC`;
  const why = waitReason === null ? '' : `, waits: ${printable(waitReason)}`;
  const again = scan > 1 ? `, scan ${scan}` : '';
  return `${dateFrom}..${dateTo}  ${pages} pages, ${rows} rows${about}${again}${waits}${why}`;
}

/** The nightly exports go first. */
const BACKFILL_PRIORITY = 4;

/** Adds `export backfill`. */
export function addExportBackfill(group: Command): void {
  const command = group
    .command('backfill')
    .description('export, a day at a time, the days of a range that are missing, damaged, inconsistent or provisional')
    .requiredOption('--project <id>', 'the upstream project')
    .option('--json', 'print one day a line');
  addRangeOptions(command).action((flags: ExportFlags) => backfill(command, flags));
}

async function backfill(command: Command, flags: ExportFlags): Promise<void> {
  if (flags.from === undefined && flags.day === undefined) throw new UsageError('give --from, the first day, or --day');
  // The store says which days are still to do, so an interrupted backfill goes on where it was.
  const days = await daysToDo(flags);
  await withSession(command, async (session) => {
    const exported: SnapshotReceipt[] = [];
    let failures = 0;
    for (const day of days) {
      session.signal.throwIfAborted();
      const options = { secondScan: maySecondScan(exported), priority: BACKFILL_PRIORITY } as const;
      const receipts = await exportDay(session, flags, day, options);
      if (receipts === null) failures += 1;
      else exported.push(...receipts);
    }
    const summary = `${countOf(days.length - failures, 'day')} exported, ${failures} failed`;
    if (failures > 0) throw new CommandError('error', summary);
    if (!flags.json) print(summary);
  });
}

async function daysToDo(flags: ExportFlags): Promise<DateRange[]> {
  const { daysOf, withDamage } = await import('../exports/snapshots/catalog.js');
  const { dateFrom, dateTo } = await toExportRange(flags);
  const store = await openSnapshots();
  const manifests = await readManifests(store, flags.project);
  const days = await withDamage(store, daysOf(manifests, dateFrom, dateTo));
  const left = days.filter(({ state }) => state !== 'final');
  return left.map(({ date }) => ({ dateFrom: date, dateTo: plusDays(date, 1) }));
}

/** Exports one day. Returns its snapshot; null if it failed: that is reported, and the other days go on. */
async function exportDay(
  session: Session,
  { project: projectId, json }: ExportFlags,
  day: DateRange,
  options: Pick<VisitorExportRangeInput, 'secondScan' | 'priority'>,
): Promise<SnapshotReceipt[] | null> {
  const { dateFrom: date } = day;
  try {
    const { snapshots } = await runExport(session, { projectId, ...day, ...options }, json);
    for (const receipt of snapshots) {
      const kept = receipt.consistent && receipt.drift ? `; ${driftText(receipt)}` : '';
      printAnswer(json, { date, ...receipt }, () => `${date}  ${receipt.rows} rows, ${markOf(receipt)}${kept}`);
    }
    return snapshots;
  } catch (error) {
    session.signal.throwIfAborted();
    const { message } = error as Error;
    if (json) printJson({ date, error: message });
    else printToStderr(`${date}  ${message}`);
    return null;
  }
}
