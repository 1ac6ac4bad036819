/** Reads from Temporal what a workflow's cost is estimated from. No worker is asked. */
import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { lenientWorkflowClient } from '../temporal/lenient-workflow-client.js';
import { isEncrypted } from '../temporal/payload-codec.js';
import {
  jsonIn,
  millisOf,
  type CostEvent,
  type CostedRun,
  type CostedWorkflow,
  type CostInput,
  type Given,
  type PendingActivity,
} from './cost-estimate.js';
import type { Session } from './session.js';

/** A long job has many pages of history. */
const HISTORIES_MS = 60_000;

/** The runs of one workflow id. */
export interface CostTarget {
  workflowId: string;
  /** The newest run of each chain, the newest chain first; default: all of a job that Temporal still has. */
  runIds?: readonly string[] | undefined;
  workflow: CostedWorkflow;
  /** Of these runs alone: a queue that lives for years is one chain. */
  isAlone?: boolean;
}

/** What was read, and whether Temporal still has all of it. */
export interface CostRead {
  /** The newest first. A follow-up to an ended job makes another chain, and so does a start after a refused create. */
  chains: CostedChain[];
  isComplete: boolean;
  /** Whether something that tells of reads and turns stayed encrypted. */
  isHidden: boolean;
}

/** A run, and those that it continued as new from. */
interface CostedChain {
  input: CostInput;
  /** When the oldest run that is kept started, in milliseconds. */
  startedAt: number;
}

type Chain = CostedChain & { isComplete: boolean; runIds: string[] };

/** Reads everything that Temporal still has of a workflow's runs. */
export async function readCost(
  { jobs: { client }, signal }: Pick<Session, 'jobs' | 'signal'>,
  target: CostTarget,
): Promise<CostRead> {
  const { temporalCall } = await import('../client/temporal-call.js');
  return temporalCall(client, { signal, timeoutMs: HISTORIES_MS }, async () =>
    readChains(client, target, target.runIds ?? (await listRunIds(client, target.workflowId))),
  );
}

/** The newest run of each chain, the newest chain first. */
async function listRunIds(client: Client, workflowId: string): Promise<string[]> {
  const { readRun } = await import('../client/agent-job/run-record.js');
  const { listEarlierRuns } = await import('../client/agent-job/earlier-runs.js');
  for (;;) {
    const newest = await readRun(client, workflowId);
    const earlier = await listEarlierRuns(client, newest);
    if (earlier !== null) return [newest.runId, ...earlier.all];
  }
}

/** A chain that Temporal has deleted is left out; throws where that leaves none. */
async function readChains(client: Client, target: CostTarget, runIds: readonly string[]): Promise<CostRead> {
  const chains: Chain[] = [];
  let gone: unknown = null;
  for (const runId of runIds) {
    // The list may lag, and name a run that has continued as new.
    if (chains.some((chain) => chain.runIds.includes(runId))) continue;
    const chain = await readChain(client, target, runId).catch((error: unknown) => {
      if (!isGone(error)) throw error;
      gone = error;
      return null;
    });
    if (chain !== null) chains.push(chain);
  }
  if (chains.length === 0) throw gone;
  return {
    chains,
    isComplete: gone === null && chains.every(({ isComplete }) => isComplete),
    isHidden: chains.some(({ input }) => input.runs.some(isHidden)),
  };
}

/** From its newest run back to the first one that is still kept. */
async function readChain(
  client: Client,
  { workflowId, workflow, isAlone = false }: CostTarget,
  newestRunId: string,
): Promise<Chain> {
  const { run: newest, pending } = await readOneRun(client, workflowId, newestRunId);
  const [runs, runIds] = [[newest], [newestRunId]];
  let isComplete = true;
  for (let runId = isAlone ? null : runBefore(newest); runId;) {
    const run = await readOneRun(client, workflowId, runId).catch(nullIfGone);
    isComplete = run !== null;
    if (run === null) break;
    runs.push(run.run);
    runIds.push(runId);
    runId = runBefore(run.run);
  }
  const startedAt = millisOf(runs.at(-1)?.events[0]?.eventTime);
  return { input: { workflow, runs, pending }, startedAt, isComplete, runIds };
}

function nullIfGone(error: unknown): null {
  if (isGone(error)) return null;
  throw error;
}

/** By name: the SDK is loaded only when a command needs it. */
function isGone(error: unknown): boolean {
  return (error as Error).name === 'WorkflowNotFoundError';
}

function isHidden({ events }: CostedRun): boolean {
  return events.flatMap(payloadsOf).some((given) => given?.payloads?.some(isEncrypted));
}

function runBefore({ events }: CostedRun): string | null | undefined {
  return events[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId;
}

async function readOneRun(
  client: Client,
  workflowId: string,
  runId: string,
): Promise<{ run: CostedRun; pending: PendingActivity[] }> {
  // What is pending is asked for first: what ended meanwhile is in the history.
  const described = await lenientWorkflowClient(client).getHandle(workflowId, runId).describe();
  const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  const hidden = [...(events ?? []).flatMap(payloadsOf), ...heartbeatsOf(described)];
  await Promise.all(hidden.map((payloads) => decode(client, payloads)));
  return { run: { events: events ?? [], bytes: described.historySize ?? 0 }, pending: pendingOf(described) };
}

/** What an estimate reads of an event. */
function payloadsOf(event: CostEvent): Given[] {
  return [
    event.activityTaskScheduledEventAttributes?.input,
    event.activityTaskCompletedEventAttributes?.result,
    event.workflowExecutionCompletedEventAttributes?.result,
  ];
}

function heartbeatsOf({ raw }: WorkflowExecutionDescription): Given[] {
  return (raw.pendingActivities ?? []).map(({ heartbeatDetails }) => heartbeatDetails);
}

/** In its place; what has no key here stays hidden, and counts as nothing told. */
async function decode({ options }: Client, given: Given): Promise<void> {
  if (!given?.payloads) return;
  const { payloadCodecs } = options.loadedDataConverter;
  let { payloads } = given;
  for (const codec of payloadCodecs) payloads = await codec.decode(payloads).catch(() => given.payloads!);
  given.payloads = payloads;
}

function pendingOf({ raw }: WorkflowExecutionDescription): PendingActivity[] {
  return (raw.pendingActivities ?? []).map(({ activityId, attempt, heartbeatDetails }) => ({
    id: activityId ?? '',
    attempt: attempt ?? 1,
    details: jsonIn(heartbeatDetails),
  }));
}
