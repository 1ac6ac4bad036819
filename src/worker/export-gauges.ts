/** What a worker counts of exports for its metrics: the workers that poll for them, and the days of each project. */
import type { Client } from '@temporalio/client';
import { exportTaskQueue, scheduledProject, type SnapshotManifest, visitorExportScheduleId } from '../contract.js';
import { schedulesWithId } from '../temporal/workflow-clients.js';
import {
  daysOf,
  findSnapshots,
  type FoundSnapshot,
  isOneDay,
  isStillDue,
  mayHaveBegun,
  readFoundManifest,
} from '../exports/snapshots/catalog.js';
import { isAsWritten, unlessNewer } from '../exports/snapshots/manifest.js';
import { dateOf, plusDays } from '../exports/date-range.js';
import type { SnapshotStore } from '../exports/snapshots/snapshot-store.js';
import { every, WATCH_EVERY_MS, WATCH_LIMIT_MS } from './every.js';
import type { Logger } from './logging.js';
import type { Meters } from './metrics.js';

const SCAN_INTERVAL_MS = 10 * 60_000;
const ACTIVITY_QUEUE = 2; // TASK_QUEUE_TYPE_ACTIVITY
const ID_START = visitorExportScheduleId('');

/** When the Schedule of each project that this task queue exports was made, in milliseconds since 1970. */
export async function scheduledProjects(client: Client, taskQueue: string): Promise<Map<string, number>> {
  const projects = new Map<string, number>();
  const read = async () => {
    for await (const { scheduleId, action, info } of schedulesWithId(client, ID_START))
      if (action.taskQueue === taskQueue) projects.set(scheduledProject(scheduleId), info.createdAt.getTime());
  };
  await client.withDeadline(Date.now() + SCAN_INTERVAL_MS, read);
  return projects;
}

type Gauges<Name extends keyof Meters> = Pick<Meters, Name>;

/** Counts, once a minute, the workers that ask for exports, for the metric; returns what stops it. */
export function countExportPollers(
  client: Client,
  taskQueue: string,
  { exportPollers }: Gauges<'exportPollers'>,
  log: Logger,
): () => void {
  const { namespace } = client.options;
  const request = { namespace, taskQueue: { name: exportTaskQueue(taskQueue) }, taskQueueType: ACTIVITY_QUEUE };
  const count = async () => {
    const ask = () => client.workflowService.describeTaskQueue(request);
    const { pollers } = await client.withDeadline(Date.now() + WATCH_LIMIT_MS, ask);
    exportPollers.set(pollers?.length ?? 0);
  };
  const onError = (error: unknown) => log.debug({ error }, 'Could not count the workers of the exports');
  return every(WATCH_EVERY_MS, count, { onError });
}

const RECORD_INTERVAL_MS = 30_000;
/** Bounds the days of a project that are read: each is a small read. */
const MAX_DAYS = 28;

/** The days of a project. */
export interface ProjectDays {
  /** When the last of these days with a consistent snapshot ended; when the Schedule was made, if there is none. */
  since: number;
  /** Days of the last 28 that are missing, damaged, inconsistent or provisional though their export is over. */
  gaps: number;
}

/** What the days are read from and recorded in. */
export interface ConsistentDaysOptions {
  store: SnapshotStore;
  /** When the Schedule of each project was made, in milliseconds since 1970. */
  schedules: () => Promise<Map<string, number>>;
  meters: Gauges<'dayAge' | 'exportGaps'>;
  log: Logger;
}

/** Records, for the metrics, the days of each project with a Schedule; returns what stops it. */
export function watchConsistentDays({ store, schedules, meters, log }: ConsistentDaysOptions): () => void {
  const { dayAge, exportGaps } = meters;
  const finals = new Map<string, SnapshotManifest>();
  let known = new Map<string, ProjectDays>();
  const record = () => {
    for (const [project, { since, gaps }] of known) {
      dayAge.set((Date.now() - since) / 1_000, { project });
      exportGaps.set(gaps, { project });
    }
  };
  const scan = async () => {
    const found = await projectDays(store, Date.now(), await schedules(), finals);
    for (const project of known.keys()) {
      if (found.has(project)) continue;
      // The SDK's meter forgets no series: one without a number raises no alert.
      for (const gauge of [dayAge, exportGaps]) gauge.set(Number.NaN, { project });
    }
    known = found;
    record();
  };
  const onError = (error: unknown) => log.warn({ error }, 'Could not read the last consistent days');
  const stops = [every(SCAN_INTERVAL_MS, scan, { onError }), every(RECORD_INTERVAL_MS, record)];
  return () => stops.forEach((stop) => stop());
}

/**
 * How the last days of each project with a Schedule are, but none before its Schedule was made; `now` in milliseconds
 * since 1970. `finals` keeps final days from one look to the next: another manifest comes with another file.
 */
export async function projectDays(
  store: SnapshotStore,
  now: number,
  schedules: ReadonlyMap<string, number>,
  finals = new Map<string, SnapshotManifest>(),
): Promise<Map<string, ProjectDays>> {
  const today = dateOf(now);
  const earliest = plusDays(today, -MAX_DAYS);
  const projects = new Map<string, ProjectDays>();
  const known = new Map(finals);
  finals.clear();
  // One project after the other: each manifest that is read at the same time is an open file.
  for (const [projectId, madeAt] of schedules) {
    const found: FoundSnapshot[] = [];
    for await (const one of findSnapshots(store, projectId, earliest))
      if (isOneDay(one) && mayHaveBegun(one, today)) found.push(one);
    const read = async (one: FoundSnapshot) => {
      const name = one.keys.join();
      const manifest = known.get(name) ?? (await presentManifest(store, one));
      if (manifest?.consistent && !manifest.provisional) finals.set(name, manifest);
      return manifest;
    };
    const manifests = (await Promise.all(found.map(read))).filter((one) => one !== null);
    const first = dateOf(madeAt);
    const days = daysOf(manifests, first > earliest ? first : earliest, today);
    const gaps = days.filter((day) => day.state !== 'final' && !isStillDue(day, now)).length;
    const last = manifests.findLast(({ consistent }) => consistent);
    projects.set(projectId, { since: last ? Date.parse(last.dateTo) : madeAt, gaps });
  }
  return projects;
}

/** The manifest, if its files are there; what they hold is for `export gaps` and `export verify`. */
async function presentManifest(store: SnapshotStore, found: FoundSnapshot) {
  // One of a newer release is a gap that "export gaps" explains.
  const manifest = await unlessNewer(readFoundManifest(store, found));
  const isThere = ({ name }: { name: string }) => found.keys.includes(`${found.folder}/${name}`);
  return manifest && isAsWritten(manifest) && manifest.files.every(isThere) ? manifest : null;
}
