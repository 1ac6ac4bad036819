/**
 * Reads a job's state from a worker. No workflow knows that it was terminated or met a time-out, and an older release
 * tells no outcome: how a closed run ended is read from Temporal then.
 */
import { QueryRejectedError, WorkflowClient, type Client } from '@temporalio/client';
import { jobStateQuery, type JobOutcome, type JobState } from '../../contract.js';
import { queryAgain } from '../../temporal/query-again.js';
import { ENDED_BY, readDescription, readRunEnd } from './run-record.js';

/** Asks the newest run; a running one costs one request. */
export async function queryState(client: Client, workflowId: string): Promise<JobState> {
  try {
    return complete(await queryRun(runningWorkflows(client), workflowId));
  } catch (error) {
    if (!(error instanceof QueryRejectedError)) throw error;
  }
  const { runId, status } = await readDescription(client, workflowId);
  const state = complete(await queryRun(client.workflow, workflowId, runId));
  if (state.outcome !== null || status.name === 'RUNNING') return state;
  const outcome = await readOutcome(client, { workflowId, runId, status: status.name });
  return { ...state, phase: 'done', outcome, waiting: null };
}

/** Temporal refuses to ask a closed workflow for these: how it ended is wanted, too. */
function runningWorkflows({ connection, options, workflow }: Client): WorkflowClient {
  const { namespace, identity, loadedDataConverter: dataConverter } = options;
  const { interceptors } = workflow.options;
  return new WorkflowClient({
    ...{ connection, namespace, identity, dataConverter, interceptors },
    queryRejectCondition: 'NOT_OPEN',
  });
}

function queryRun(workflows: WorkflowClient, workflowId: string, runId?: string): Promise<Partial<JobState>> {
  return queryAgain(() => workflows.getHandle(workflowId, runId).query(jobStateQuery));
}

/** A worker of an older release tells no labels and no outcome. */
function complete(state: Partial<JobState>): JobState {
  return { tags: [], metadata: {}, ...state, outcome: state.outcome ?? null } as JobState;
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
