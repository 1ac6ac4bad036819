/**
 * `adopt` believes no id that was only typed: the job is read first, by whatever means the decision came. What is read
 * is judged in activities/agent-job/read-job.ts.
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
import type { ReadJobInput, ReadJobResult } from '../../activities/agent-job/read-job.js';
import type { AdoptDecision } from '../../contract.js';
import { InvalidInputError } from '../../contract/input-checks.js';
import { readReadResult } from './activity-results.js';
import type { JobRun } from './job-run.js';

const { readJob } = proxyActivities<JobActivities>({
  // One request takes at most 20 seconds.
  startToCloseTimeout: '25 seconds',
  // The person who decides waits for it.
  scheduleToCloseTimeout: '1 minute',
  retry: { initialInterval: '1 second', backoffCoefficient: 2 },
  cancellationType: ActivityCancellationType.TRY_CANCEL,
  priority: { priorityKey: 1 },
  summary: 'Read the job to adopt',
});

/** How many decisions may wait for such a read at once: `retry` and `abandon` must always get through. */
export const MAX_ADOPTIONS = 3;

/** Reads the job, then settles the write in doubt with it; throws InvalidInputError where it may not. */
export async function adopt(run: JobRun, resolution: AdoptDecision): Promise<void> {
  const { inDoubt } = run;
  // Another person may decide meanwhile, the time to decide may end, or the whole run.
  const isMoot = () => run.inDoubt !== inDoubt || run.ending() !== null;
  // A run that Temporal began anew may adopt what an earlier one has created.
  const firstSentAt = run.isRepeated ? null : (run.write?.mayHaveArrivedSince ?? run.startedAt);
  const input = { projectId: run.spec.projectId, jobId: resolution.jobId, firstSentAt };
  const result = await read(input, isMoot);
  if (isMoot()) {
    throw new InvalidInputError('action', 'has nothing to settle any more: it was settled meanwhile, or the job ended');
  }
  const isSure = result.kind === 'notFound' || resolution.force !== true;
  if (result.kind !== 'found' && isSure) throw new InvalidInputError('jobId', problemOf(result, input));
  run.resolveUnknown(resolution);
}

function problemOf(result: Exclude<ReadJobResult, { kind: 'found' }>, { projectId }: ReadJobInput): string {
  if (result.kind === 'notFound') return `must name a job of project ${projectId}: the upstream answered 404`;
  if (result.kind === 'doubtful') return `${result.reason}; nothing was settled: look again, or adopt it with force`;
  return `could not be read (${result.reason}); nothing was settled: try again, or adopt it unread with force`;
}

async function read(input: ReadJobInput, isMoot: () => boolean): Promise<ReadJobResult> {
  const scope = new CancellationScope();
  try {
    const reading = scope.run(() => readJob(input));
    await Promise.race([reading, CancellationScope.nonCancellable(() => condition(isMoot))]);
    scope.cancel();
    return readReadResult(await reading);
  } catch (error) {
    if (isCancellation(error)) return { kind: 'failed', reason: 'the read was cancelled' };
    if (!(error instanceof ActivityFailure)) throw error;
    return { kind: 'failed', reason: error.cause?.message ?? error.message };
  }
}
