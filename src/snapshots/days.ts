/** Days of a calendar, and whether their snapshots can be believed. */
import type { SnapshotManifest } from '../contract.js';
import { plusDays } from '../export-window.js';

/** `missing` has no snapshot; `inconsistent` moved while it was read; `provisional` may not have been over; `final` is neither. */
export type DayState = 'final' | 'missing' | 'inconsistent' | 'provisional';

export interface Day {
  date: string;
  state: DayState;
  manifest: SnapshotManifest | null;
}

/** Whether the snapshot is of one day: the only kind that adds up to a time line. */
export function isOneDay({ dateFrom, dateTo }: Pick<SnapshotManifest, 'dateFrom' | 'dateTo'>): boolean {
  return plusDays(dateFrom, 1) === dateTo;
}

/** Whether the day may have begun somewhere: a snapshot of a later one, asked for by mistake, tells nothing. `today` is by UTC. */
export function mayHaveBegun({ dateFrom }: Pick<SnapshotManifest, 'dateFrom'>, today: string): boolean {
  return dateFrom <= plusDays(today, 1);
}

/** Every day from `dateFrom` to before `dateTo`, in order. Snapshots of other windows are ignored. */
export function daysOf(manifests: readonly SnapshotManifest[], dateFrom: string, dateTo: string): Day[] {
  const byDate = new Map(manifests.filter(isOneDay).map((manifest) => [manifest.dateFrom, manifest]));
  const days: Day[] = [];
  for (let date = dateFrom; date < dateTo; date = plusDays(date, 1)) {
    const manifest = byDate.get(date) ?? null;
    days.push({ date, state: stateOf(manifest), manifest });
  }
  return days;
}

function stateOf(manifest: SnapshotManifest | null): DayState {
  if (!manifest) return 'missing';
  if (!manifest.consistent) return 'inconsistent';
  return manifest.provisional ? 'provisional' : 'final';
}
