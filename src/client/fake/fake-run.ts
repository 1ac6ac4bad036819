/** How a run of a fake job ended, and its row in a list. */
import type { AgentJobInput, AgentJobResult, JobState } from '../../contract.js';
import type { JobSummary } from '../agent-job/job-summary.js';
import { CreateRejectedError, type JobCanceledError } from '../errors.js';

/** With a result, or with what `result` throws. */
export type End = { result: AgentJobResult } | { error: CreateRejectedError | JobCanceledError };

/** As `JobState` tells it. */
export function outcomeOf(end: End): JobState['outcome'] {
  if ('result' in end) return end.result.outcome;
  return end.error instanceof CreateRejectedError ? 'CreateRejected' : 'Canceled';
}

/** Temporal's word for how the run ended. */
export function statusOf(end: End): string {
  if ('result' in end) return 'COMPLETED';
  return end.error instanceof CreateRejectedError ? 'FAILED' : 'CANCELLED';
}

interface Run {
  runId: string;
  end: End | null;
  startedAt: string;
  closedAt: string | null;
}

interface Listed {
  workflowId: string;
  title: string;
  input: AgentJobInput;
  state: JobState;
}

/** The row of a run. */
export function summaryOf(
  { workflowId, title, input: { batch = null }, state }: Listed,
  { runId, end, startedAt, closedAt }: Run,
): JobSummary {
  const { phase, projectId, jobId, job, waiting, outcome, tags, metadata } = state;
  return {
    ...{ workflowId, runId, title, projectId, phase, batch },
    ...{ tags: [...new Set(tags)], metadata: metadata ?? {}, status: job?.status ?? null, outcome, jobId },
    ...{ waitingFor: waiting?.for === 'person' ? waiting.for : null, prLink: job?.prLink ?? null },
    ...{ workflowStatus: end === null ? 'RUNNING' : statusOf(end), startedAt, closedAt },
  };
}
