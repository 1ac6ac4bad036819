/** What is done with snapshots that are there: `export verify`, `export gaps` and `report`. */
import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import type { SnapshotManifest } from '../contract.js';
import { inconsistencyText } from '../visitor-export/inconsistency.js';
import type { Day } from '../snapshots/catalog.js';
import type { SnapshotStore } from '../snapshots/snapshot-store.js';
import { EXIT, UsageError } from './exit.js';
import {
  addRangeOptions,
  addSnapshotsOption,
  openSnapshots,
  readManifests,
  tellNone,
  toExportRange,
  toRange,
  yesterday,
  type RangeFlags,
  type SnapshotsFlags,
} from './export-options.js';
import { print, printAnswer, printJson } from './session.js';
import { countOf, printable, printableLines } from './show.js';

interface InspectFlags extends RangeFlags, SnapshotsFlags {
  project?: string;
  json?: boolean;
}

export function addExportInspect(group: Command): void {
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
  const store = await openSnapshots(flags);
  const manifests = await readManifests(store, flags.project);
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
    process.stdout.write(process.stdout.isTTY ? printableLines(page) : page);
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
