/**
 * What operators are told of a job: one log line for each send and for the end, the count of ends, and the spans of its
 * trace: its start, its create, each follow-up and its end. A poll has none. Temporal adds the ids of workflow and run
 * to the lines; the worker exports the spans where traces are on, once they have ended. Nothing of it is in the
 * history, and a replay repeats nothing.
 */
import { log, metricMeter, proxySinks, workflowInfo } from '@temporalio/workflow';
import { FAILURE, JOBS_ENDED_METRIC, type FollowUpState } from '../../contract.js';
import { labelsOf, LOG_LINE, loggedMetadata } from '../../agent-job/labels.js';
import type { JobSpan, TraceSinks } from '../../contract/trace-context.js';
import type { WriteOutcome } from '../../contract/write-outcome.js';
import { startContext } from '../trace-context.js';
import type { JobRun } from './job-run.js';
import { outcomeOf } from './job-state.js';
import { interruptionOf, notBeforeOf, type Write } from './write.js';

const { traces } = proxySinks<TraceSinks>();

/** How a job ends well, or by its caller's own wish. */
const GOOD_ENDS: readonly string[] = ['completed', 'archived', 'Canceled'];

/** Logs how a send ended, once the run has followed. A write that waits is logged when its reason changes. */
export function logWrite(run: JobRun, before: Write, outcome: WriteOutcome): void {
  const { kind, followUpId } = before;
  const notBefore = run.write ? notBeforeOf(run.write) : 0;
  const ids = { ...idsOf(run), write: kind, ...(followUpId !== undefined && { followUpId }) };
  switch (outcome.kind) {
    case 'accepted':
      return log.info(LOG_LINE.taken, ids);
    case 'inDoubt':
      return log.warn(LOG_LINE.inDoubt, { ...ids, reason: outcome.reason });
    case 'rejected':
      return log.warn('The upstream refused a write', { ...ids, status: outcome.status, error: outcome.error });
    default:
      if (outcome.reason === interruptionOf(before)?.reason) return;
      return log.info('A write waits and is sent again', {
        ...ids,
        reason: outcome.reason,
        ...(notBefore > 0 && { notBefore: new Date(notBefore).toISOString() }),
      });
  }
}

/** Tells of a job that never was: its input is wrong. */
export function tellRefusal(input: unknown, reason: string): void {
  const { projectId } = (input ?? {}) as { projectId?: unknown };
  log.warn('A job was refused: its input is wrong', {
    projectId: typeof projectId === 'string' ? projectId : null,
    reason,
    ...loggedMetadata(labelsOf(input).metadata),
  });
  const outcome = FAILURE.invalidInput;
  count(outcome);
  tellStart();
  const startedAt = workflowInfo().startTime.getTime();
  tell({ kind: 'end', startedAt, ...endOf(outcome), attributes: { 'agent_jobs.outcome': outcome } });
}

/** With the caller's own: a correlation id, say. */
function idsOf({ spec, jobId }: JobRun) {
  return { projectId: spec.projectId, jobId, ...loggedMetadata(spec.metadata) };
}

function count(outcome: string): void {
  metricMeter.createCounter(JOBS_ENDED_METRIC, undefined, 'Jobs that ended, by outcome').add(1, { outcome });
}

type LeftFollowUp = Parameters<JobRun['followUps']['onLeave']>[0];

/** Tells of the spans of one run, and of its end. */
export class JobTrace {
  readonly #run: JobRun;
  #hasCreate: boolean;

  constructor(run: JobRun) {
    this.#run = run;
    this.#hasCreate = run.spec.prompt !== null;
    run.followUps.onLeave = (followUp, state) => this.#followUpLeft(followUp, state);
  }

  /** The create brought a job. */
  created(): void {
    this.#createEnded('created');
  }

  /** The run is over, and continues in no other. */
  ended(): void {
    const { startedAt, jobId, decisions, polls: pollState } = this.#run;
    const { job, polls } = pollState.known;
    const outcome = outcomeOf(this.#run) ?? 'completed';
    const seconds = Math.round((Date.now() - startedAt) / 1_000);
    log.info(LOG_LINE.ended, { ...idsOf(this.#run), outcome, status: job?.status ?? null, polls, seconds });
    count(outcome);
    this.#createEnded(jobId === null ? outcome : 'created');
    const counts = { 'agent_jobs.polls': polls, 'agent_jobs.decisions': decisions.length };
    tell({ kind: 'end', startedAt, ...endOf(outcome), attributes: { ...this.#attributes(outcome), ...counts } });
  }

  #createEnded(outcome: string): void {
    if (!this.#hasCreate) return;
    this.#hasCreate = false;
    const error = outcome === 'created' ? {} : { error: outcome };
    tell({ kind: 'create', startedAt: this.#run.startedAt, ...error, attributes: this.#attributes(outcome) });
  }

  #followUpLeft({ id, askedAt, sender }: LeftFollowUp, state: FollowUpState): void {
    tell({
      kind: 'followUp',
      startedAt: askedAt,
      ...(state !== 'sent' && { error: state }),
      attributes: { ...this.#attributes(state), 'agent_jobs.follow_up_id': id },
      ...(sender !== undefined && { sender }),
    });
  }

  #attributes(outcome: string): JobSpan['attributes'] {
    const { spec, jobId } = this.#run;
    const ids = { 'agent_jobs.project_id': spec.projectId, ...(jobId !== null && { 'agent_jobs.job_id': jobId }) };
    return { ...ids, 'agent_jobs.outcome': outcome };
  }
}

/** Traces a run from its beginning. */
export function traceJob(run: JobRun): JobTrace {
  if (workflowInfo().continuedFromExecutionRunId === undefined) tellStart();
  return new JobTrace(run);
}

/** It lasts until a worker takes the job up, so that all other spans find their parent soon. */
function tellStart(): void {
  tell({ kind: 'run', startedAt: workflowInfo().startTime.getTime(), attributes: {} });
}

function endOf(outcome: string): { error?: string } {
  return GOOD_ENDS.includes(outcome) ? {} : { error: outcome };
}

function tell(span: Omit<JobSpan, 'endedAt' | 'parent'>): void {
  if (workflowInfo().unsafe.isReplaying) return;
  traces.ended({ ...span, endedAt: Date.now(), parent: startContext() });
}
