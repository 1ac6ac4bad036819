/** The activities of `agentJob`: each wraps one HTTP call. */
import { activityInfo } from '@temporalio/activity';
import type { Metrics } from '../metrics.js';
import type { CreatedJob, Upstream } from '../upstream/upstream.js';
import { Lanes } from './lanes.js';
import { startServerClock } from './server-clock.js';
import { createWatchJob, type WatchJobInput, type WatchJobResult } from './watch-job.js';
import { isFromAnotherRun, raiseFence, unknownBefore, type FenceOptions } from './write-fence.js';
import { writeOutcomeOf, type WriteOutcome } from './write-outcome.js';

interface WriteInput extends FenceOptions {
  projectId: string;
  prompt: string;
  /** When the write was asked for, in milliseconds of the server's clock. */
  askedAt: number;
}

export type CreateJobInput = WriteInput;

export interface SendMessageInput extends WriteInput {
  jobId: string;
}

/** A write's outcome, whether the workflow run that asked for it was made by a reset, and that run's id where it was. */
export type WriteResult = WriteOutcome & { resetRun: boolean; askedIn?: string };

export interface JobActivitiesDependencies {
  upstream: Upstream;
  /** Aborted when the worker begins to shut down: reads stop at once, writes are finished. */
  shutdownSignal: AbortSignal;
  metrics: Metrics;
  /** While waits are short, an attempt of `watchJob` reads for so long, in milliseconds; default 0: once. */
  stayMs?: number;
  /** The time by which a closed lane opens, in milliseconds; default `performance.now`. */
  laneClock?: () => number;
}

export interface JobActivities {
  createJob(input: CreateJobInput): Promise<WriteResult>;
  sendMessage(input: SendMessageInput): Promise<WriteResult>;
  watchJob(input: WatchJobInput): Promise<WatchJobResult>;
}

/** The activities of `agentJob`. They never fail for what the upstream does: its answers are their results. */
export function createJobActivities({
  upstream,
  shutdownSignal,
  metrics,
  stayMs = 0,
  laneClock,
}: JobActivitiesDependencies): JobActivities {
  const lanes = new Lanes(laneClock);

  async function write(operation: 'create' | 'message', input: WriteInput, send: Send): Promise<WriteResult> {
    const now = startServerClock();
    const outcome = unknownBefore(input) ?? (await throughLane(lanes, `${operation} ${input.projectId}`, send));
    const isHeld = outcome.kind === 'notTaken' && outcome.isHeld;
    if (!isHeld) metrics.writeEnded(operation, outcome.kind);
    // The server's clock stands at the time when it scheduled the attempt; only this worker's knows how long that had to wait.
    const settledAt = Math.max(now(), Date.now());
    if (isSettled(outcome)) metrics.writeSettled(operation, (settledAt - input.askedAt) / 1_000);
    const resetRun = input.resetRun || isFromAnotherRun(input);
    return { ...outcome, resetRun, ...(resetRun && { askedIn: activityInfo().workflowExecution?.runId ?? '' }) };
  }

  return {
    createJob: (input) => write('create', input, (mayStillSend) => upstream.createJob(input, { mayStillSend })),
    sendMessage: (input) =>
      write('message', input, async (mayStillSend) => ({
        id: input.jobId,
        job: await upstream.sendMessage(input, { mayStillSend }),
      })),
    watchJob: createWatchJob({ upstream, shutdownSignal, stayMs, metrics }),
  };
}

type Send = (mayStillSend: () => boolean) => Promise<CreatedJob>;

async function throughLane(lanes: Lanes, lane: string, send: Send): Promise<WriteOutcome> {
  const waitMs = lanes.enter(lane);
  if (waitMs > 0) {
    const reason = 'the upstream asked this project to wait';
    return { kind: 'notTaken', reason, retryAfterMs: waitMs, isHeld: true };
  }
  const outcome = await sendFenced(send).catch((error: unknown) => {
    lanes.leave(lane);
    throw error;
  });
  if (outcome.kind === 'notTaken') lanes.close(lane, outcome.retryAfterMs);
  else lanes.leave(lane);
  return outcome;
}

async function sendFenced(send: Send): Promise<WriteOutcome> {
  const mayStillSend = await raiseFence();
  try {
    const { id, job } = await send(mayStillSend);
    return { kind: 'taken', jobId: id, job };
  } catch (error) {
    return writeOutcomeOf(error);
  }
}

function isSettled(outcome: WriteOutcome): boolean {
  return outcome.kind === 'taken' || outcome.kind === 'rejected';
}
