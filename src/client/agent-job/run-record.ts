import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { AGENT_JOB_WORKFLOW, MEMO, type AgentJobInput } from '../../contract.js';
import { inputHash } from '../../agent-job/input-hash.js';
import { JobNotFoundError, KeyConflictError } from '../errors.js';
import { lenientWorkflowClient } from '../../temporal/lenient-workflow-client.js';

/** What Temporal itself knows of a workflow's newest run, without asking a worker. */
export interface RunRecord {
  workflowId: string;
  runId: string;
  /** First of the runs that continue-as-new chained together; its input is the caller's own. */
  firstRunId: string;
  isRunning: boolean;
  status: string;
  /** The request id of the start that made it; null where the server does not tell. */
  createdBy: string | null;
  /** Of all starts that Temporal answers with this run. */
  requestIds: string[];
  taskQueue: string;
  /** From the memo; null where no job was known yet. */
  jobId: string | null;
  memoInputHash: string | null;
}

/** A status that this release does not know is none of these: such a run is never gone on from. */
const CLOSED: readonly string[] = ['COMPLETED', 'FAILED', 'CANCELLED', 'TERMINATED', 'TIMED_OUT', 'CONTINUED_AS_NEW'];
const STARTED_EVENT = 1; // temporal.api.enums.v1.EventType

/** Reads the newest run of a workflow id; throws JobNotFoundError. */
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
    ...readRequestIds(run),
    taskQueue: run.taskQueue,
    jobId: textOrNull(run.memo?.[MEMO.jobId]),
    memoInputHash: textOrNull(run.memo?.[MEMO.inputHash]),
  };
}

function readRequestIds({ raw }: WorkflowExecutionDescription): Pick<RunRecord, 'createdBy' | 'requestIds'> {
  const infos = Object.entries(raw.workflowExtendedInfo?.requestIdInfos ?? {});
  const created = infos.find(([, { eventType }]) => eventType === STARTED_EVENT);
  return { createdBy: created?.[0] ?? null, requestIds: infos.map(([requestId]) => requestId) };
}

/** The hash that says which job a run is for: its memo, else computed from its first start event; null where neither is left. */
export async function readInputHash(client: Client, run: RunRecord): Promise<string | null> {
  if (run.memoInputHash !== null) return run.memoInputHash;
  const input = await readStartInput(client, run.workflowId, run.firstRunId);
  return input === null ? null : inputHash(input);
}

/** The input in a run's start event; null where Temporal no longer keeps it or it is no JSON object. */
export async function readStartInput(client: Client, workflowId: string, runId: string): Promise<AgentJobInput | null> {
  const begin = await readBegin(client, { workflowId, runId }, 1);
  return begin && (await decodeInput(client, startOf(begin)?.input?.payloads ?? []));
}

/** More are left behind only by one who sent dozens of messages to a workflow that nobody ran. */
const UNBEGUN_EVENTS = 100;

/** The input of a closed run whose first workflow task was never done, by which it did nothing at all; else null. */
export async function readUnbegunInput(
  client: Client,
  workflowId: string,
  runId: string,
): Promise<AgentJobInput | null> {
  const begin = await readBegin(client, { workflowId, runId }, UNBEGUN_EVENTS);
  if (begin === null || begin.nextPageToken.length > 0) return null;
  // One that continues another holds its state elsewhere.
  if (startOf(begin)?.continuedExecutionRunId) return null;
  const hasBegun = begin.history?.events?.some((event) => event.workflowTaskCompletedEventAttributes) ?? true;
  return hasBegun ? null : await decodeInput(client, startOf(begin)?.input?.payloads ?? []);
}

type HistoryBegin = Awaited<ReturnType<Client['workflowService']['getWorkflowExecutionHistory']>>;

function startOf({ history }: HistoryBegin) {
  return history?.events?.[0]?.workflowExecutionStartedEventAttributes;
}

async function readBegin(
  client: Client,
  execution: { workflowId: string; runId: string },
  maximumPageSize: number,
): Promise<HistoryBegin | null> {
  const { namespace } = client.options;
  try {
    return await client.workflowService.getWorkflowExecutionHistory({ namespace, execution, maximumPageSize });
  } catch (error) {
    if (isNotFound(error)) return null;
    throw error;
  }
}

type Payloads = Parameters<Client['options']['loadedDataConverter']['payloadCodecs'][number]['decode']>[0];

async function decodeInput(client: Client, payloads: Payloads): Promise<AgentJobInput | null> {
  const { payloadCodecs, payloadConverter } = client.options.loadedDataConverter;
  let decoded = payloads;
  for (const codec of payloadCodecs) decoded = await codec.decode(decoded);
  const [first] = decoded;
  if (first === undefined) return null;
  const input = payloadConverter.fromPayload<unknown>(first);
  return typeof input === 'object' && input !== null ? (input as AgentJobInput) : null;
}

/** Temporal's own description of the newest run; throws JobNotFoundError. */
export async function readDescription(client: Client, workflowId: string): Promise<WorkflowExecutionDescription> {
  try {
    return await lenientWorkflowClient(client).getHandle(workflowId).describe();
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    const text = 'no such workflow: never started, in another namespace, or closed longer ago than Temporal keeps it';
    throw new JobNotFoundError(workflowId, text, { cause: error });
  }
}

const GRPC_NOT_FOUND = 5;

function isNotFound(error: unknown): boolean {
  return error instanceof WorkflowNotFoundError || (error as { code?: unknown }).code === GRPC_NOT_FOUND;
}

/** What a memo holds, where it is text. */
export function textOrNull(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}
