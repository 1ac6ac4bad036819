/**
 * The spans of a job: its start, its create, each follow-up and its end. A poll has none. The worker is told of each
 * once it has ended, and exports it where traces are on. Nothing of it is in the history, and a replay repeats nothing.
 */
import { proxySinks, workflowInfo } from '@temporalio/workflow';
import { FAILURE, type FollowUpState } from '../../contract.js';
import type { JobSpan, TraceSinks } from '../../contract/trace-context.js';
import { startContext } from '../trace-context.js';
import type { JobRun } from './job-run.js';
import { outcomeOf } from './job-state.js';

const { traces } = proxySinks<TraceSinks>();

/** How a job ends well, or by its caller's own wish. */
const GOOD_ENDS: readonly string[] = ['completed', 'archived', 'Canceled'];

type LeftFollowUp = Parameters<JobRun['followUps']['onLeave']>[0];

/** Tells of the spans of one run. */
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
    const { startedAt, polls, decisions } = this.#run;
    const outcome = outcomeOf(this.#run) ?? 'completed';
    this.#createEnded(this.#run.jobId === null ? outcome : 'created');
    const counts = { 'agent_jobs.polls': polls.known.polls, 'agent_jobs.decisions': decisions.length };
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

/** Tells of a job that never was: its input is wrong. */
export function traceRefusal(): void {
  tellStart();
  const outcome = FAILURE.invalidInput;
  const startedAt = workflowInfo().startTime.getTime();
  tell({ kind: 'end', startedAt, ...endOf(outcome), attributes: { 'agent_jobs.outcome': outcome } });
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
