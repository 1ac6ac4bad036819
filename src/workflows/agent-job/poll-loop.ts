/**
 * Decides when the workflow hands out the next batch of polls, and when it cuts one short: bounded batches, and durable
 * timers between them that a follow-up or `pollNow` ends. A batch is one activity, which a worker holds under a lease:
 * its heartbeat timeout.
 */
import {
  ActivityCancellationType,
  ActivityFailure,
  CancellationScope,
  condition,
  isCancellation,
  proxyActivities,
} from '@temporalio/workflow';
import type { JobActivities } from '../../activities/agent-job/job-activities.js';
import type { PollJobInput, PollJobResult } from '../../activities/agent-job/poll-attempt.js';
import { pollLeaseMs, POLLS_PER_BATCH, pollWaitMs, untilLostMs } from '../../agent-job/poll-waits.js';
import { readPollResult, STRANGE_RESULT } from './activity-results.js';
import type { JobRun } from './job-run.js';
import type { PollFindings } from './poll-findings.js';
import type { WaitPoint } from './continue-as-new.js';

const POLL = {
  // Temporal wants a limit. The batch has its own, and a worker that dies is noticed by its lease.
  scheduleToCloseTimeout: '20 years',
  // The waits come with each attempt; these are for attempts that end without one.
  retry: { initialInterval: '2 seconds', backoffCoefficient: 1 },
  // A waiting poll is dropped by the server itself, at once, whether a worker runs or not.
  cancellationType: ActivityCancellationType.TRY_CANCEL,
  // The web UI shows it beside the number of the attempt, in orange from the second one on.
  summary: 'Poll the job (a further attempt is the next poll)',
} as const;

/** Polls have the job's own priority; but a write, whose priority is 1, goes before any poll. */
const AFTER_WRITES = { priority: { priorityKey: 2 } } as const;

/** Polls the job by the plan while the run lasts. */
export async function pollLoop(run: JobRun, waitPoint: WaitPoint, jobId: string): Promise<never> {
  for (let dueAt = 0; ; dueAt = Date.now() + nextWaitMs(run)) {
    await untilPollDue(run, waitPoint, dueAt);
    await pollBatch(run, waitPoint, pollInput(run, jobId));
  }
}

function nextWaitMs({ spec, polls }: JobRun): number {
  const { lastChangeAt, failures, notFound } = polls.known;
  const { standing } = polls;
  const now = Date.now();
  const situation = { sinceChangeMs: now - lastChangeAt, failures, standing, untilLostMs: untilLostMs(notFound, now) };
  return pollWaitMs(spec.polling, { ...situation, random: Math.random() });
}

/** Returns when it is time to poll. */
async function untilPollDue(run: JobRun, waitPoint: WaitPoint, dueAt: number): Promise<void> {
  const { polls } = run;
  for (;;) {
    await waitPoint.waitUntil(() => !waitPoint.mustYield());
    await untilFirstLeft(run, waitPoint);
    const { pollDeadline } = run;
    const { requestedAt } = polls;
    const { notBefore } = polls.known;
    const pollAt = Math.max(requestedAt ?? dueAt, notBefore);
    polls.nextPollAt = pollAt;
    const waitMs = Math.min(pollAt, pollDeadline ?? Infinity) - Date.now();
    if (waitMs <= 0 && notBefore <= Date.now()) return;
    // At the deadline there is no last poll against a Retry-After.
    if (waitMs <= 0) run.expire();
    const isDifferent = () => polls.requestedAt !== requestedAt || run.pollDeadline !== pollDeadline;
    await waitPoint.waitUntil(() => waitPoint.mustYield() || isDifferent(), waitMs, 'Next poll');
  }
}

/** A follow-up that leaves at once goes first: the batch would begin anew after it. Those behind it delay no poll. */
function untilFirstLeft(run: JobRun, waitPoint: WaitPoint): ReturnType<WaitPoint['waitUntil']> {
  const { next: first } = run.followUps;
  return waitPoint.waitUntil(() => !run.isSendingNow || run.followUps.next !== first || run.polls.requestedAt !== null);
}

/** One activity that polls until something changed; a requested poll, or an accepted follow-up, cuts it short. */
async function pollBatch(run: JobRun, waitPoint: WaitPoint, input: PollJobInput): Promise<void> {
  run.polls.beginBatch(input);
  const result = await waitPoint.perform(() => untilPollRequested(run, input));
  if (!result) return run.polls.cancelBatch();
  run.polls.observe(result, input);
  const { pollDeadline } = run;
  if (pollDeadline !== null && Date.now() >= pollDeadline && wasLast(run, pollDeadline, result)) run.expire();
}

/** Whether the poll that brought a result, which came at the deadline or later, began no earlier. */
function wasLast({ polls }: JobRun, deadline: number, { isAtDeadline }: PollJobResult): boolean {
  return isAtDeadline || polls.batchStartedAt >= deadline;
}

async function untilPollRequested({ polls, spec }: JobRun, input: PollJobInput): Promise<PollJobResult | null> {
  const scope = new CancellationScope();
  const priority = spec.priority === 1 ? AFTER_WRITES : {};
  const { pollJob } = proxyActivities<JobActivities>({ ...POLL, heartbeatTimeout: leaseMs(input), ...priority });
  // A single poll is never cut short: a stream of `pollNow` would starve it.
  const isCut = () => polls.requestedAt !== null && input.maxReads > 1;
  try {
    const result: unknown = await scope.run(async () => {
      const batch = pollJob(input);
      batch.then(
        () => (polls.hasResult = true),
        () => {},
      );
      await Promise.race([batch, condition(isCut)]);
      // A result that came together with the request counts: it may be the upstream's wish to be left alone.
      scope.cancel();
      return batch;
    });
    return readPollResult(result) ?? failedPoll(polls, STRANGE_RESULT);
  } catch (error) {
    if (isCancellation(error)) return null;
    if (!(error instanceof ActivityFailure)) throw error;
    return { ...failedPoll(polls, error.cause?.message ?? error.message), reads: 0 };
  } finally {
    scope.cancel();
  }
}

/** How soon the death of the worker that polls is noticed. A worker may have a lease of its own for all its jobs. */
function leaseMs({ plan, lastChangeAt }: PollJobInput): number {
  const own: unknown = Reflect.get(globalThis, 'pollLeaseMs');
  if (typeof own === 'number') return own;
  return pollLeaseMs(pollWaitMs(plan, { sinceChangeMs: Date.now() - lastChangeAt, failures: 0, random: 0.5 }));
}

function failedPoll({ known }: PollFindings, reason: string): PollJobResult {
  const reading = { kind: 'failed', reason } as const;
  return { reading, reads: 1, failures: known.failures + 1, isAtDeadline: false };
}

function pollInput(run: JobRun, jobId: string): PollJobInput {
  const { spec, polls } = run;
  return {
    projectId: spec.projectId,
    jobId,
    plan: spec.polling,
    deadlineAt: run.pollDeadline,
    ...polls.forBatch,
    maxReads: polls.isPollNow ? 1 : POLLS_PER_BATCH,
  };
}
