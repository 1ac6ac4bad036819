import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import type { SnapshotManifest, VisitorExportRangeInput, VisitorExportResult } from '../contract.js';
import type { Day } from '../snapshots/days.js';
import { MAX_SECOND_SCANS, NEW_ROWS_PER_PAGE } from '../visitor-export/scan-checkpoint.js';
import { EXIT, UsageError } from './exit.js';
import { runExport } from './export-run.js';
import { addPriorityOption, toPriority } from './job-options.js';
import { addRangeOptions, toExportRange, type RangeFlags } from './export-range.js';
import { print, printJson, printToStderr, withSession, type Session } from './session.js';
import { addSnapshotsOption, openSnapshots, type SnapshotsFlags } from './snapshots-option.js';

interface BackfillFlags extends RangeFlags, SnapshotsFlags {
  project: string;
  priority?: string;
  pause: string;
  all?: boolean;
  dryRun?: boolean;
  json?: boolean;
}

/** The nightly exports go first. */
const BACKFILL_PRIORITY = '4';

export function addExportBackfill(group: Command): void {
  const command = group
    .command('backfill')
    .description('export, a day at a time, the days of a range that are missing, damaged, inconsistent or provisional')
    .requiredOption('--project <id>', 'the upstream project')
    .option('--pause <seconds>', 'rest between two days; the budget of EXPORT_REQUESTS_PER_HOUR holds anyway', '0')
    .option('--all', 'export every day anew')
    .option('--dry-run', 'show which days would be exported, and export nothing')
    .option('--json', 'print one day a line');
  addPriorityOption(command, 'who goes first where exports wait for their shared budget', BACKFILL_PRIORITY);
  addSnapshotsOption(addRangeOptions(command)).action((flags: BackfillFlags) => backfill(command, flags));
}

async function backfill(command: Command, flags: BackfillFlags): Promise<void> {
  const priority = toPriority(flags.priority ?? BACKFILL_PRIORITY) ?? null;
  const pauseMs = Number(flags.pause) * 1_000;
  if (!(pauseMs >= 0)) throw new UsageError('--pause must be a number of seconds');
  if (flags.from === undefined && flags.day === undefined) throw new UsageError('give --from, the first day, or --day');
  // The store tells which days are still to do, so an interrupted backfill goes on where it was. `--all` begins anew.
  const days = await daysToDo(flags);
  if (flags.dryRun) return showPlan(days, flags);
  await withSession(command, async (session) => {
    let failures = 0;
    let secondScans = 0;
    for (const [i, { date }] of days.entries()) {
      if (i > 0) await delay(pauseMs, undefined, { signal: session.signal }).catch(() => {});
      session.signal.throwIfAborted();
      const options = { secondScan: secondScans < MAX_SECOND_SCANS, priority };
      const day = await backfillDay(session, flags, date, options);
      if (!day) failures += 1;
      secondScans += day?.secondScans ?? 0;
    }
    if (!flags.json) print(`${days.length - failures} days exported, ${failures} failed`);
    if (failures > 0) process.exitCode = EXIT.error;
  });
}

async function daysToDo(flags: BackfillFlags): Promise<Day[]> {
  const { daysOf, withDamage } = await import('../snapshots/days.js');
  const { listManifests } = await import('../snapshots/catalog.js');
  const { dateFrom, dateTo } = await toExportRange(flags);
  const manifests: SnapshotManifest[] = [];
  const store = await openSnapshots(flags);
  for await (const manifest of listManifests(store, flags.project)) manifests.push(manifest);
  const days = await withDamage(store, daysOf(manifests, dateFrom, dateTo));
  return days.filter(({ state }) => flags.all === true || state !== 'final');
}

function showPlan(days: Day[], { json }: BackfillFlags): void {
  for (const { date, state } of days) {
    if (json) printJson({ date, state });
    else print(`${date}  ${state}`);
  }
  const known = days.map(({ manifest }) => manifest?.rows).filter((rows) => rows !== undefined);
  const pages = known.reduce((sum, rows) => sum + requestsFor(rows), 0);
  if (!json) print(`${days.length} days would be exported${pages > 0 ? `; at least ${pages} requests` : ''}`);
}

/** The fewest requests of one scan: pages overlap by one row, and the first one is read again at the end. */
function requestsFor(rows: number): number {
  return Math.max(2, Math.ceil((rows - 1) / NEW_ROWS_PER_PAGE) + 1);
}

/** Exports one day; null where it failed, which is reported and does not stop the others. Ctrl-C is thrown. */
async function backfillDay(
  session: Session,
  { project, json }: BackfillFlags,
  date: string,
  options: Pick<VisitorExportRangeInput, 'secondScan' | 'priority'>,
): Promise<VisitorExportResult | null> {
  const { plusDays } = await import('../visitor-export/date-range.js');
  const range = { projectId: project, dateFrom: date, dateTo: plusDays(date, 1) };
  try {
    const result = await runExport(session, { ...range, ...options }, json !== true);
    for (const receipt of result.snapshots) {
      if (json) printJson({ date, ...receipt });
      else print(`${date}  ${receipt.rows} rows, ${receipt.consistent ? 'consistent' : 'inconsistent'}`);
    }
    await waitUntil(result.nextRequestAt, session.signal);
    return result;
  } catch (error) {
    session.signal.throwIfAborted();
    const { message, nextRequestAt } = error as Error & { nextRequestAt?: string };
    if (json) printJson({ date, error: message });
    else printToStderr(`${date}  ${message}`);
    await waitUntil(nextRequestAt, session.signal).catch(() => session.signal.throwIfAborted());
    return null;
  }
}

/** Keeps the worker's pace after a day, the last one included: another export may follow. */
async function waitUntil(time: string | undefined, signal: AbortSignal): Promise<void> {
  const waitMs = time === undefined ? 0 : Date.parse(time) - Date.now();
  if (waitMs <= 0) return;
  printToStderr(`the next request may leave at ${time}`);
  await delay(waitMs, undefined, { signal });
}
