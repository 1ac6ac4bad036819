/** What is done with snapshots that are there: `export verify`, `export gaps` and `report`. */
import type { Command } from 'commander';
import type { SnapshotManifest } from '../contract.js';
import { type DateRange, plusDays } from '../exports/date-range.js';
import { inconsistencyText } from '../exports/scan-checkpoint.js';
import type { Day } from '../exports/snapshots/catalog.js';
import { CommandError } from './exit.js';
import {
  addRangeOptions,
  noneFound,
  openSnapshots,
  readManifests,
  readSomeManifests,
  toExportRange,
  toRange,
  yesterday,
  type ExportFlags,
} from './export-options.js';
import { print, printAnswer } from './session.js';
import { countOf, printable } from './show.js';

/** Adds `export verify` and `export gaps`. */
export function addExportInspect(group: Command): void {
  const verify = group
    .command('verify')
    .description(
      'compare the files at SNAPSHOTS_URL with their manifests: sha256, rows, content; exit code 1 on any difference',
    )
    .option('--project <id>', 'of one project');
  addRangeOptions(verify).option('--json', 'print one snapshot a line').action(verifySnapshots);
  const gaps = group
    .command('gaps')
    .description(
      'list days whose snapshots at SNAPSHOTS_URL are missing, damaged, inconsistent or provisional; ' +
        'exit code 1 if a scheduled run has left one',
    )
    .requiredOption('--project <id>', 'the upstream project');
  addRangeOptions(gaps).option('--json', 'print one day a line').action(showGaps);
}

/** How far a snapshot can be believed, in a few words. */
export function markOf({
  consistent,
  provisional,
  drift,
  rounded,
}: Pick<SnapshotManifest, 'consistent' | 'provisional' | 'drift' | 'rounded'>): string {
  const marks = [
    ...(consistent ? [] : [`inconsistent${drift ? `: ${inconsistencyText(drift)}` : ''}`]),
    ...(provisional ? ['provisional'] : []),
  ];
  if (marks.length === 0) marks.push('consistent');
  if (rounded) marks.push('counts rounded');
  return marks.join(', ');
}

async function verifySnapshots(flags: Partial<ExportFlags>): Promise<void> {
  const { findSnapshots, strayFiles } = await import('../exports/snapshots/catalog.js');
  const { verifySnapshot } = await import('../exports/snapshots/verify.js');
  const store = await openSnapshots();
  const { dateFrom, dateTo } = toRange(flags, { dateFrom: '0000-01-01', dateTo: '9999-12-31' });
  let [count, wrong] = [0, 0];
  const linesOf = (name: string, problems: readonly string[]) =>
    problems.map((problem) => printable(`${name}: ${problem}`)).join('\n');
  for await (const found of findSnapshots(store, flags.project)) {
    if (found.dateFrom < dateFrom || found.dateTo > dateTo) continue;
    const verification = await verifySnapshot(store, found);
    count += 1;
    if (verification.problems.length > 0) wrong += 1;
    if (flags.json || verification.problems.length > 0) {
      printAnswer(flags.json, verification, () => linesOf(found.folder, verification.problems));
    }
  }
  for await (const key of strayFiles(store, flags.project)) {
    wrong += 1;
    const problems = ['no manifest can name it, and a glob for Parquet reads it'];
    printAnswer(flags.json, { file: key, problems }, () => linesOf(key, problems));
  }
  if (count === 0) throw noneFound(store, flags.project);
  const summary = `${count} snapshots verified, ${wrong} with differences`;
  if (wrong > 0) throw new CommandError('error', summary);
  if (!flags.json) print(summary);
}

async function showGaps(flags: ExportFlags): Promise<void> {
  const { daysOf, isOneDay, isStillDue, withDamage } = await import('../exports/snapshots/catalog.js');
  const store = await openSnapshots();
  // A range that was asked for shows what a lost store lacks.
  const isAsked = flags.day !== undefined || flags.from !== undefined;
  const manifests = await (isAsked ? readManifests : readSomeManifests)(store, flags.project);
  const { dateFrom, dateTo } = yesterday();
  const first = manifests.find(isOneDay)?.dateFrom ?? dateFrom;
  const range = await toExportRange(flags, { dateFrom: first, dateTo });
  const days = await withDamage(store, daysOf(manifests, range.dateFrom, range.dateTo));
  const counts = { gaps: 0, due: 0 };
  for (const day of days.filter(({ state }) => state !== 'final')) {
    const { date, state, manifest } = day;
    const due = isStillDue(day, Date.now());
    counts[due ? 'due' : 'gaps'] += 1;
    const line = { date, state, due, drift: manifest?.drift ?? null, exportedAt: manifest?.exportedAt ?? null };
    const toCome = due ? ', a nightly run may still export it' : '';
    printAnswer(flags.json, line, () => `${date}  ${gapWords(day)}${toCome}`);
  }
  const gaps = counts.gaps === 0 ? 'no gaps' : countOf(counts.gaps, 'gap');
  const due = counts.due > 0 ? `, ${countOf(counts.due, 'day')} still to come` : '';
  const summary = `${range.dateFrom}..${range.dateTo}: ${gaps}${due}`;
  if (counts.gaps > 0) throw new CommandError('error', summary);
  if (!flags.json) print(summary);
}

const FOREIGN = 'a backfill mends that, but a foreign file, which "agent-jobs export verify" names, is yours to remove';

function gapWords({ state, manifest }: Day): string {
  if (state === 'damaged' && manifest) return `damaged: its files are not the ones that its manifest names; ${FOREIGN}`;
  if (state === 'damaged') return 'damaged: its manifest is not the one that was written';
  return manifest ? markOf(manifest) : state;
}

/** The days of a report for which one end is given. */
async function reportRange(flags: Pick<ExportFlags, 'from' | 'to'>): Promise<DateRange> {
  const { REPORT_DAYS } = await import('../exports/report/figures.js');
  const { dateTo } = yesterday();
  return toRange(flags, { dateFrom: plusDays(dateTo, -REPORT_DAYS), dateTo });
}

async function hasDayIn({ dateFrom, dateTo }: DateRange, manifests: readonly SnapshotManifest[]): Promise<boolean> {
  const { isOneDay } = await import('../exports/snapshots/catalog.js');
  return manifests.some((one) => isOneDay(one) && one.dateFrom >= dateFrom && one.dateTo <= dateTo);
}

/** Adds `report`. */
export function addReport(program: Command): void {
  const command = program
    .command('report')
    .description('make the HTML report of a project from its snapshots at SNAPSHOTS_URL, beside them')
    .requiredOption('--project <id>', 'the upstream project')
    .option('--from <date>', 'from this day on (default: the last 90 days)')
    .option('--to <date>', 'up to before this day')
    .option('--json', 'print where it is as JSON');
  command.action(async ({ project: projectId, json, ...flags }: ExportFlags) => {
    const range = flags.from === undefined && flags.to === undefined ? undefined : await reportRange(flags);
    const store = await openSnapshots();
    // A mistyped name or range would make an empty page.
    const manifests = await readSomeManifests(store, projectId);
    if (range && !(await hasDayIn(range, manifests))) throw noneFound(store, projectId, 'snapshots of single days');
    const { loadOptional } = await import('../exports/snapshots/open-store.js');
    const { writeReport } = await loadOptional('the report', () => import('../exports/report/report.js'));
    const location = await writeReport(store, projectId, new Date().toISOString(), range);
    printAnswer(json, { projectId, location }, () => location);
  });
}
