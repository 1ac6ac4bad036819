/** The options that commands of exports share: which days, and where the snapshots lie. */
import type { Command } from 'commander';
import { dateOf, isDate, plusDays, type DateRange } from '../exports/date-range.js';
import type { SnapshotManifest } from '../contract.js';
import type { SnapshotStore } from '../exports/snapshots/snapshot-store.js';
import { CommandError, UsageError } from './exit.js';
import { printable } from './show.js';

interface RangeFlags {
  day?: string;
  from?: string;
  to?: string;
}

/** The flags of a command about a project's exports. */
export interface ExportFlags extends RangeFlags {
  project: string;
  json?: boolean;
}

/** Adds the options that name days. */
export function addRangeOptions(command: Command): Command {
  return command
    .option('--day <date>', 'one day, YYYY-MM-DD')
    .option('--from <date>', 'from this day on')
    .option('--to <date>', 'up to before this day');
}

/** The days that the options name, those that are left out by `preset`; throws a UsageError. */
export function toRange({ day, from, to }: RangeFlags, preset: DateRange): DateRange {
  if (day !== undefined && (from ?? to) !== undefined) throw new UsageError('give --day, or --from and --to');
  for (const [name, date] of Object.entries({ day, from, to })) {
    if (date !== undefined && !isDate(date)) throw new UsageError(`--${name} must be a date, YYYY-MM-DD`);
  }
  if (day !== undefined) return { dateFrom: day, dateTo: plusDays(day, 1) };
  const dateTo = to ?? (from !== undefined && from >= preset.dateTo ? plusDays(from, 1) : preset.dateTo);
  const dateFrom = from ?? (preset.dateFrom < dateTo ? preset.dateFrom : plusDays(dateTo, -1));
  if (dateFrom >= dateTo)
    throw new UsageError(`--to must be later than --from, it is exclusive: ${dateFrom}..${dateTo}`);
  return { dateFrom, dateTo };
}

/**
 * The days that the options name, yesterday by default. Throws a UsageError for one that can't have begun: its
 * snapshot would be empty, and look like a day without visitors.
 */
export async function toExportRange(flags: RangeFlags, preset = yesterday()): Promise<DateRange> {
  const { mayHaveBegun } = await import('../exports/snapshots/catalog.js');
  const range = toRange(flags, preset);
  const today = dateOf(Date.now());
  if (mayHaveBegun({ dateFrom: plusDays(range.dateTo, -1) }, today)) return range;
  throw new UsageError(`the range is too late: no time zone is past ${plusDays(today, 1)} yet`);
}

/** Yesterday by UTC. */
export function yesterday(): DateRange {
  const dateTo = dateOf(Date.now());
  return { dateFrom: plusDays(dateTo, -1), dateTo };
}

/** Opens the store that SNAPSHOTS_URL names; throws a ConfigError. */
export async function openSnapshots(): Promise<SnapshotStore> {
  const { readSnapshotsConfig } = await import('../config.js');
  const { openStore } = await import('../exports/snapshots/open-store.js');
  const { url, forcePathStyle } = readSnapshotsConfig();
  return openStore(url, { forcePathStyle });
}

/** Throws InvalidInputError if the store that SNAPSHOTS_URL names, if it does, takes the project for another one. */
export async function checkOwnFolders(projectId: string): Promise<void> {
  const { processEnvironment } = await import('../config.js');
  if (!processEnvironment['SNAPSHOTS_URL']) return;
  const { checkProject } = await import('../exports/snapshots/project-marker.js');
  await checkProject(await openSnapshots(), projectId);
}

/** Nothing was found: no output could pass for a good answer, and a mistyped name for a clean one. */
export function noneFound(store: SnapshotStore, project?: string, what = 'snapshots'): CommandError {
  const whose = project === undefined ? '' : ` of project ${printable(project)}`;
  const remedy = 'check the range and SNAPSHOTS_URL; `agent-jobs export run` saves a first one';
  return new CommandError('error', `no ${what}${whose} in this range at ${store.url}: ${remedy}`);
}

/** The manifests of a project's snapshots; throws if there are none. */
export async function readSomeManifests(store: SnapshotStore, project: string): Promise<SnapshotManifest[]> {
  const manifests = await readManifests(store, project);
  if (manifests.length === 0) throw noneFound(store, project);
  return manifests;
}

/** The manifests of a project's snapshots. */
export async function readManifests(store: SnapshotStore, project: string): Promise<SnapshotManifest[]> {
  const { listManifests } = await import('../exports/snapshots/catalog.js');
  const manifests: SnapshotManifest[] = [];
  for await (const manifest of listManifests(store, project)) manifests.push(manifest);
  return manifests;
}
