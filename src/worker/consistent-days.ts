import type { Metrics } from '../metrics.js';
import { findSnapshots, readFoundManifest, type FoundSnapshot } from '../snapshots/catalog.js';
import { isOneDay, mayHaveBegun } from '../snapshots/days.js';
import type { SnapshotStore } from '../snapshots/snapshot-store.js';
import type { Logger } from './logging.js';

const LOOK_EVERY_MS = 10 * 60_000;
const TELL_EVERY_MS = 30_000;

/** Tells, for the metric, how long ago each project's last consistent day ended; returns what stops it. */
export function watchConsistentDays(store: SnapshotStore, metrics: Metrics, log: Logger): () => void {
  let ends = new Map<string, string>();
  const tell = () => {
    for (const [projectId, end] of ends) metrics.lastConsistentDayAge(projectId, ageSeconds(end, Date.now()));
  };
  const look = () =>
    lastConsistentDays(store, new Date().toISOString().slice(0, 10)).then(
      (found) => {
        ends = found;
        tell();
      },
      (error: unknown) => log.warn({ error }, 'Could not look for the last consistent days'),
    );
  void look();
  const timers = [setInterval(() => void look(), LOOK_EVERY_MS), setInterval(tell, TELL_EVERY_MS)];
  for (const timer of timers) timer.unref();
  return () => timers.forEach(clearInterval);
}

/** The exclusive end (`YYYY-MM-DD`) of each project's last day with a consistent snapshot; `today` is by UTC. */
export async function lastConsistentDays(store: SnapshotStore, today: string): Promise<Map<string, string>> {
  const byProject = new Map<string, FoundSnapshot[]>();
  for await (const found of findSnapshots(store)) {
    if (!isOneDay(found) || !mayHaveBegun(found, today)) continue;
    const days = byProject.get(found.projectId);
    if (days) days.push(found);
    else byProject.set(found.projectId, [found]);
  }
  const ends = new Map<string, string>();
  for (const [projectId, days] of byProject) {
    const last = await lastConsistent(store, days);
    if (last) ends.set(projectId, last.dateTo);
  }
  return ends;
}

async function lastConsistent(store: SnapshotStore, days: FoundSnapshot[]): Promise<FoundSnapshot | null> {
  for (const day of days.toReversed()) {
    if ((await readFoundManifest(store, day))?.consistent) return day;
  }
  return null;
}

function ageSeconds(end: string, now: number): number {
  return (now - Date.parse(`${end}T00:00:00Z`)) / 1_000;
}
