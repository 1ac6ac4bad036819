/** What is done with snapshots that are there: `export list`, `verify`, `gaps`, `clean`, and `report`. */
import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { type SnapshotManifest, type VisitorExportRange, visitorExportWorkflowId } from '../contract.js';
import { inconsistencyText } from '../visitor-export/inconsistency.js';
import type { Day } from '../snapshots/catalog.js';
import type { SnapshotStore } from '../snapshots/snapshot-store.js';
import { isOpen } from '../temporal/open-workflows.js';
import { EXIT, UsageError } from './exit.js';
import {
  addRangeOptions,
  addSnapshotsOption,
  openSnapshots,
  tellNone,
  toExportRange,
  toRange,
  yesterday,
  type RangeFlags,
  type SnapshotsFlags,
} from './export-options.js';
import { print, printAnswer, printJson, printToStderr, withSession, type Session } from './session.js';
import { countOf, forStdout, printable, readableTime, table } from './table.js';
import { addYesOption, confirm, type ConfirmFlags } from './terminal.js';

interface InspectFlags extends RangeFlags, SnapshotsFlags {
  project?: string;
  json?: boolean;
}

export function addExportInspect(group: Command): void {
  const list = group.command('list').description('list snapshots').option('--project <id>', 'of one project');
  addSnapshotsOption(list).option('--json', 'print one manifest a line').action(listSnapshots);
  const verify = group
    .command('verify')
    .description('compare files with manifests: sha256, rows, content; exit code 1 on any difference')
    .option('--project <id>', 'of one project');
  addSnapshotsOption(addRangeOptions(verify)).option('--json', 'print one snapshot a line').action(verifySnapshots);
  const gaps = group
    .command('gaps')
    .description(
      'list days that are missing, damaged, inconsistent or provisional; ' +
        'exit code 1 where a scheduled run has left one',
    )
    .option('--quick', 'compare the sizes of files alone')
    .requiredOption('--project <id>', 'the upstream project');
  addSnapshotsOption(addRangeOptions(gaps)).option('--json', 'print one day a line').action(showGaps);
}

async function listSnapshots(flags: InspectFlags): Promise<void> {
  const { listManifests } = await import('../snapshots/catalog.js');
  const { isAsWritten } = await import('../snapshots/manifest.js');
  const store = await openSnapshots(flags);
  const rows: string[][] = [];
  let count = 0;
  for await (const manifest of listManifests(store, flags.project)) {
    count += 1;
    if (flags.json) printJson(manifest);
    else rows.push(rowOf(manifest, isAsWritten(manifest) ? markOf(manifest) : 'damaged'));
  }
  const headings = ['PROJECT', 'FROM', 'TO', 'ROWS', 'HUMAN', 'AI', 'TOTAL', 'STATE', 'EXPORTED'];
  if (count === 0) return tellNone(store, flags.project);
  if (!flags.json) print(table(headings, rows));
}

function rowOf(manifest: SnapshotManifest, mark: string): string[] {
  const { projectId, dateFrom, dateTo, rows, totals, exportedAt } = manifest;
  const counts = [rows, totals.human, totals.ai, totals.total].map(String);
  return [projectId, dateFrom, dateTo, ...counts, mark, readableTime(exportedAt)];
}

/** How far a snapshot can be believed, in a few words. */
function markOf({ consistent, provisional, drift, rounded }: SnapshotManifest): string {
  const marks = [
    ...(consistent ? [] : [`inconsistent${drift ? `: ${inconsistencyText(drift)}` : ''}`]),
    ...(provisional ? ['provisional'] : []),
  ];
  if (marks.length === 0) marks.push('consistent');
  if (rounded) marks.push('counts rounded');
  return marks.join(', ');
}

const STRAY = 'belongs to no snapshot, and a glob for Parquet reads it';

async function verifySnapshots(flags: InspectFlags): Promise<void> {
  const { findSnapshots, findStray } = await import('../snapshots/catalog.js');
  const { verifySnapshot } = await import('../snapshots/verify.js');
  const store = await openSnapshots(flags);
  const { dateFrom, dateTo } = toRange(flags, { dateFrom: '0000-01-01', dateTo: '9999-12-31' });
  let count = 0;
  let wrong = 0;
  for await (const found of findSnapshots(store, flags.project)) {
    if (found.dateFrom < dateFrom || found.dateTo > dateTo) continue;
    const verification = await verifySnapshot(store, found);
    count += 1;
    if (verification.problems.length > 0) wrong += 1;
    if (flags.json) printJson(verification);
    else for (const problem of verification.problems) print(printable(`${found.folder}: ${problem}`));
  }
  let strays = 0;
  for await (const key of findStray(store, flags.project)) {
    strays += 1;
    printAnswer(flags.json, { file: key, problems: [STRAY] }, () => printable(`${key}: ${STRAY}`));
  }
  const alsoStray = strays > 0 ? `, ${strays} files that belong to none` : '';
  if (!flags.json) print(`${count} snapshots verified, ${wrong} with differences${alsoStray}`);
  if (count === 0) tellNone(store, flags.project);
  if (wrong + strays > 0) process.exitCode = EXIT.error;
}

async function showGaps(flags: InspectFlags & { project: string; quick?: boolean }): Promise<void> {
  const { daysOf, isOneDay, isStillDue, withDamage } = await import('../snapshots/catalog.js');
  const { listManifests } = await import('../snapshots/catalog.js');
  const manifests: SnapshotManifest[] = [];
  const store = await openSnapshots(flags);
  for await (const manifest of listManifests(store, flags.project)) manifests.push(manifest);
  if (manifests.length === 0) tellNone(store, flags.project);
  const { dateFrom, dateTo } = yesterday();
  const first = manifests.find(isOneDay)?.dateFrom ?? dateFrom;
  const range = await toExportRange(flags, { dateFrom: first, dateTo });
  const days = await withDamage(store, daysOf(manifests, range.dateFrom, range.dateTo), {
    sizesOnly: flags.quick === true,
  });
  const open = days.filter(({ state }) => state !== 'final');
  const gaps = open.filter((day) => !isStillDue(day, Date.now()));
  for (const day of open) {
    const { date, state, manifest } = day;
    const due = !gaps.includes(day);
    if (flags.json)
      printJson({ date, state, due, drift: manifest?.drift ?? null, exportedAt: manifest?.exportedAt ?? null });
    else print(`${date}  ${gapWords(day)}${due ? ', the next scheduled run is still to come' : ''}`);
  }
  const counted = gaps.length === 0 ? 'no gaps' : countOf(gaps.length, 'day');
  const toCome = open.length > gaps.length ? `, ${countOf(open.length - gaps.length, 'day')} still to come` : '';
  if (!flags.json) print(`${range.dateFrom}..${range.dateTo}: ${counted}${toCome}`);
  if (gaps.length > 0) process.exitCode = EXIT.error;
}

const FOREIGN = 'a backfill mends that, but a foreign file, which "agent-jobs export verify" names, is yours to remove';

function gapWords({ state, manifest }: Day): string {
  if (state === 'damaged' && manifest) return `damaged: its files are not the ones that its manifest names; ${FOREIGN}`;
  if (state === 'damaged') return 'damaged: its manifest is not the one that was written';
  return manifest ? markOf(manifest) : state;
}

interface CleanFlags extends SnapshotsFlags, ConfirmFlags {
  dryRun?: boolean;
}

export function addExportClean(group: Command): void {
  const command = group
    .command('clean')
    .description(
      'remove work in progress of date ranges that no run is writing, and what was replaced over 30 days ago',
    )
    .option('--dry-run', 'show what would be removed, and remove nothing')
    .option('--json', 'print one folder a line');
  addSnapshotsOption(addYesOption(command)).action((flags: CleanFlags) => clean(command, flags));
}

async function clean(command: Command, flags: CleanFlags): Promise<void> {
  const { stagedRanges } = await import('../snapshots/staging.js');
  const { removeExpired } = await import('../snapshots/superseded.js');
  const store = await openSnapshots(flags);
  const dryRun = flags.dryRun === true;
  const now = Date.now();
  await withSession(command, async (session) => {
    let removed = 0;
    const told = (folder: string) => {
      removed += 1;
      printAnswer(flags.json, { folder }, () => folder);
    };
    const ranges = await stagedRanges(store);
    if (!dryRun) await confirm(() => questionOf(session, store, ranges, now), flags, session.signal);
    for (const range of ranges) {
      const folder = await cleanRange(session, store, range, dryRun);
      if (folder !== null) told(folder);
    }
    for (const folder of await removeExpired(store, now, undefined, { dryRun })) told(folder);
    if (!flags.json) print(`${removed} folders ${dryRun ? 'would be ' : ''}removed`);
  });
}

/** Null where nothing would be removed. */
async function questionOf(
  session: Session,
  store: SnapshotStore,
  ranges: readonly VisitorExportRange[],
  now: number,
): Promise<string | null> {
  const { removeExpired } = await import('../snapshots/superseded.js');
  let staged = 0;
  for (const range of ranges) if (!(await isBeingWritten(session, range))) staged += 1;
  const expired = (await removeExpired(store, now, undefined, { dryRun: true })).length;
  if (staged + expired === 0) return null;
  const what = `work in progress of ${countOf(staged, 'date range')}, and ${countOf(expired, 'replaced snapshot')}`;
  return `Remove ${countOf(staged + expired, 'folder')} at ${store.url} (${what}), which can not be undone?`;
}

/** The folder that is gone; null where a run is writing the date range: it may have begun since the question. */
async function cleanRange(
  session: Session,
  store: SnapshotStore,
  range: VisitorExportRange,
  dryRun: boolean,
): Promise<string | null> {
  const { stagingFolder } = await import('../snapshots/layout.js');
  const { finishPublication } = await import('../snapshots/publish.js');
  const { NewerManifestError } = await import('../snapshots/manifest.js');
  const { cleanUpStaging } = await import('../snapshots/staging.js');
  const folder = stagingFolder(range);
  if (await isBeingWritten(session, range)) {
    printToStderr(`agent-jobs: ${folder} stays: a run is writing this date range`);
    return null;
  }
  if (dryRun) return folder;
  try {
    await finishPublication(store, range); // else its rows would lie beside the manifest of others
  } catch (error) {
    if (!(error instanceof NewerManifestError)) throw error;
    printToStderr(`agent-jobs: ${folder} stays: ${error.message}`);
    return null;
  }
  await cleanUpStaging(store, range);
  return folder;
}

/** Whether the date range's one writer runs; what lies in staging is then its own. */
async function isBeingWritten({ jobs, signal }: Session, range: VisitorExportRange): Promise<boolean> {
  const { temporalCall } = await import('../client/temporal-call.js');
  const { WorkflowNotFoundError } = await import('@temporalio/client');
  const handle = jobs.client.workflow.getHandle(visitorExportWorkflowId(range.projectId, range.dateFrom, range.dateTo));
  try {
    const { status } = await temporalCall(jobs.client, { signal }, () => handle.describe());
    return isOpen(status.name);
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

interface ReportFlags extends SnapshotsFlags {
  project: string;
  output?: string;
  json?: boolean;
}

export function addReport(program: Command): void {
  const command = program
    .command('report')
    .description('make the HTML report of a project from its snapshots')
    .requiredOption('--project <id>', 'the upstream project')
    .option('--output <file>', 'write it to this file, "-" is stdout (default: beside the snapshots)')
    .option('--json', 'print where it was written as JSON');
  addSnapshotsOption(command).action(async (flags: ReportFlags) => {
    const { project: projectId, output, json } = flags;
    if (json && output === '-') throw new UsageError('--json tells where the report is: give it a file by --output');
    const store = await openSnapshots(flags);
    // The report of a mistyped name would be a page that says so little.
    if (!(await hasSnapshots(store, projectId))) return tellNone(store, projectId);
    const location = await make(store, projectId, output);
    if (location === null) return;
    printAnswer(json, { projectId, location }, () => location);
  });
}

/** Where it is; null for standard output. */
async function make(store: SnapshotStore, projectId: string, output: string | undefined): Promise<string | null> {
  const { loadOptional } = await import('../snapshots/open-store.js');
  const { buildReport, writeReport } = await loadOptional('the report', () => import('../report/report.js'));
  const generatedAt = new Date().toISOString();
  if (output === undefined) return writeReport(store, projectId, generatedAt);
  const page = await buildReport(store, projectId, generatedAt);
  if (output === '-') {
    process.stdout.write(forStdout(page));
    return null;
  }
  await writeFile(output, page);
  return output;
}

async function hasSnapshots(store: SnapshotStore, projectId: string): Promise<boolean> {
  const { listManifests } = await import('../snapshots/catalog.js');
  for await (const _ of listManifests(store, projectId)) return true;
  return false;
}
