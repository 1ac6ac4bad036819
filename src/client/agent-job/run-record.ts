/** Reads what Temporal itself knows of a workflow's runs, without asking a worker. */
import { hash } from 'node:crypto';
import { WorkflowContinuedAsNewError, WorkflowFailedError } from '@temporalio/client';
import type { Client, WorkflowExecutionDescription, WorkflowExecutionInfo } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { endOf, type RunEnd } from '../../agent-job/closed-run.js';
import { hashNatively, inputHash } from '../../agent-job/input.js';
import { AGENT_JOB_WORKFLOW, type AgentJobInput, type AgentJobResult, MEMO } from '../../contract.js';
import { hasGrpcStatus } from '../../temporal/grpc.js';
import { startStopwatch } from '../../temporal/elapsed-time.js';
import { endedRunIdsOf } from '../../temporal/private/restart-request-id.js';
import { equals, isOpen } from '../../temporal/visibility.js';
import { lenientWorkflowClient } from '../../temporal/workflow-clients.js';
import { JobNotFoundError, KeyConflictError } from '../errors.js';
import type { CallOptions } from '../settings.js';
import { temporalCall } from '../temporal-call.js';
import { type JobSummary, textOrNull, toSummary } from './list.js';

hashNatively((text) => hash('sha256', text, 'hex'));

interface RunId {
  workflowId: string;
  runId: string;
}

/** A workflow id's newest run, as it was when it was read. */
export interface RunRecord extends JobSummary {
  /** Since before the read: another run may have followed in that time. */
  elapsedMs: () => number;
  /** First of the runs that continue-as-new chained together; its input is the caller's own. */
  firstRunId: string;
  isRunning: boolean;
  historyLength: number;
  /** The request ids of all starts that Temporal answers with this run. */
  requestIds: string[];
  taskQueue: string;
  memoInputHash: string | null;
  /** From the memo: nothing may show the prompt. */
  hidePrompts: boolean;
  /** What the page of the run says, as its start gave it. */
  details: () => Promise<string | undefined>;
}

/** Reads the newest run of a workflow id; throws JobNotFoundError, and KeyConflictError if it is no agent job. */
export async function readRun(client: Client, workflowId: string): Promise<RunRecord> {
  const elapsedMs = startStopwatch();
  const run = await readDescription(client, workflowId);
  if (run.type !== AGENT_JOB_WORKFLOW) {
    throw new KeyConflictError(workflowId, `this id belongs to a workflow of type ${run.type}`);
  }
  return {
    ...toSummary(run),
    elapsedMs,
    firstRunId: run.raw.workflowExecutionInfo?.firstRunId || run.runId,
    isRunning: isOpen(run.status.name),
    historyLength: run.historyLength,
    requestIds: Object.keys(run.raw.workflowExtendedInfo?.requestIdInfos ?? {}),
    taskQueue: run.taskQueue,
    memoInputHash: textOrNull(run.memo?.[MEMO.inputHash]),
    hidePrompts: run.memo?.[MEMO.hidePrompts] === true,
    details: () => run.staticDetails(),
  };
}

export const NO_SUCH_WORKFLOW =
  'no such workflow: never started, in another namespace, or closed longer ago than Temporal keeps it';

/** Reads Temporal's own description of the newest run; throws JobNotFoundError. */
export async function readDescription(client: Client, workflowId: string): Promise<WorkflowExecutionDescription> {
  try {
    return await lenientWorkflowClient(client).getHandle(workflowId).describe();
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    throw new JobNotFoundError(workflowId, NO_SUCH_WORKFLOW, { cause: error });
  }
}

/** Reads a job's newest run as `listJobs` would show it, without the lag of a list; throws JobNotFoundError. */
export function readSummary(client: Client, workflowId: string, options: CallOptions = {}): Promise<JobSummary> {
  return temporalCall(client, options, async () => toSummary(await readDescription(client, workflowId)));
}

/** Null if Temporal has deleted what was listed, or met by a start. */
export function nullIfGone(error: unknown): null {
  if (error instanceof WorkflowNotFoundError || error instanceof JobNotFoundError) return null;
  throw error;
}

/** Reads how one closed run ended, and its result; throws WorkflowNotFoundError if Temporal has deleted it. */
export async function readClosedRun(
  client: Client,
  { workflowId, runId }: RunId,
): Promise<{ runId: string; end: RunEnd; result: AgentJobResult | null }> {
  try {
    const result = await client.workflow.result(workflowId, runId, { followRuns: false });
    return { runId, end: 'result', result: result as AgentJobResult };
  } catch (error) {
    // It continued as new, which the list of runs did not show yet.
    if (error instanceof WorkflowContinuedAsNewError) return { runId, end: 'OtherFailure', result: null };
    if (!(error instanceof WorkflowFailedError)) throw error;
    return { runId, end: endOf(error.cause), result: null };
  }
}

interface EarlierRuns {
  /** Newest first, as far as the list shows them. */
  all: string[];
  /** Those that the caller who started the newest run may not have seen: how they ended must be read. */
  unknownToLast: string[];
}

/**
 * Lists the closed runs before the last one; null if another is the last one by now. A chain that continued as new
 * counts by its end alone. The list may lag by a moment, so that a run is missing; what `last` knows of itself never
 * lags.
 */
export async function listEarlierRuns(client: Client, last: RunRecord): Promise<EarlierRuns | null> {
  const isOfJob = `WorkflowType = '${AGENT_JOB_WORKFLOW}' AND ExecutionStatus != 'ContinuedAsNew'`;
  const query = `${equals('WorkflowId', last.workflowId)} AND ${isOfJob}`;
  const found: WorkflowExecutionInfo[] = [];
  for await (const run of lenientWorkflowClient(client).list({ query })) {
    // A workflow of another type has created no job under this id.
    const isOther = run.workflowId === last.workflowId && run.type === AGENT_JOB_WORKFLOW && run.runId !== last.runId;
    if (isOther) found.push(run);
  }
  // Times say nothing of the order: the server has more than one clock.
  if (found.length > 0 && (await readRun(client, last.workflowId)).runId !== last.runId) return null;
  const listed = found.sort((a, b) => Number(b.startTime) - Number(a.startTime)).map(({ runId }) => runId);
  const knownToLast = endedRunIdsOf(last.requestIds);
  return {
    all: [...new Set([...listed, ...knownToLast])],
    unknownToLast: listed.filter((runId) => !knownToLast.includes(runId)),
  };
}

// What a job was started with, from its memo and the first event of its history.

/** Reads the hash that says which job a run is for: from its memo, else from its start event. Null if both are gone. */
export async function readInputHash(client: Client, run: RunRecord): Promise<string | null> {
  if (run.memoInputHash !== null) return run.memoInputHash;
  const input = await readStartInput(client, run);
  return input === null ? null : inputHash(input);
}

/** Reads the caller's own input in the first start event; null if Temporal no longer keeps it, or it is none. */
export async function readStartInput(
  client: Client,
  { workflowId, firstRunId }: Pick<RunRecord, 'workflowId' | 'firstRunId'>,
): Promise<AgentJobInput | null> {
  const { namespace } = client.options;
  const execution = { workflowId, runId: firstRunId };
  try {
    const page = await client.workflowService.getWorkflowExecutionHistory({ namespace, execution, maximumPageSize: 1 });
    const [first] = page.history?.events ?? [];
    return await decodeFirst<AgentJobInput>(client, first?.workflowExecutionStartedEventAttributes?.input?.payloads);
  } catch (error) {
    if (error instanceof WorkflowNotFoundError || hasGrpcStatus(error, 'notFound')) return null;
    throw error;
  }
}

type Payloads = Parameters<Client['options']['loadedDataConverter']['payloadCodecs'][number]['decode']>[0];

/** Decodes the first payload; null if there is none, or it is no JSON object. */
async function decodeFirst<T extends object>(client: Client, payloads: Payloads | null | undefined): Promise<T | null> {
  const { payloadCodecs, payloadConverter } = client.options.loadedDataConverter;
  let decoded = payloads ?? [];
  for (const codec of payloadCodecs) decoded = await codec.decode(decoded);
  const [first] = decoded;
  if (first === undefined) return null;
  const value = payloadConverter.fromPayload<unknown>(first);
  return typeof value === 'object' && value !== null ? (value as T) : null;
}
