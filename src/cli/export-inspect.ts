import type { Command } from 'commander';
import type { SnapshotManifest } from '../contract.js';
import { inconsistencyText } from '../visitor-export/inconsistency.js';
import type { Day } from '../snapshots/days.js';
import { EXIT } from './exit.js';
import { addRangeOptions, toRange, yesterday, type RangeFlags } from './export-range.js';
import { print, printJson } from './session.js';
import { addSnapshotsOption, openSnapshots, tellNone, type SnapshotsFlags } from './snapshots-option.js';
import { printable, readableTime, table } from './text.js';

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
function markOf({ consistent, provisional, drift }: SnapshotManifest): string {
  const marks = [
    ...(consistent ? [] : [`inconsistent${drift ? `: ${inconsistencyText(drift)}` : ''}`]),
    ...(provisional ? ['provisional'] : []),
  ];
  return marks.length === 0 ? 'consistent' : marks.join(', ');
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
    if (flags.json) printJson({ file: key, problems: [STRAY] });
    else print(printable(`${key}: ${STRAY}`));
  }
  const alsoStray = strays > 0 ? `, ${strays} files that belong to none` : '';
  if (!flags.json) print(`${count} snapshots verified, ${wrong} with differences${alsoStray}`);
  if (count === 0) tellNone(store, flags.project);
  if (wrong + strays > 0) process.exitCode = EXIT.error;
}

async function showGaps(flags: InspectFlags & { project: string; quick?: boolean }): Promise<void> {
  const { daysOf, isOneDay, isStillDue, withDamage } = await import('../snapshots/days.js');
  const { listManifests } = await import('../snapshots/catalog.js');
  const manifests: SnapshotManifest[] = [];
  const store = await openSnapshots(flags);
  for await (const manifest of listManifests(store, flags.project)) manifests.push(manifest);
  if (manifests.length === 0) tellNone(store, flags.project);
  const { dateFrom, dateTo } = yesterday();
  const first = manifests.find(isOneDay)?.dateFrom ?? dateFrom;
  const range = toRange(flags, { dateFrom: first, dateTo });
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
  if (!flags.json)
    print(`${range.dateFrom}..${range.dateTo}: ${gaps.length === 0 ? 'no gaps' : `${gaps.length} days`}`);
  if (gaps.length > 0) process.exitCode = EXIT.error;
}

function gapWords({ state, manifest }: Day): string {
  if (state === 'damaged' && manifest) return 'damaged: its files are not the ones that its manifest names';
  if (state === 'damaged') return 'damaged: its manifest is not the one that was written';
  return manifest ? markOf(manifest) : state;
}
