/**
 * What operators learn of a job: one log line for each send and for the end, and the count of ends. Temporal adds the
 * ids of workflow and run to the lines. No line holds a text of the upstream, which may repeat a prompt. The history
 * holds nothing of all this, and a replay repeats nothing. docs/runbooks.md finds lines by their text.
 */
import { log, metricMeter } from '@temporalio/workflow';
import { FAILURE, JOBS_ENDED_METRIC } from '../../contract.js';
import { labelsOf, loggedMetadata } from '../../agent-job/labels.js';
import type { WriteOutcome } from '../../contract/write-outcome.js';
import type { JobRun } from './job-run.js';
import { outcomeOf } from './job-state.js';
import { interruptionOf, notBeforeOf, type Write } from './write.js';

/** Logs how a send ended, once the run has followed. A write that waits is logged when its reason changes. */
export function logWrite(run: JobRun, before: Write, outcome: WriteOutcome): void {
  const { kind, followUpId } = before;
  const notBefore = run.write ? notBeforeOf(run.write) : 0;
  const ids = { ...idsOf(run), write: kind, ...(followUpId !== undefined && { followUpId }) };
  switch (outcome.kind) {
    case 'accepted':
      return log.info('The upstream took a write', ids);
    case 'inDoubt':
      return log.warn('A write is in doubt: it may or may not have arrived', { ...ids, reason: outcome.reason });
    case 'rejected':
      return log.warn('The upstream refused a write', { ...ids, status: outcome.status });
    default:
      if (outcome.reason === interruptionOf(before)?.reason) return;
      return log.info('A write waits and is sent again', {
        ...ids,
        reason: outcome.reason,
        ...(notBefore > 0 && { notBefore: new Date(notBefore).toISOString() }),
      });
  }
}

/** Logs and counts a job whose input is wrong. */
export function logRefusal(input: unknown, reason: string): void {
  const { projectId } = (input ?? {}) as { projectId?: unknown };
  log.warn('A job was refused: its input is wrong', {
    projectId: typeof projectId === 'string' ? projectId : null,
    reason,
    ...loggedMetadata(labelsOf(input).metadata),
  });
  countEnd(FAILURE.invalidInput);
}

/** Logs and counts the end of a job; a run that continues as new is no end. */
export function logEnd(run: JobRun): void {
  const { polls } = run.polls.known;
  const outcome = outcomeOf(run) ?? 'completed';
  const seconds = Math.round((Date.now() - run.startedAt) / 1_000);
  log.info('The job has ended', { ...idsOf(run), outcome, polls, seconds });
  countEnd(outcome);
}

/** With the caller's own: a correlation id, say. */
function idsOf({ spec, jobId }: JobRun) {
  return { projectId: spec.projectId, jobId, ...loggedMetadata(spec.metadata) };
}

function countEnd(outcome: string): void {
  metricMeter.createCounter(JOBS_ENDED_METRIC, undefined, 'Jobs that ended, by outcome').add(1, { outcome });
}
