/** What one batch of polls has cost: by its result, else by its attempts and the plan in its input. */
import type { PollPlan } from '../agent-job/poll-plan.js';
import { batchCost } from '../agent-job/polling-cost.js';
import type { ActivityRecord } from './cost-history.js';

const WATCH = 'pollJob';

/** Of one batch. */
interface WatchCost {
  reads: number;
  /** Attempts after the first. */
  retries: number;
  heartbeats: number;
}

/** Whether an activity is a batch of polls. */
export function isWatch({ name }: ActivityRecord): boolean {
  return name === WATCH;
}

/** A batch that has no result was cut short, is under way, or died. `readAt` is when its history was read. */
export function watchCost(watch: ActivityRecord, readAt: number): WatchCost {
  const { attempt, result } = watch;
  const retries = Math.max(0, attempt - 1);
  if (typeof result['reads'] === 'number') {
    const reads = result['reads'];
    const { heartbeats = heartbeatsBetween(watch, reads) } = result;
    return { reads, retries, heartbeats: numberIn(heartbeats) };
  }
  const planned = plannedCost(watch, readAt);
  const { heartbeats = planned.heartbeats, polls } = watch.details;
  return { ...planned, reads: Math.max(planned.reads, numberIn(polls)), heartbeats: numberIn(heartbeats) };
}

/** Without a lease, an attempt that read several times told the next one so by a heartbeat, which no result counts. */
function heartbeatsBetween({ attempt, heartbeatTimeoutMs }: ActivityRecord, reads: number): number {
  return heartbeatTimeoutMs > 0 ? 0 : Math.max(0, Math.min(attempt - 1, reads - attempt));
}

/** The heartbeat time-out is the lease of a batch that reads in one attempt; without one, each read is an attempt. */
function plannedCost({ attempt, input, heartbeatTimeoutMs, ...times }: ActivityRecord, readAt: number): WatchCost {
  const { plan, lastChangeAt, maxReads } = input;
  const isLeased = heartbeatTimeoutMs > 0 && attempt <= 1;
  // The number of attempts tells more than the plan does.
  if (!isLeased && attempt > 0) return { reads: attempt, retries: attempt - 1, heartbeats: 0 };
  if (!isPlan(plan)) return { reads: 1, retries: 0, heartbeats: 0 };
  const { reads, retries, heartbeats } = batchCost(plan, {
    sinceChangeMs: times.scheduledAt - numberIn(lastChangeAt),
    durationMs: Math.max(0, (times.endedAt ?? readAt) - times.scheduledAt),
    end: 'cut',
    mode: isLeased ? 'lease' : 'attempts',
    maxReads: numberIn(maxReads) || undefined,
    leaseMs: heartbeatTimeoutMs || undefined,
  });
  return { reads, retries, heartbeats };
}

function isPlan(value: unknown): value is PollPlan {
  const { minMs, maxMs, ratio } = (value ?? {}) as Partial<PollPlan>;
  return [minMs, maxMs, ratio].every(Number.isFinite);
}

function numberIn(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}
