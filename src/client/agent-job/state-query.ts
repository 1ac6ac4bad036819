/**
 * Reads a job's state from a worker. No workflow knows that it was terminated or met a time-out: how a closed run ended
 * is read from Temporal then.
 */
import { QueryRejectedError, WorkflowClient, type Client } from '@temporalio/client';
import { jobStateQuery, type AgentJobResult, type JobOutcome, type JobState } from '../../contract.js';
import { askWorkflow, queryAgain, workflowOptionsOf } from '../../temporal/workflow-clients.js';
import { ENDED_BY, readDescription, readRunEnd, type RunRecord } from './run-record.js';

/** Asks the newest run; a running one costs one request. */
export async function queryState(client: Client, workflowId: string): Promise<JobState> {
  try {
    const running = runningWorkflows(client).getHandle(workflowId);
    return await queryAgain(() => running.query(jobStateQuery));
  } catch (error) {
    if (!(error instanceof QueryRejectedError)) throw error;
  }
  const { runId, status } = await readDescription(client, workflowId);
  const state = await askWorkflow(client, { workflowId, runId }, jobStateQuery);
  if (state.outcome !== null || status.name === 'RUNNING') return state;
  const outcome = await readOutcome(client, { workflowId, runId, status: status.name });
  return { ...state, phase: 'done', outcome, waiting: null };
}

/** Temporal refuses to ask a closed workflow for these: how it ended is wanted, too. */
function runningWorkflows(client: Client): WorkflowClient {
  return new WorkflowClient({ ...workflowOptionsOf(client), queryRejectCondition: 'NOT_OPEN' });
}

/** A closed run, and Temporal's status of it, such as `COMPLETED`. */
export interface ClosedRun {
  workflowId: string;
  runId: string;
  status: string;
}

/** How a closed run ended, without a worker; null where its failure says nothing. */
export async function readOutcome(
  client: Client,
  { workflowId, runId, status }: ClosedRun,
): Promise<JobOutcome | null> {
  const known = ENDED_BY[status];
  if (known !== undefined) return known;
  const end = await readRunEnd(client, workflowId, runId);
  return 'result' in end ? end.result.outcome : (end.failureType as JobOutcome | null);
}

/**
 * The last state of a job that ended while no worker runs: by the result, or the last one that was read, ended. Null
 * where neither is known: a failure tells nothing of follow-ups, and an empty list would be untrue.
 */
export async function stateAtEnd(client: Client, run: RunRecord, last: JobState | null): Promise<JobState | null> {
  const outcome = ENDED_BY[run.status];
  if (outcome !== undefined) return last && ended(last, outcome);
  const end = await readRunEnd(client, run.workflowId, run.runId);
  if ('result' in end) return fromResult(end.result);
  return last && ended(last, end.failureType as JobOutcome | null);
}

function ended(last: JobState, outcome: JobOutcome | null): JobState {
  return { ...last, phase: 'done', waiting: null, outcome };
}

function fromResult({ finishedAt, ...told }: AgentJobResult): JobState {
  return { ...told, phase: 'done', unknown: null, waiting: null, lastChangeAt: finishedAt };
}
