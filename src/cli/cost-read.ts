/** Reads from Temporal what a workflow's cost is estimated from. No worker is asked. */
import type { Client, WorkflowExecutionDescription, WorkflowHandle } from '@temporalio/client';
import { jsonIn, millisOf, type CostEvent, type Payloads } from './cost-history.js';
import type { CostedRun, CostedWorkflow, CostInput, PendingActivity } from './cost-estimate.js';
import type { Session } from './session.js';

/** A long job has many pages of history. */
const HISTORIES_MS = 60_000;

/** One chain of runs, by its newest run. */
export interface CostTarget {
  workflowId: string;
  /** Of the newest run; default: the newest of the id. */
  runId?: string | undefined;
  workflow: CostedWorkflow;
  /** Of this run alone: a queue that lives for years is one chain. */
  isAlone?: boolean;
}

/** What was read, and whether Temporal still has all of it. */
export interface CostRead {
  input: CostInput;
  isComplete: boolean;
  /** When the oldest run that is kept started, in milliseconds. */
  startedAt: number;
}

/** Reads everything that Temporal still has of a chain of runs. */
export async function readCost(
  { jobs, signal }: Pick<Session, 'jobs' | 'signal'>,
  { workflowId, runId, workflow, isAlone = false }: CostTarget,
): Promise<CostRead> {
  const { readRun } = await import('../client/agent-job/run-record.js');
  const { temporalCall } = await import('../client/temporal-call.js');
  return temporalCall(jobs.client, { signal, timeoutMs: HISTORIES_MS }, async () => {
    const newestRunId = runId ?? (await readRun(jobs.client, workflowId)).runId;
    const newest = await readOneRun(jobs.client, workflowId, newestRunId);
    const earlier = isAlone ? { runs: [], isComplete: true } : await readEarlier(jobs.client, workflowId, newest.run);
    const runs = [newest.run, ...earlier.runs];
    const startedAt = millisOf(runs.at(-1)?.events[0]?.eventTime);
    return { input: { workflow, runs, pending: newest.pending }, isComplete: earlier.isComplete, startedAt };
  });
}

/** From the run before the newest back to the first one that is still kept. */
async function readEarlier(
  client: Client,
  workflowId: string,
  newest: CostedRun,
): Promise<{ runs: CostedRun[]; isComplete: boolean }> {
  const runs: CostedRun[] = [];
  for (let runId = runBefore(newest); runId; runId = runBefore(runs.at(-1) ?? newest)) {
    try {
      runs.push((await readOneRun(client, workflowId, runId)).run);
    } catch (error) {
      if ((error as Error).name !== 'WorkflowNotFoundError') throw error;
      return { runs, isComplete: false };
    }
  }
  return { runs, isComplete: true };
}

function runBefore({ events }: CostedRun): string | null | undefined {
  return events[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId;
}

async function readOneRun(
  client: Client,
  workflowId: string,
  runId: string,
): Promise<{ run: CostedRun; pending: PendingActivity[] }> {
  const handle: WorkflowHandle = client.workflow.getHandle(workflowId, runId);
  // What is pending is asked for first: what ended meanwhile is in the history.
  const described = await handle.describe();
  const { events } = await handle.fetchHistory();
  const hidden = [...(events ?? []).flatMap(payloadsOf), ...heartbeatsOf(described)];
  await Promise.all(hidden.map((payloads) => decode(client, payloads)));
  return { run: { events: events ?? [], bytes: described.historySize ?? 0 }, pending: pendingOf(described) };
}

/** What an estimate reads of an event. */
function payloadsOf(event: CostEvent): (Payloads | null | undefined)[] {
  return [
    event.activityTaskScheduledEventAttributes?.input,
    event.activityTaskCompletedEventAttributes?.result,
    event.workflowExecutionCompletedEventAttributes?.result,
  ];
}

function heartbeatsOf({ raw }: WorkflowExecutionDescription): (Payloads | null | undefined)[] {
  return (raw.pendingActivities ?? []).map(({ heartbeatDetails }) => heartbeatDetails);
}

/** In its place; what has no key here stays hidden, and counts as nothing told. */
async function decode({ options }: Client, given: Payloads | null | undefined): Promise<void> {
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
