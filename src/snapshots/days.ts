/** Days of a calendar, and whether their snapshots can be believed. */
import type { SnapshotManifest } from '../contract.js';
import { plusDays } from '../visitor-export/date-range.js';
import type { SnapshotStore } from './snapshot-store.js';
import { isWhole } from './file-integrity.js';
import { isAsWritten } from './manifest.js';

/**
 * `missing` has no snapshot; `damaged` has not the manifest that was written, or not the files that it names;
 * `inconsistent` can't be believed; `provisional` may not have been over; `final` is neither.
 */
export type DayState = 'final' | 'missing' | 'damaged' | 'inconsistent' | 'provisional';

const DAY_MS = 86_400_000;

export interface Day {
  date: string;
  state: DayState;
  /** Null where there is none, or one that was changed: nothing in it can be believed. */
  manifest: SnapshotManifest | null;
}

/** Whether the snapshot is of one day: the only kind that adds up to a time line. */
export function isOneDay({ dateFrom, dateTo }: Pick<SnapshotManifest, 'dateFrom' | 'dateTo'>): boolean {
  return plusDays(dateFrom, 1) === dateTo;
}

/**
 * Whether the day may have begun somewhere: a snapshot of a later one, asked for by mistake, tells nothing. `today` is
 * by UTC.
 */
export function mayHaveBegun({ dateFrom }: Pick<SnapshotManifest, 'dateFrom'>, today: string): boolean {
  return dateFrom <= plusDays(today, 1);
}

/** Every day from `dateFrom` to before `dateTo`, in order. Snapshots of other date ranges are ignored. */
export function daysOf(manifests: readonly SnapshotManifest[], dateFrom: string, dateTo: string): Day[] {
  const byDate = new Map(manifests.filter(isOneDay).map((manifest) => [manifest.dateFrom, manifest]));
  const days: Day[] = [];
  for (let date = dateFrom; date < dateTo; date = plusDays(date, 1)) {
    const manifest = byDate.get(date) ?? null;
    const state = stateOf(manifest);
    days.push({ date, state, manifest: state === 'damaged' ? null : manifest });
  }
  return days;
}

/**
 * Whether a scheduled run to come still reads the day: the run after the day's end does, and the one after that. `now`
 * in milliseconds since 1970.
 */
export function isStillDue({ date, state }: Day, now: number): boolean {
  const ended = Date.parse(`${plusDays(date, 1)}T00:00:00Z`);
  if (state === 'missing') return now < ended + DAY_MS;
  return state === 'provisional' && now < ended + 2 * DAY_MS;
}

/** The days with those marked as damaged whose files are not the ones that their manifests name. */
export async function withDamage(
  store: SnapshotStore,
  days: readonly Day[],
  { sizesOnly = false } = {},
): Promise<Day[]> {
  const looked: Day[] = [];
  for (const day of days) {
    const isFine = !day.manifest || (await isWhole(store, day.manifest, { sizesOnly }));
    looked.push(isFine ? day : { ...day, state: 'damaged' });
  }
  return looked;
}

function stateOf(manifest: SnapshotManifest | null): DayState {
  if (!manifest) return 'missing';
  if (!isAsWritten(manifest)) return 'damaged';
  if (!manifest.consistent) return 'inconsistent';
  return manifest.provisional ? 'provisional' : 'final';
}
