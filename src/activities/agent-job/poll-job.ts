/**
 * The activity `pollJob`, a poll batch: GETs at no cost in history. It reads once, and hands the job to the worker's
 * poller while its waits are short enough for one lease. Otherwise the Temporal server keeps the wait, by the
 * BENIGN-failure retry of samples-typescript/polling/infrequent. Nothing else retries a read.
 */
import { activityInfo, CompleteAsyncError, Context } from '@temporalio/activity';
import { AsyncAttempt } from '../../temporal/async-attempt.js';
import { nextAttemptIn, PollRun, type PollJobInput, type PollJobResult } from './poll-run.js';
import { PollLease } from './poll-lease.js';
import type { Poller } from './poller.js';
import { ReadStarts } from './read-starts.js';

type PollRunOptions = ConstructorParameters<typeof PollRun>[2];

export interface PollJobOptions extends PollRunOptions {
  /** Goes on to read after the first read; null: each read is an attempt. */
  poller: Poller | null;
}

/**
 * Makes the activity: it returns when something changed or ended, else fails retryably with the wait until the next
 * read, or stays open for the poller to complete.
 */
export function createPollJob(options: PollJobOptions): (input: PollJobInput) => Promise<PollJobResult> {
  const { poller, shutdownSignal } = options;
  const starts = poller?.starts ?? new ReadStarts(shutdownSignal);
  return async (input) => {
    const info = activityInfo();
    // An operator may have taken the heartbeat timeout away.
    const leaseMs = (poller && info.heartbeatTimeoutMs) || undefined;
    const run = new PollRun(input, info, { ...options, leaseMs });
    const { workflowId = '' } = info.workflowExecution ?? {};
    const name = JSON.stringify([workflowId, input.projectId, input.jobId]);
    poller?.dropEarlier(name);
    try {
      await untilMayRead(run, starts);
      const next = await starts.count(() => run.read());
      if (next.kind === 'end') return next.result;
      if (leaseMs !== undefined && next.isHealthy) {
        const lease = () => new PollLease({ name, workflowId, run, attempt: new AsyncAttempt(), leaseMs });
        if (poller?.take(lease, next.ms)) throw new CompleteAsyncError();
      }
      throw nextAttemptIn(next.why, next.ms);
    } catch (error) {
      if (!(error instanceof CompleteAsyncError)) save(run);
      throw error;
    }
  };
}

/** Returns when a read may begin; throws where it must wait for a later attempt. */
async function untilMayRead({ progress }: PollRun, starts: ReadStarts): Promise<void> {
  await starts.wait().catch((error: unknown) => {
    progress.skip();
    throw error;
  });
}

/** A heartbeat costs an action: only where there is something to remember. */
function save({ progress }: PollRun): void {
  if (progress.hasNews) Context.current().heartbeat(progress.saved);
}
