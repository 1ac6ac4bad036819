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
  /** Runs of workflow types that are not this package's. */
  skipped: number;
  /** Runs above the limit. */
  left: number;
  /** Deleted by the server between the list and the read. */
  gone: number;
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

/** Counts what is left out. */
async function emptyReport(client: Client, bounds: ReplayBounds, signal: AbortSignal): Promise<ReplayReport> {
  const countOf = async (query: string) =>
    (await temporalCall(client, { signal }, () => client.workflow.count(query))).count;
  const ours = typeIs('IN', bounds);
  const isAsked = `(${IS_OPEN} OR ${closedSince(bounds)})`;
  const [skipped, asked] = await Promise.all([
    countOf(`${typeIs('NOT IN', bounds)} AND ${isAsked}`),
    countOf(`${ours} AND ${isAsked}`),
  ]);
  return { types: {}, misfits: [], unread: [], skipped, left: Math.max(0, asked - bounds.limit), gone: 0 };
}

function closedSince({ since }: ReplayBounds): string {
  return `CloseTime >= '${since.toISOString()}'`;
}

function typeIs(operator: 'IN' | 'NOT IN', { taskQueue }: ReplayBounds): string {
  const ofQueue = taskQueue === undefined ? '' : ` AND ${equals('TaskQueue', taskQueue)}`;
  return `WorkflowType ${operator} (${WORKFLOW_TYPES.map((type) => `'${type}'`).join(', ')})${ofQueue}`;
}

/** Open ones first: those must go on with the new release. */
async function* ownRuns(
  client: Client,
  bounds: ReplayBounds,
  signal: AbortSignal,
): AsyncGenerator<WorkflowExecutionInfo, void, undefined> {
  const types = typeIs('IN', bounds);
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

/** Null where there is nothing to replay, which the report then tells. */
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
    if ((error as Error).name === 'WorkflowNotFoundError') report.gone += 1;
    else {
      tallyOf(report, type).unread += 1;
      const problem = (error as Error).message;
      if (report.unread.length < MAX_TOLD) report.unread.push({ workflowId, runId, problem });
    }
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
