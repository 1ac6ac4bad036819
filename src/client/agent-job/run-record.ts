/** What Temporal itself knows of a workflow's runs, without asking a worker. */
import {
  WorkflowContinuedAsNewError,
  WorkflowFailedError,
  type Client,
  type WorkflowExecutionDescription,
} from '@temporalio/client';
import { ApplicationFailure, WorkflowNotFoundError } from '@temporalio/common';
import { AGENT_JOB_WORKFLOW, FAILURE, MEMO, type AgentJobResult, type JobOutcome } from '../../contract.js';
import { lenientWorkflowClient } from '../../temporal/workflow-clients.js';
import { JobNotFoundError, KeyConflictError } from '../errors.js';

/** One run as its description shows it. */
export interface RunRecord {
  workflowId: string;
  runId: string;
  /** First of the runs that continue-as-new chained together; its input is the caller's own. */
  firstRunId: string;
  isRunning: boolean;
  /** How many events it has. */
  historyLength: number;
  /** Temporal's status, such as `COMPLETED`. */
  status: string;
  /** The request id of the start that made it; null where the server does not tell. */
  createdBy: string | null;
  /** Of all starts that Temporal answers with this run. */
  requestIds: string[];
  taskQueue: string;
  /** From the memo; null where no job was known yet. */
  jobId: string | null;
  prLink: string | null;
  memoInputHash: string | null;
  /** From the memo; null where another client than ours started it. */
  title: string | null;
  /** All that Temporal tells. */
  raw: WorkflowExecutionDescription['raw'];
}

/** A closed run's result, or the type of the failure that it ended with; null where it has no type. */
type RunEnd = { result: AgentJobResult } | { failureType: string | null };

/** A status that this release does not know counts as running: nothing goes on from such a run. */
const CLOSED: readonly string[] = ['COMPLETED', 'FAILED', 'CANCELLED', 'TERMINATED', 'TIMED_OUT', 'CONTINUED_AS_NEW'];
const STARTED_EVENT = 1; // temporal.api.enums.v1.EventType

/** Reads the newest run of a workflow id; throws JobNotFoundError, and KeyConflictError where it is no agent job. */
export async function readRun(client: Client, workflowId: string): Promise<RunRecord> {
  const run = await readDescription(client, workflowId);
  if (run.type !== AGENT_JOB_WORKFLOW) {
    throw new KeyConflictError(workflowId, `this id belongs to a workflow of type ${run.type}`);
  }
  return {
    workflowId,
    runId: run.runId,
    firstRunId: run.raw.workflowExecutionInfo?.firstRunId || run.runId,
    isRunning: !CLOSED.includes(run.status.name),
    status: run.status.name,
    historyLength: run.historyLength,
    ...readRequestIds(run),
    taskQueue: run.taskQueue,
    jobId: textOrNull(run.memo?.[MEMO.jobId]),
    prLink: textOrNull(run.memo?.[MEMO.prLink]),
    memoInputHash: textOrNull(run.memo?.[MEMO.inputHash]),
    title: textOrNull(run.memo?.[MEMO.title]),
    raw: run.raw,
  };
}

function readRequestIds({ raw }: WorkflowExecutionDescription): Pick<RunRecord, 'createdBy' | 'requestIds'> {
  const infos = Object.entries(raw.workflowExtendedInfo?.requestIdInfos ?? {});
  const created = infos.find(([, { eventType }]) => eventType === STARTED_EVENT);
  return { createdBy: created?.[0] ?? null, requestIds: infos.map(([requestId]) => requestId) };
}

/** Reads Temporal's own description of the newest run; throws JobNotFoundError. */
export async function readDescription(client: Client, workflowId: string): Promise<WorkflowExecutionDescription> {
  try {
    return await lenientWorkflowClient(client).getHandle(workflowId).describe();
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    const text = 'no such workflow: never started, in another namespace, or closed longer ago than Temporal keeps it';
    throw new JobNotFoundError(workflowId, text, { cause: error });
  }
}

/** Reads how one closed run ended; throws WorkflowNotFoundError where Temporal has deleted it. */
export async function readRunEnd(client: Client, workflowId: string, runId: string): Promise<RunEnd> {
  try {
    const result = await client.workflow.result(workflowId, runId, { followRuns: false });
    return { result: result as AgentJobResult };
  } catch (error) {
    // It continued as new, which the list of runs did not show yet.
    if (error instanceof WorkflowContinuedAsNewError) return { failureType: null };
    if (!(error instanceof WorkflowFailedError)) throw error;
    const { cause } = error;
    return { failureType: cause instanceof ApplicationFailure ? (cause.type ?? null) : null };
  }
}

/** Of Temporal's statuses, those that say how a job ended. */
export const ENDED_BY: Readonly<Record<string, JobOutcome>> = {
  CANCELLED: 'Canceled',
  TERMINATED: 'Terminated',
  TIMED_OUT: 'TimedOut',
};

/** Whether the run's failure means that surely no job was created. */
export function createdNoJob(end: RunEnd): end is { failureType: string } {
  if ('result' in end) return false;
  return end.failureType === FAILURE.invalidInput || end.failureType === FAILURE.createRejected;
}

/** What a memo holds, where it is text. */
export function textOrNull(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}
