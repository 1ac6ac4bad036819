/**
 * What operators are told of a job: one log line for each send and for the end, and the count of ends. A replay repeats
 * nothing of it. Temporal adds the ids of workflow and run.
 */
import { log, metricMeter } from '@temporalio/workflow';
import type { WriteResult } from '../../activities/index.js';
import { FAILURE, JOBS_ENDED_METRIC, type JobMetadata } from '../../contract.js';
import { labelsOf, LOG_LINE, loggedMetadata } from '../../agent-job/labels.js';
import type { JobRun } from './job-run.js';
import { outcomeOf } from './job-state.js';
import type { PendingWrite } from './pending-write.js';
import type { Interruption } from './waiting.js';

/** Logs the result of a send, once it is applied. A write that waits is logged when its reason changes. */
export function logWrite(run: JobRun, write: PendingWrite, result: WriteResult, before: Interruption | null): void {
  const { kind, followUpId } = write.identity;
  const ids = {
    ...idsOf(run),
    write: kind,
    ...(followUpId !== undefined && { followUpId }),
  };
  switch (result.kind) {
    case 'accepted':
      return log.info(LOG_LINE.taken, ids);
    case 'inDoubt':
      return log.warn(LOG_LINE.inDoubt, { ...ids, reason: result.reason });
    case 'rejected':
      return log.warn('The upstream refused a write', { ...ids, status: result.status, error: result.error });
    default:
      if (result.reason === before?.reason) return;
      return log.info('A write waits and is sent again', {
        ...ids,
        reason: result.reason,
        ...(write.notBefore > 0 && { notBefore: new Date(write.notBefore).toISOString() }),
      });
  }
}

/** Tells of a job's end. */
export function logEnd(run: JobRun): void {
  const { job, polls } = run.polls.known;
  const outcome = outcomeOf(run) ?? 'completed';
  const seconds = Math.round((Date.now() - run.startedAt) / 1_000);
  log.info(LOG_LINE.ended, {
    ...idsOf(run),
    outcome,
    status: job?.status ?? null,
    polls,
    seconds,
  });
  count(outcome);
}

/** Tells of a job that never was: its input is wrong. */
export function logRefusal(input: unknown, reason: string): void {
  const { projectId } = (input ?? {}) as { projectId?: unknown };
  log.warn('A job was refused: its input is wrong', {
    projectId: typeof projectId === 'string' ? projectId : null,
    reason,
    ...loggedMetadata(labelsOf(input).metadata),
  });
  count(FAILURE.invalidInput);
}

interface Ids {
  projectId: string;
  jobId: string | null;
  /** The caller's own: a correlation id, say. */
  metadata?: JobMetadata;
}

function idsOf({ spec, jobId }: JobRun): Ids {
  return { projectId: spec.projectId, jobId, ...loggedMetadata(spec.metadata) };
}

function count(outcome: string): void {
  metricMeter.createCounter(JOBS_ENDED_METRIC, undefined, 'Jobs that ended, by outcome').add(1, { outcome });
}
