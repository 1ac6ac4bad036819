import type { Command } from 'commander';
import type { SnapshotManifest } from '../contract.js';
import { EXIT } from './exit-codes.js';
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
    .description('list days that are missing, inconsistent or provisional; exit code 1 where there is one')
    .requiredOption('--project <id>', 'the upstream project');
  addSnapshotsOption(addRangeOptions(gaps)).option('--json', 'print one day a line').action(showGaps);
}

async function listSnapshots(flags: InspectFlags): Promise<void> {
  const { listManifests } = await import('../snapshots/catalog.js');
  const rows: string[][] = [];
  for await (const manifest of listManifests(await openSnapshots(flags), flags.project)) {
    if (flags.json) printJson(manifest);
    else rows.push(rowOf(manifest));
  }
  const headings = ['PROJECT', 'FROM', 'TO', 'ROWS', 'HUMAN', 'AI', 'TOTAL', 'STATE', 'EXPORTED'];
  if (!flags.json) print(rows.length === 0 ? 'no snapshots' : table(headings, rows));
}

function rowOf(manifest: SnapshotManifest): string[] {
  const { projectId, dateFrom, dateTo, rows, totals, exportedAt } = manifest;
  const counts = [rows, totals.human, totals.ai, totals.total].map(String);
  return [projectId, dateFrom, dateTo, ...counts, markOf(manifest), readableTime(exportedAt)];
}

/** How far a snapshot can be believed, in a few words. */
export function markOf({ consistent, provisional, drift }: SnapshotManifest): string {
  const marks = [
    ...(consistent ? [] : [`inconsistent${drift ? ` (${drift.kind} at row ${drift.offset})` : ''}`]),
    ...(provisional ? ['provisional'] : []),
  ];
  return marks.length === 0 ? 'consistent' : marks.join(', ');
}

async function verifySnapshots(flags: InspectFlags): Promise<void> {
  const { findSnapshots } = await import('../snapshots/catalog.js');
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
  if (!flags.json) print(`${count} snapshots verified, ${wrong} with differences`);
  if (count === 0) tellNone(store, flags.project);
  if (wrong > 0) process.exitCode = EXIT.error;
}

async function showGaps(flags: InspectFlags & { project: string }): Promise<void> {
  const { daysOf, isOneDay } = await import('../snapshots/days.js');
  const { listManifests } = await import('../snapshots/catalog.js');
  const manifests: SnapshotManifest[] = [];
  for await (const manifest of listManifests(await openSnapshots(flags), flags.project)) manifests.push(manifest);
  const { dateFrom, dateTo } = yesterday();
  const first = manifests.find(isOneDay)?.dateFrom ?? dateFrom;
  const range = toRange(flags, { dateFrom: first, dateTo });
  const gaps = daysOf(manifests, range.dateFrom, range.dateTo).filter(({ state }) => state !== 'final');
  for (const { date, state, manifest } of gaps) {
    if (flags.json)
      printJson({ date, state, drift: manifest?.drift ?? null, exportedAt: manifest?.exportedAt ?? null });
    else print(`${date}  ${manifest ? markOf(manifest) : state}`);
  }
  if (!flags.json)
    print(`${range.dateFrom}..${range.dateTo}: ${gaps.length === 0 ? 'no gaps' : `${gaps.length} days`}`);
  if (gaps.length > 0) process.exitCode = EXIT.error;
}
