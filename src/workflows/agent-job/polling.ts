/** The watch: bounded segments of polls, and durable timers between them that a follow-up or `pollNow` ends. */
import {
  ActivityCancellationType,
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  condition,
  isCancellation,
  proxyActivities,
} from '@temporalio/workflow';
import type { JobActivities, WatchJobInput, WatchJobResult } from '../../activities/index.js';
import { readWaitMs, SLOWEST_FAILING_MS } from '../../agent-job/poll-plan.js';
import { readWatchResult, STRANGE_RESULT } from './activity-results.js';
import type { JobRun } from './job-run.js';
import type { Turn } from './wait-point.js';
import { isResetRun } from './writes.js';

/** An attempt reads for up to 25 s and its last request takes at most 20 s; a worker that dies with it is noticed at this time. */
const LONGEST_ATTEMPT_MS = 50_000;
/** A poll that has not ended so long after it had to will never end. */
const BACKSTOP_MS = 24 * 3_600_000;
/** Longer than any duration of the input, and short enough for Temporal. */
const LONGEST_POLL_MS = 20 * 365 * 24 * 3_600_000;

const POLL = {
  startToCloseTimeout: LONGEST_ATTEMPT_MS,
  // The waits come with each attempt; these are for attempts that end without one.
  retry: { initialInterval: '2 seconds', backoffCoefficient: 1 },
  // A waiting poll is dropped by the server itself, at once, whether a worker runs or not.
  cancellationType: ActivityCancellationType.TRY_CANCEL,
  summary: 'Watch the job',
} as const;

/** The type of the failures with which a poll waits for its next attempt. */
const STILL_WATCHING = 'StillWatching';

/** Reads of one segment: few enough to show progress in history, many enough to cost nothing. */
const READS_PER_SEGMENT = 60;

/** Reads the job by the plan for as long as the run lasts. */
export async function watch(run: JobRun, turn: Turn): Promise<never> {
  // A follow-up that leaves at once goes first: the watch would begin anew after it. Those behind it keep nobody waiting.
  const { next: first } = run.followUps;
  await turn.until(() => !run.isSendingNow || run.followUps.next !== first || run.readWantedAt !== null);
  for (let dueAt = 0; ; dueAt = Date.now() + nextWaitMs(run)) {
    await nextTurn(run, turn, dueAt);
    await segment(run, turn);
  }
}

function nextWaitMs({ spec, data }: JobRun): number {
  const sinceChangeMs = Date.now() - data.lastChangeAt;
  return readWaitMs(spec.polling, { sinceChangeMs, failures: data.failures, random: Math.random() });
}

/** Returns when it is time to read. */
async function nextTurn(run: JobRun, turn: Turn, dueAt: number): Promise<void> {
  const { data } = run;
  for (;;) {
    await turn.until(() => !turn.isOver() && (run.readWantedAt !== null || !run.isLingering));
    const { readWantedAt, isLingering, watchDeadline } = run;
    const readAt = Math.max(readWantedAt ?? dueAt, data.notBefore);
    run.nextReadAt = readAt;
    const waitMs = Math.min(readAt, watchDeadline ?? Infinity) - Date.now();
    if (waitMs <= 0 && data.notBefore <= Date.now()) return;
    // At the deadline there is no last look against a Retry-After.
    if (waitMs <= 0) data.hasExpired = true;
    const isDifferent = () =>
      run.readWantedAt !== readWantedAt || run.isLingering !== isLingering || run.watchDeadline !== watchDeadline;
    await turn.until(() => turn.isOver() || isDifferent(), waitMs, 'Next look');
  }
}

/** One activity that polls until something changed; a wanted read, or an accepted follow-up, cuts it short. */
async function segment(run: JobRun, turn: Turn): Promise<void> {
  const input = watchInput(run);
  run.beginWatch(input);
  const result = await turn.perform(() => untilReadWanted(run, input));
  if (result) run.observe(result, input);
  else run.cutWatch();
}

async function untilReadWanted(run: JobRun, input: WatchJobInput): Promise<WatchJobResult | null> {
  const scope = new CancellationScope();
  const { watchJob } = proxyActivities<JobActivities>({ ...POLL, scheduleToCloseTimeout: longestPollMs(input) });
  // A single read is never cut short: a stream of `pollNow` would starve it.
  const isCut = () => run.readWantedAt !== null && input.maxReads > 1;
  try {
    const result: unknown = await scope.run(async () => {
      const watched = watchJob(input);
      watched.then(
        () => (run.hasReading = true),
        () => {},
      );
      await Promise.race([watched, condition(isCut)]);
      // A result that came together with the wish counts: it may be the upstream's wish to be left alone.
      scope.cancel();
      return watched;
    });
    return readWatchResult(result) ?? failedRead(run, STRANGE_RESULT);
  } catch (error) {
    if (isCancellation(error)) return null;
    if (!(error instanceof ActivityFailure)) throw error;
    const { cause } = error;
    // Near its end the server keeps no further wait: nothing is wrong with the poll.
    if (cause instanceof ApplicationFailure && cause.type === STILL_WATCHING) return null;
    return { ...failedRead(run, cause?.message ?? error.message), reads: 0 };
  } finally {
    scope.cancel();
  }
}

/** What the watch's own limits allow, and a good deal more: a poll that ends here is one that would never end. */
function longestPollMs({ plan, maxReads, deadlineAt, settledAt }: WatchJobInput): number {
  const longestWaitMs = Math.max(plan.maxMs, SLOWEST_FAILING_MS, settledAt - Date.now());
  const byReads = 2 * maxReads * (longestWaitMs + LONGEST_ATTEMPT_MS);
  const byDeadline = deadlineAt === null ? Infinity : Math.max(0, deadlineAt - Date.now());
  return Math.min(Math.min(byReads, byDeadline) + BACKSTOP_MS, LONGEST_POLL_MS);
}

function failedRead({ data }: JobRun, reason: string): WatchJobResult {
  return { reading: { kind: 'failed', reason }, reads: 1, failures: data.failures + 1, afterReset: false };
}

function watchInput(run: JobRun): WatchJobInput {
  const { spec, data } = run;
  return {
    projectId: spec.projectId,
    jobId: data.jobId ?? '',
    plan: spec.polling,
    known: data.job,
    lastChangeAt: data.lastChangeAt,
    deadlineAt: run.watchDeadline,
    settledAt: data.settledAt,
    endsAtTerminal: run.endsAtTerminal,
    failures: data.failures,
    missing: data.missing,
    maxReads: run.isLingering || run.isReadAsked ? 1 : READS_PER_SEGMENT,
    afterReset: isResetRun(),
  };
}
