/** What a simulated crowd came to: counts, and virtual times. Pure. */
import type { SeenRequest } from './virtual-upstream.js';

const HOUR_MS = 3_600_000;

/** A job that was to be created. */
export interface Wanted {
  name: string;
  priority: number;
  startedAt: number;
}

export interface CrowdFigures {
  jobs: number;
  /** Jobs that the upstream created. */
  created: number;
  /** Jobs that it created more than once. */
  doubled: number;
  throttled: number;
  /** Answers 429 of each hour since the first one. */
  throttledByHour: number[];
  /** From the start of the first job to the last create, in hours; null where some are missing. */
  hours: number | null;
  /** Jobs that were created before one that should have gone first, and by how many seconds at most. */
  overtakings: number;
  overtakenBySeconds: number;
  /** Minutes since the start of the first job. */
  createdAt: number[];
  throttledAt: number[];
}

/** Computes the figures from what the upstream saw of the creates of one project. */
export function crowdFigures(wanted: readonly Wanted[], seen: readonly SeenRequest[]): CrowdFigures {
  const beganAt = Math.min(...wanted.map(({ startedAt }) => startedAt));
  const accepted = seen.filter(({ status }) => status < 300);
  const throttled = seen.filter(({ status }) => status === 429).map(({ at }) => at);
  const firstOf = new Map<string, SeenRequest>();
  for (const one of accepted) if (!firstOf.has(one.what)) firstOf.set(one.what, one);
  const minutes = (at: number) => Math.round((at - beganAt) / 600) / 100;
  const isWhole = firstOf.size === wanted.length;
  return {
    jobs: wanted.length,
    created: firstOf.size,
    doubled: accepted.length - firstOf.size,
    throttled: throttled.length,
    throttledByHour: byHour(throttled),
    hours: isWhole ? (Math.max(...accepted.map(({ at }) => at)) - beganAt) / HOUR_MS : null,
    ...overtakings(wanted, firstOf, queueBeganAt(wanted, seen)),
    createdAt: accepted.map(({ at }) => minutes(at)),
    throttledAt: throttled.map(minutes),
  };
}

function byHour(times: readonly number[]): number[] {
  const counts: number[] = [];
  for (const at of times) {
    const hour = Math.floor((at - Math.min(...times)) / HOUR_MS);
    counts[hour] = (counts[hour] ?? 0) + 1;
  }
  return Array.from(counts, (count) => count ?? 0);
}

/** Jobs are in order once all have asked and the first has been made to wait: a minute later. */
function queueBeganAt(wanted: readonly Wanted[], seen: readonly SeenRequest[]): number {
  const throttledAt = seen.find(({ status }) => status === 429)?.at ?? 0;
  return Math.max(throttledAt, ...wanted.map(({ startedAt }) => startedAt)) + 60_000;
}

/** A job is overtaken where one that comes after it by priority and time was created before it, and both had waited. */
function overtakings(wanted: readonly Wanted[], created: ReadonlyMap<string, SeenRequest>, from: number) {
  const waited = wanted
    .flatMap(({ name, ...one }) => ({ ...one, at: created.get(name)?.at ?? 0 }))
    .filter(({ at }) => at > from)
    // Those of the same moment have no order.
    .toSorted((a, b) => a.priority - b.priority || a.startedAt - b.startedAt || a.at - b.at);
  let overtakings = 0;
  let overtakenByMs = 0;
  let earliest = Infinity;
  for (const { at } of waited.toReversed()) {
    if (earliest < at) {
      overtakings += 1;
      overtakenByMs = Math.max(overtakenByMs, at - earliest);
    }
    earliest = Math.min(earliest, at);
  }
  return { overtakings, overtakenBySeconds: overtakenByMs / 1_000 };
}
