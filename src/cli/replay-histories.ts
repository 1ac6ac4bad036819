/** Which runs `replay-check` replays, how their histories are read, and what came of it. */
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import { equals, IS_OPEN, IS_OURS } from '../temporal/visibility.js';
import { listWorkflows, temporalCall } from '../client/temporal-call.js';
import { isEncrypted } from '../temporal/payload-codec.js';
import { type Misfit, type ReplayedRun, type ReplayOptions, replayRuns } from '../temporal/replay-worker.js';

/** How long one history may take to be read: the longest are tens of MiB. */
const HISTORY_MS = 60_000;

interface ReplayBounds {
  /** Runs that closed after this time count, and all open runs. */
  since: Date;
  limit: number;
  taskQueue: string | undefined;
}

/** What the replay showed. */
export interface ReplayReport {
  fits: Record<string, number>;
  misfits: Misfit[];
  unread: { workflowId: string; runId: string; problem: string }[];
  isCut: boolean;
}

/** Replays what the bounds name with the given workflow code. */
export async function replayHistories(
  client: Client,
  bounds: ReplayBounds,
  signal: AbortSignal,
  options: ReplayOptions,
): Promise<ReplayReport> {
  const report: ReplayReport = { fits: {}, misfits: [], unread: [], isCut: false };
  const read = async function* () {
    for await (const listed of listRuns(client, bounds, report, signal)) {
      const run = await readRun(client, listed, report, signal);
      if (run) yield run;
    }
  };
  for await (const { run, misfit } of replayRuns(options, read())) {
    if (misfit) report.misfits.push(misfit);
    else report.fits[run.workflowType] = (report.fits[run.workflowType] ?? 0) + 1;
  }
  return report;
}

async function* listRuns(
  client: Client,
  { since, limit, taskQueue }: ReplayBounds,
  report: ReplayReport,
  signal: AbortSignal,
): AsyncGenerator<WorkflowExecutionInfo, void, undefined> {
  const ofQueue = taskQueue === undefined ? '' : ` AND ${equals('TaskQueue', taskQueue)}`;
  const closed = `CloseTime >= '${since.toISOString()}'`;
  let left = limit;
  // Temporal lists open runs first: those must go on with the new release.
  const query = `${IS_OURS}${ofQueue} AND (${IS_OPEN} OR ${closed})`;
  for await (const listed of listWorkflows(client, query, { signal })) {
    signal.throwIfAborted();
    report.isCut = left === 0;
    if (report.isCut) return;
    left -= 1;
    yield listed;
  }
}

/** Reads a run's history; null if there is nothing to replay. The report has the reason, unless the run is gone. */
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
    // The server has deleted the run since the list was read.
    if (name !== 'WorkflowNotFoundError') report.unread.push({ workflowId, runId, problem });
    return null;
  }
}

/**
 * Throws if a payload stays encrypted: without the keys a history would seem not to fit. Every payload is checked, for
 * caller and worker each decide whether they encrypt what they write.
 */
async function checkReadable({ options }: Client, events: readonly unknown[]): Promise<void> {
  for (const event of events) {
    let payloads = payloadsIn(event).filter(isEncrypted);
    if (payloads.length === 0) continue;
    for (const codec of options.loadedDataConverter.payloadCodecs) payloads = await codec.decode(payloads);
    if (payloads.some(isEncrypted)) {
      throw new Error('it is encrypted: set PAYLOAD_KEYS_FILE to the keys of its workers');
    }
  }
}

/** The payloads anywhere in an event: arguments, memo, headers, details of failures within failures. */
function payloadsIn(value: unknown): Payload[] {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return [];
  const isPayload = ArrayBuffer.isView((value as Payload).metadata?.['encoding']);
  return isPayload ? [value as Payload] : Object.values(value).flatMap(payloadsIn);
}
