/**
 * What polling costs on Temporal: how the reads of a plan become activities, attempts and heartbeats. Pure. An estimate
 * of a batch that left no result, and the forecast, go by it. Times in milliseconds.
 */
import {
  MIN_READS_PER_LEASE,
  pollLeaseMs,
  POLLS_PER_BATCH,
  pollWaitMs,
  RENEW_EARLY_MS,
  type PollPlan,
} from './poll-plan.js';

/** How the worker reads: all reads of a batch in one attempt that renews its lease, or an attempt for each read. */
export type ReadMode = 'lease' | 'attempts';

/** The polling that a stretch of time without any change takes, from its first read on. */
export interface PolledStretch {
  /** From the last change of the job to the first read. */
  sinceChangeMs: number;
  durationMs: number;
  /** Whether it is cut short then, or the first read from then on sees the job's end. */
  end: 'cut' | 'seen';
  mode: ReadMode;
  /** Of the first batch: its reads at most, and its lease. */
  maxReads?: number | undefined;
  leaseMs?: number | undefined;
}

/** What it costs. Each batch is an activity, and each batch but the first has a timer before it. */
export interface PollingCost {
  reads: number;
  batches: number;
  /** Attempts after the first one of each batch. */
  retries: number;
  /** Renewals of the lease. */
  heartbeats: number;
}

/** What a stretch costs, by the reads of the plan without jitter. */
export function pollingCost(plan: PollPlan, stretch: Omit<PolledStretch, 'maxReads' | 'leaseMs'>): PollingCost {
  const cost: PollingCost = { reads: 0, batches: 0, retries: 0, heartbeats: 0 };
  const { sinceChangeMs, durationMs } = stretch;
  const waitAt = (at: number) => pollWaitMs(plan, { sinceChangeMs: sinceChangeMs + at, failures: 0, random: 0.5 });
  for (let at = 0, isOver = false; !isOver;) {
    const leftMs = durationMs - at;
    const batch = batchCost(plan, { ...stretch, sinceChangeMs: sinceChangeMs + at, durationMs: leftMs });
    // Once waits stay as they are, all batches but the last two are alike: years take no time to add up.
    const isSteady = !batch.isOver && waitAt(at) === waitAt(durationMs);
    const times = isSteady ? Math.max(1, Math.floor(leftMs / batch.nextAfterMs) - 1) : 1;
    cost.batches += times;
    cost.reads += times * batch.reads;
    cost.retries += times * batch.retries;
    cost.heartbeats += times * batch.heartbeats;
    at += times * batch.nextAfterMs;
    ({ isOver } = batch);
  }
  return cost;
}

/** The first batch of a stretch. */
interface BatchCost extends Omit<PollingCost, 'batches'> {
  /** From its first read to that of the next batch. */
  nextAfterMs: number;
  /** The stretch has no further batch. */
  isOver: boolean;
}

/** What the first batch of a stretch costs. */
export function batchCost(plan: PollPlan, stretch: PolledStretch): BatchCost {
  const { sinceChangeMs, durationMs, end, mode, maxReads = POLLS_PER_BATCH } = stretch;
  const waitAfter = (at: number) => pollWaitMs(plan, { sinceChangeMs: sinceChangeMs + at, failures: 0, random: 0.5 });
  const leaseMs = stretch.leaseMs ?? pollLeaseMs(waitAfter(0));
  const renewalMs = Math.max(1_000, leaseMs - RENEW_EARLY_MS);
  // The server keeps a wait that a lease would have to be renewed for.
  const isHeld = (wait: number) => mode === 'lease' && wait < renewalMs;
  let [retries, heldMs] = [0, 0];
  for (let reads = 1, at = 0, wait = waitAfter(0); ; reads++, at += wait, wait = waitAfter(at)) {
    const isOver = end === 'seen' ? at >= durationMs : at + wait > durationMs;
    const hasGrown = mode === 'lease' && reads >= MIN_READS_PER_LEASE && pollLeaseMs(wait) > leaseMs;
    const isFull = reads >= maxReads || hasGrown;
    if (!isOver && !isFull) {
      if (isHeld(wait)) heldMs += wait;
      else retries += 1;
      continue;
    }
    if (!isFull && end === 'cut' && isHeld(wait)) heldMs += durationMs - at;
    return { reads, retries, heartbeats: Math.floor(heldMs / renewalMs), nextAfterMs: at + wait, isOver };
  }
}
