/** The watch: bounded segments of polls, and durable timers between them that a follow-up or `pollNow` ends. */
import {
  ActivityCancellationType,
  ActivityFailure,
  CancellationScope,
  condition,
  isCancellation,
  proxyActivities,
} from '@temporalio/workflow';
import type { JobActivities, WatchJobInput, WatchJobResult } from '../activities/index.js';
import { readWaitMs } from '../poll-plan.js';
import type { JobRun } from './job-run.js';
import type { Turn } from './turn.js';
import { isResetRun } from './write.js';

const { watchJob } = proxyActivities<JobActivities>({
  // An attempt reads for up to 25 s and its last request takes at most 20 s; a worker that dies with it is noticed at this time.
  startToCloseTimeout: '50 seconds',
  // The waits come with each attempt; these are for attempts that end without one.
  retry: { initialInterval: '2 seconds', backoffCoefficient: 1 },
  // A waiting poll is dropped by the server itself, at once, whether a worker runs or not.
  cancellationType: ActivityCancellationType.TRY_CANCEL,
  summary: 'Watch the job',
});

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
  // A single read is never cut short: a stream of `pollNow` would starve it.
  const isCut = () => run.readWantedAt !== null && input.maxReads > 1;
  try {
    return await scope.run(async () => {
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
  } catch (error) {
    if (isCancellation(error)) return null;
    if (!(error instanceof ActivityFailure)) throw error;
    const reason = error.cause?.message ?? error.message;
    return { reading: { kind: 'failed', reason }, reads: 1, failures: run.data.failures + 1, resetRun: false };
  } finally {
    scope.cancel();
  }
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
    resetRun: isResetRun(),
  };
}
