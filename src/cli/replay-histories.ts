/** Which runs `replay-check` replays, how their histories are read, and what came of it. */
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import { equals } from '../client/visibility-query.js';
import { listWorkflows, temporalCall } from '../client/temporal-call.js';
import { AGENT_JOB_WORKFLOW, REQUEST_QUEUE_WORKFLOW, VISITOR_EXPORT_WORKFLOW } from '../contract.js';
import { WEBHOOK_DELIVERY_WORKFLOW, WEBHOOK_SWEEP_WORKFLOW } from '../contract/webhooks.js';
import { IS_OPEN } from '../temporal/open-workflows.js';
import {
  locateMisfit,
  replayRuns,
  type Misfit,
  type ReplayedRun,
  type ReplayOptions,
} from '../temporal/replay-worker.js';
import { loadWorkflowBundle } from '../temporal/workflow-bundle.js';
import { isEncrypted } from '../temporal/payload-codec.js';

/** Every workflow type of this package. */
export const WORKFLOW_TYPES: readonly string[] = [
  AGENT_JOB_WORKFLOW,
  REQUEST_QUEUE_WORKFLOW,
  VISITOR_EXPORT_WORKFLOW,
  WEBHOOK_SWEEP_WORKFLOW,
  WEBHOOK_DELIVERY_WORKFLOW,
];

/** How long one history may take to be read: the longest are tens of MiB. */
const HISTORY_MS = 60_000;
/** So many of what does not fit, and of what could not be read, are told one by one. */
const MAX_TOLD = 20;

/** What to replay. */
export interface ReplayBounds {
  /** Closed runs count that closed after it; open ones all count. */
  since: Date;
  /** Runs, open ones first. */
  limit: number;
  taskQueue: string | undefined;
}

/** The runs of one workflow type. */
export interface ReplayTally {
  fits: number;
  misfits: number;
  unread: number;
}

/** What the replay showed. */
export interface ReplayReport {
  types: Record<string, ReplayTally>;
  /** The first misfits. */
  misfits: Misfit[];
  unread: { workflowId: string; runId: string; problem: string }[];
  /** Runs above the limit. */
  left: number;
}

/** Replays what the bounds name with the bundle of this package. */
export async function replayHistories(
  client: Client,
  bounds: ReplayBounds,
  signal: AbortSignal,
  options: ReplayOptions = loadWorkflowBundle(),
): Promise<ReplayReport> {
  const report = await emptyReport(client, bounds, signal);
  const runs = ownRuns(client, bounds, signal);
  const next = async () => {
    for (let listed = await runs.next(); !listed.done; listed = await runs.next()) {
      signal.throwIfAborted();
      const run = await readRun(client, listed.value, report, signal);
      if (run) return run;
    }
    return null;
  };
  let first = null as { run: ReplayedRun; misfit: Misfit } | null;
  await replayRuns(options, next, (run, misfit) => {
    tallyOf(report, run.workflowType)[misfit ? 'misfits' : 'fits'] += 1;
    if (!misfit) return;
    first ??= { run, misfit };
    if (report.misfits.length < MAX_TOLD) report.misfits.push(misfit);
  });
  if (first !== null) report.misfits[0] = await locateMisfit(options, first.run, first.misfit);
  return report;
}

function tallyOf({ types }: ReplayReport, workflowType: string): ReplayTally {
  return (types[workflowType] ??= { fits: 0, misfits: 0, unread: 0 });
}

/** Counts the runs above the limit. */
async function emptyReport(client: Client, bounds: ReplayBounds, signal: AbortSignal): Promise<ReplayReport> {
  const query = `${isOurs(bounds)} AND (${IS_OPEN} OR ${closedSince(bounds)})`;
  const { count } = await temporalCall(client, { signal }, () => client.workflow.count(query));
  return { types: {}, misfits: [], unread: [], left: Math.max(0, count - bounds.limit) };
}

function closedSince({ since }: ReplayBounds): string {
  return `CloseTime >= '${since.toISOString()}'`;
}

function isOurs({ taskQueue }: ReplayBounds): string {
  const ofQueue = taskQueue === undefined ? '' : ` AND ${equals('TaskQueue', taskQueue)}`;
  return `WorkflowType IN (${WORKFLOW_TYPES.map((type) => `'${type}'`).join(', ')})${ofQueue}`;
}

/** Open ones first: those must go on with the new release. */
async function* ownRuns(
  client: Client,
  bounds: ReplayBounds,
  signal: AbortSignal,
): AsyncGenerator<WorkflowExecutionInfo, void, undefined> {
  const types = isOurs(bounds);
  let left = bounds.limit;
  // A run that closes meanwhile is listed twice, and replayed twice.
  for (const query of [`${types} AND ${IS_OPEN}`, `${types} AND ${closedSince(bounds)}`]) {
    for await (const run of listWorkflows(client, query, { signal })) {
      if (left === 0) return;
      left -= 1;
      yield run;
    }
  }
}

/** Null where there is nothing to replay: the report then has the reason. */
async function readRun(
  client: Client,
  { workflowId, runId, type }: WorkflowExecutionInfo,
  report: ReplayReport,
  signal: AbortSignal,
): Promise<ReplayedRun | null> {
  try {
    const read = () => client.workflow.getHandle(workflowId, runId).fetchHistory();
    const history = await temporalCall(client, { signal, timeoutMs: HISTORY_MS }, read);
    await checkReadable(client, history.events ?? []);
    return { workflowId, runId, workflowType: type, history };
  } catch (error) {
    signal.throwIfAborted();
    const { name, message: problem } = error as Error;
    // The server has deleted it since the list was read.
    if (name === 'WorkflowNotFoundError') return null;
    tallyOf(report, type).unread += 1;
    if (report.unread.length < MAX_TOLD) report.unread.push({ workflowId, runId, problem });
    return null;
  }
}

/**
 * Throws where a payload stays encrypted: without the keys a history would seem not to fit. All are looked at, for
 * caller and worker each encrypt, or do not, what they write.
 */
async function checkReadable({ options }: Client, events: readonly unknown[]): Promise<void> {
  const { payloadCodecs } = options.loadedDataConverter;
  for (const event of events) {
    let payloads = payloadsIn(event).filter(isEncrypted);
    if (payloads.length === 0) continue;
    for (const codec of payloadCodecs) payloads = await codec.decode(payloads);
    if (payloads.some(isEncrypted)) {
      throw new Error('it is encrypted: set PAYLOAD_KEYS_FILE to the keys of its workers');
    }
  }
}

/** Wherever they stand in an event: arguments, memo, headers, details of failures within failures. */
function payloadsIn(value: unknown): Payload[] {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return [];
  return isPayload(value) ? [value] : Object.values(value).flatMap(payloadsIn);
}

function isPayload(value: object): value is Payload {
  const { metadata } = value as Payload;
  return ArrayBuffer.isView(metadata?.['encoding']);
}
