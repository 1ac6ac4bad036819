/** Which snapshots a store has, the state of each day of a calendar, and which missed days are made up for. */
import { isDeepStrictEqual } from 'node:util';
import { encodeId, type SnapshotManifest } from '../../contract.js';
import { DAY_MS, decodeId } from '../../contract/shared.js';
import { type DateRange, dateOf, isDate, plusDays } from '../date-range.js';
import { intentKey, projectFolder, snapshotFolder } from './layout.js';
import { foreignFiles, isAsWritten, isOf, isWhole, readManifest, readManifestAt } from './manifest.js';
import { checkProject, markedProjects } from './project-marker.js';
import type { SnapshotStore } from './snapshot-store.js';

/** The folder of one snapshot, as found: without a manifest there is no snapshot. */
export interface FoundSnapshot {
  /** Its folder's key. */
  folder: string;
  projectId: string;
  dateFrom: string;
  dateTo: string;
  /** Keys of the objects in the folder and below it. */
  keys: string[];
}

const MANIFEST = 'manifest.json';
const RANGE_FOLDER = /^visitors\/projectId=([^/]+)\/dateFrom=([^/]+)\/dateTo=([^/]+)\//;
const READS_AT_ONCE = 8;

/** The folders of a project's date ranges from a date on, or of all projects, in order of project and dates. */
export async function* findSnapshots(
  store: SnapshotStore,
  projectId?: string,
  from?: string,
): AsyncGenerator<FoundSnapshot> {
  const byFolder = new Map<string, FoundSnapshot>();
  for await (const key of store.list(projectFolder(projectId), from && `dateFrom=${from}`)) {
    const range = rangeFolderOf(key);
    if (!range) continue; // not put there by an export
    if (from !== undefined && range.dateFrom < from) continue; // not every S3 server can begin in the middle
    const found = byFolder.get(range.folder);
    if (found) found.keys.push(key);
    else byFolder.set(range.folder, { ...range, keys: [key] });
  }
  yield* [...byFolder.values()].sort((a, b) => (a.folder < b.folder ? -1 : 1));
}

/** Days are made up for within four weeks, at most seven at a time. */
const MADE_UP = { within: 28, most: 7 };

/** Days without a snapshot between others of the last weeks, the newest first; `now` in milliseconds since 1970. */
export async function missedDays(store: SnapshotStore, projectId: string, now: number): Promise<DateRange[]> {
  const today = dateOf(now);
  const from = plusDays(today, -MADE_UP.within);
  const there = new Set<string>();
  for await (const found of findSnapshots(store, projectId, from)) {
    const hasManifest = found.keys.includes(`${found.folder}/${MANIFEST}`);
    if (hasManifest && isOneDay(found) && mayHaveBegun(found, today)) there.add(found.dateFrom);
  }
  const dates = [...there].toSorted();
  const missed: DateRange[] = [];
  for (let date = dates.at(-1); date !== undefined && date > dates[0]! && missed.length < MADE_UP.most;) {
    date = plusDays(date, -1);
    if (!there.has(date)) missed.push({ dateFrom: date, dateTo: plusDays(date, 1) });
  }
  return missed;
}

const FRESH_DAYS = 3;

/**
 * The projects with snapshots of the last days that are not among the scheduled ones. Throws if one of those is not
 * kept apart. A list of the whole store would take minutes.
 */
export async function unscheduledProjects(
  store: SnapshotStore,
  scheduled: ReadonlySet<string>,
  now: number,
): Promise<string[]> {
  const today = dateOf(now);
  const marked = new Set<string>();
  for await (const projectId of markedProjects(store)) marked.add(projectId);
  for (const projectId of scheduled) if (!marked.has(projectId)) await checkProject(store, projectId);
  const isFresh = async (projectId: string) => {
    const found = findSnapshots(store, projectId, plusDays(today, -FRESH_DAYS));
    for await (const one of found) if (mayHaveBegun(one, today)) return true;
    return false;
  };
  const fresh: string[] = [];
  const others = [...marked].filter((projectId) => !scheduled.has(projectId));
  while (others.length > 0) {
    const some = others.splice(0, READS_AT_ONCE);
    const areFresh = await Promise.all(some.map(isFresh));
    fresh.push(...some.filter((_, i) => areFresh[i]));
  }
  return fresh;
}

/** Parquet files that lie in no date range's folder: no manifest can name them. */
export async function* strayFiles(store: SnapshotStore, projectId?: string): AsyncGenerator<string> {
  for await (const key of store.list(projectFolder(projectId)))
    if (key.endsWith('.parquet') && !rangeFolderOf(key)) yield key;
}

/** The manifests of a project's snapshots, or of all, in order of project and dates. */
export async function* listManifests(store: SnapshotStore, projectId?: string): AsyncGenerator<SnapshotManifest> {
  if (projectId !== undefined) await checkProject(store, projectId);
  const all: FoundSnapshot[] = [];
  for await (const found of findSnapshots(store, projectId)) all.push(found);
  while (all.length > 0) {
    const reads = all.splice(0, READS_AT_ONCE).map((found) => readFoundManifest(store, found));
    yield* (await Promise.all(reads)).filter((manifest) => manifest !== null);
  }
}

/** The manifest of a folder's own date range; null if there is none. Throws if a newer release wrote it. */
export async function readFoundManifest(store: SnapshotStore, found: FoundSnapshot): Promise<SnapshotManifest | null> {
  const key = `${found.folder}/${MANIFEST}`;
  if (!found.keys.includes(key)) return null;
  const manifest = await readManifestAt(store, key);
  return manifest && isOf(manifest, found) ? manifest : null;
}

/** The date range in whose folder a key lies; null if no export would make such a folder. */
function rangeFolderOf(key: string): Omit<FoundSnapshot, 'keys'> | null {
  const [folder, encoded = '', dateFrom = '', dateTo = ''] = RANGE_FOLDER.exec(key) ?? [];
  if (folder === undefined || !isDate(dateFrom) || !isDate(dateTo) || dateTo <= dateFrom) return null;
  const projectId = decodeId(encoded);
  if (projectId === null || encodeId(projectId) !== encoded) return null;
  return { folder: folder.slice(0, -1), projectId, dateFrom, dateTo };
}

/**
 * `missing` has no snapshot; `damaged` has not the manifest that was written, or not the files that it names;
 * `inconsistent` can't be believed; `provisional` may not have been over; `final` is neither.
 */
export type DayState = 'final' | 'missing' | 'damaged' | 'inconsistent' | 'provisional';

/** A day of a project, and what is published of it. */
export interface Day {
  date: string;
  state: DayState;
  /** Null if there is none, or one that was changed. */
  manifest: SnapshotManifest | null;
}

/** Whether the snapshot is of one day: the only kind that adds up to a time line. */
export function isOneDay({ dateFrom, dateTo }: Pick<SnapshotManifest, 'dateFrom' | 'dateTo'>): boolean {
  return plusDays(dateFrom, 1) === dateTo;
}

/** Whether the day may have begun somewhere; `today` is by UTC. A snapshot of a later day was made by mistake. */
export function mayHaveBegun({ dateFrom }: Pick<SnapshotManifest, 'dateFrom'>, today: string): boolean {
  return dateFrom <= plusDays(today, 1);
}

/** Every day from `dateFrom` to before `dateTo`, in order. Snapshots of other date ranges are ignored. */
export function daysOf(manifests: readonly SnapshotManifest[], dateFrom: string, dateTo: string): Day[] {
  const byDate = new Map(manifests.filter(isOneDay).map((manifest) => [manifest.dateFrom, manifest]));
  const days: Day[] = [];
  for (let date = dateFrom; date < dateTo; date = plusDays(date, 1)) {
    days.push(dayOf(date, byDate.get(date) ?? null));
  }
  return days;
}

function dayOf(date: string, manifest: SnapshotManifest | null): Day {
  const state = stateOf(manifest);
  return { date, state, manifest: state === 'damaged' ? null : manifest };
}

/** Whether a scheduled run to come still reads the day; `now` in milliseconds since 1970. */
export function isStillDue({ date, state }: Day, now: number): boolean {
  const ended = Date.parse(`${plusDays(date, 1)}T00:00:00Z`);
  // In the last time zone a day ends 12 hours later, and the hour of the next night may be any.
  if (state === 'missing') return now < ended + 1.5 * DAY_MS;
  return state === 'provisional' && now < ended + 2 * DAY_MS;
}

/** The days with those marked as damaged whose files are not the ones that their manifests name. */
export async function withDamage(store: SnapshotStore, days: readonly Day[]): Promise<Day[]> {
  const checked: Day[] = [];
  for (const day of days) checked.push(await checkDay(store, day));
  return checked;
}

async function checkDay(store: SnapshotStore, day: Day): Promise<Day> {
  const { date, manifest } = day;
  if (!manifest || (await isIntact(store, manifest))) return day;
  // It may have been exported anew since its manifest was read.
  const current = await readManifest(store, manifest);
  if (isDeepStrictEqual(current, manifest)) return { ...day, state: 'damaged' };
  return checkDay(store, dayOf(date, current));
}

/** Whether a snapshot was exported anew, or removed, since its manifest was read. */
export async function isReplaced(store: SnapshotStore, manifest: SnapshotManifest): Promise<boolean> {
  return !isDeepStrictEqual(await readManifest(store, manifest), manifest);
}

async function isIntact(store: SnapshotStore, manifest: SnapshotManifest): Promise<boolean> {
  return (await isWhole(store, manifest)) && !(await hasForeignFiles(store, manifest));
}

/** Whether a glob for Parquet reads more in a snapshot's folder than its manifest names. */
export async function hasForeignFiles(store: SnapshotStore, manifest: SnapshotManifest): Promise<boolean> {
  const folder = snapshotFolder(manifest);
  const foreign = await foreignFiles(store, manifest, folder, store.list(folder));
  // A publication under way has two files for a moment; the next run finishes one whose writer died.
  return foreign.length > 0 && (await store.size(intentKey(manifest))) === null;
}

function stateOf(manifest: SnapshotManifest | null): DayState {
  if (!manifest) return 'missing';
  if (!isAsWritten(manifest)) return 'damaged';
  if (!manifest.consistent) return 'inconsistent';
  return manifest.provisional ? 'provisional' : 'final';
}
