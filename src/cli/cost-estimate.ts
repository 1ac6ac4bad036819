/**
 * The price list: what a workflow has cost on Temporal, estimated from its histories by the rules of `COST_SOURCE`. No
 * worker is asked. Events and bytes are exact; what has no trace in a history is left out.
 */
import type { Client, WorkflowHandle } from '@temporalio/client';
import { RENEW_EARLY_MS } from '../agent-job/poll-plan.js';
import { listEarlierRuns, readRun as readNewestRun } from '../client/agent-job/run-record.js';
import type { ProjectRun } from '../client/project-runs.js';
import { temporalCall } from '../client/temporal-call.js';
import { REQUEST_QUEUE_WORKFLOW } from '../contract.js';
import { isObject } from '../contract/shared.js';
import { lenientWorkflowClient } from '../temporal/workflow-clients.js';
import { isEncrypted } from '../temporal/payload-codec.js';
import type { Session } from './session.js';

export const COST_SOURCE = 'https://docs.temporal.io/cloud/actions';

/** A long job has many pages of history. */
const HISTORIES_MS = 60_000;
const POLL = 'pollJob';
const WRITES: readonly string[] = ['createJob', 'sendMessage'];
const ASK_TURN = 'askTurn';
/** The SDK sends a heartbeat at most after this share of the time-out, and at least once a minute. */
const THROTTLE_SHARE = 0.8;
const THROTTLE_MS = 60_000;

const NOTE = {
  unseen:
    'not counted, as they leave no trace: queries, rejected updates, what an attempt of a worker that died had sent',
  hidden:
    'reads, heartbeats and turns are not counted in full: ' +
    'they are encrypted, and PAYLOAD_KEYS_FILE has no key for them',
  earlier: 'earlier runs are no longer kept',
  deleted: 'what Temporal has deleted since it was listed is not counted',
};

export type CostedWorkflow = ProjectRun['workflow'];

/** What is billed, by kind, in the order in which people read it. */
const NO_ACTIONS = {
  // A child costs its parent one more than any other start.
  starts: 0,
  activities: 0,
  // Attempts after the first: reads, where each is an attempt, or questions whose turn it is to write.
  activityRetries: 0,
  // One fence before each write, one that takes it back where the write was throttled, and renewals of a lease.
  heartbeats: 0,
  timers: 0,
  signals: 0,
  updates: 0,
  // To join a queue and to ask it for the place, or to leave it. The turns that it gives are signals.
  queueMessages: 0,
  // A turn that was used, or was not, is reported.
  turnReports: 0,
  searchAttributeUpserts: 0,
  memoUpserts: 0,
};

/** What a workflow has cost so far. */
export interface Cost {
  runs: number;
  historyEvents: number;
  historyBytes: number;
  /** Reads of the upstream's job that history or a heartbeat tells. */
  reads: number;
  actions: typeof NO_ACTIONS;
  billableActions: number;
}

export type CostEvent = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];
type Scheduled = NonNullable<CostEvent['activityTaskScheduledEventAttributes']>;
/** What an activity was given, returned or told. */
type Given = Scheduled['input'];

/** One run of the chain that continue-as-new makes. */
export interface CostedRun {
  events: readonly CostEvent[];
  /** Size of its history as the server tells it. */
  bytes: number;
  /** Activities that are under way or wait for their next attempt, with what their last heartbeat told. */
  pending: readonly { id: string; attempt: number; details?: Record<string, unknown> }[];
}

/** What a chain of runs has cost, the newest run first. */
export function estimateCost(workflow: CostedWorkflow, runs: readonly CostedRun[]): Cost {
  const cost = runs.map((run) => costOfRun(workflow, run)).reduce(addCosts);
  const { polls } = jsonIn(runs[0]?.events.at(-1)?.workflowExecutionCompletedEventAttributes?.result);
  return typeof polls === 'number' ? { ...cost, reads: polls } : cost;
}

/** What two workflows have cost together. */
export function addCosts(one: Cost, other: Cost): Cost {
  const { actions, ...counts } = one;
  const { actions: otherActions, ...otherCounts } = other;
  return { ...addCounts(counts, otherCounts), actions: addCounts(actions, otherActions) };
}

function addCounts<T extends Record<keyof T, number>>(one: T, other: T): T {
  return Object.fromEntries(Object.keys(one).map((name) => [name, one[name as keyof T] + other[name as keyof T]])) as T;
}

function costOfRun(workflow: CostedWorkflow, { events, bytes, pending }: CostedRun): Cost {
  const activities = activitiesOf(events, pending);
  const counted = countEvents(events, workflow);
  const actions = {
    ...counted,
    activities: activities.length,
    activityRetries: sum(activities.map(({ attempt }) => Math.max(0, attempt - 1))),
    heartbeats: sum(activities.map(heartbeatsOf)),
    queueMessages: counted.queueMessages + sum(activities.map(joinMessages)),
    turnReports: activities.filter(hasReported).length,
  };
  return {
    runs: 1,
    historyEvents: events.length,
    historyBytes: bytes,
    reads: sum(activities.map(readsOf)),
    actions,
    billableActions: sum(Object.values(actions)),
  };
}

/** What each event stands for alone. What two workflows say to each other counts with one of them, never a queue. */
function countEvents(events: readonly CostEvent[], workflow: CostedWorkflow): Cost['actions'] {
  const count = (attributes: keyof CostEvent) => events.filter((event) => event[attributes] != null).length;
  const actions = {
    ...NO_ACTIONS,
    timers: count('timerStartedEventAttributes'),
    searchAttributeUpserts: count('upsertWorkflowSearchAttributesEventAttributes'),
    memoUpserts: count('workflowPropertiesModifiedEventAttributes'),
  };
  // The request that starts a queue counts with whoever joins it.
  if (workflow === REQUEST_QUEUE_WORKFLOW) return { ...actions, starts: events.filter(continuedFrom).length };
  return {
    ...actions,
    starts:
      count('workflowExecutionStartedEventAttributes') + count('startChildWorkflowExecutionInitiatedEventAttributes'),
    signals: count('workflowExecutionSignaledEventAttributes'),
    updates: count('workflowExecutionUpdateAcceptedEventAttributes'),
    queueMessages: count('signalExternalWorkflowExecutionInitiatedEventAttributes'),
  };
}

function continuedFrom(event: CostEvent | undefined): string | null | undefined {
  return event?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId;
}

/** One activity of a history. Times in milliseconds. */
interface Activity {
  name: string;
  scheduled: Scheduled;
  /** The attempt that ended it, or is under way; 0 where history does not tell. */
  attempt: number;
  scheduledAt: number;
  startedAt: number | null;
  endedAt: number | null;
  /** What its last heartbeat told, and it returned; empty where there is none, or a codec hides it. */
  details: Record<string, unknown>;
  result: Record<string, unknown>;
}

/** All activities of a run. What is neither pending nor ended went with it, as where it was terminated. */
function activitiesOf(events: readonly CostEvent[], pending: CostedRun['pending']): Activity[] {
  const activities = new Map<string, Activity>();
  for (const event of events) {
    const { activityTaskScheduledEventAttributes: scheduled, activityTaskStartedEventAttributes: started } = event;
    const at = millisOf(event.eventTime);
    if (scheduled) {
      const unknown = { attempt: 0, startedAt: null, endedAt: null, details: {}, result: {} };
      const name = scheduled.activityType?.name ?? '';
      activities.set(String(event.eventId), { name, scheduled, scheduledAt: at, ...unknown });
    }
    const activity = activities.get(String((started ?? endOf(event))?.scheduledEventId));
    if (!activity) continue;
    if (started) Object.assign(activity, { attempt: started.attempt ?? 1, startedAt: at });
    else activity.endedAt ??= at;
    activity.result = jsonIn(event.activityTaskCompletedEventAttributes?.result);
  }
  const lastAt = millisOf(events.at(-1)?.eventTime);
  return [...activities.values()].map((activity) => {
    if (activity.endedAt !== null) return activity;
    const found = pending.find(({ id }) => id === activity.scheduled.activityId);
    return found ? { ...activity, ...found } : { ...activity, endedAt: lastAt };
  });
}

function endOf(event: CostEvent) {
  return (
    event.activityTaskCancelRequestedEventAttributes ??
    event.activityTaskCanceledEventAttributes ??
    event.activityTaskCompletedEventAttributes ??
    event.activityTaskFailedEventAttributes ??
    event.activityTaskTimedOutEventAttributes
  );
}

/** Of a batch of polls: by its result, else by its last heartbeat and its attempts. It began with one at least. */
function readsOf({ name, attempt, details, result }: Activity): number {
  if (name !== POLL) return 0;
  return numberIn(result['reads']) || Math.max(1, attempt, numberIn(details['polls']));
}

/** The fences of a write; else what is told, or what a lease or the SDK makes of the time. */
function heartbeatsOf(activity: Activity): number {
  const { name, scheduled, result, details, scheduledAt, startedAt, endedAt } = activity;
  if (WRITES.includes(name)) return fencesOf(activity);
  if (endedAt === null) return numberIn(details['heartbeats']);
  if (name === POLL && result['reads'] !== undefined) return numberIn(result['heartbeats']);
  const timeoutMs = millisOf(scheduled.heartbeatTimeout);
  if (timeoutMs === 0) return 0;
  if (name === POLL) return Math.floor((endedAt - scheduledAt) / (timeoutMs - RENEW_EARLY_MS));
  const ranMs = startedAt === null ? 0 : endedAt - startedAt;
  return Math.floor(ranMs / Math.min(THROTTLE_SHARE * timeoutMs, THROTTLE_MS));
}

function fencesOf({ attempt, result }: Activity): number {
  const isHeld = result['isHeld'] === true;
  const hasNoFence = attempt > 0 && (isHeld || result['kind'] === 'notDelivered');
  const isTakenBack = result['kind'] === 'throttled' && !isHeld;
  return attempt - (hasNoFence ? 1 : 0) + (isTakenBack ? 1 : 0);
}

/** To join is a signal and a query. */
function joinMessages({ name, result }: Activity): number {
  const hasJoined = WRITES.includes(name) ? Boolean(result['queued']) : name === ASK_TURN && 'askedAt' in result;
  return hasJoined ? 2 : 0;
}

/** Where it joins again, it reports its turn with that. */
function hasReported({ name, scheduled, result }: Activity): boolean {
  if (!WRITES.includes(name) || jsonIn(scheduled.input)['turn'] === undefined) return false;
  return result['kind'] !== undefined && result['kind'] !== 'throttled';
}

/** When an event happened, or how long a duration is, in milliseconds. */
function millisOf(time: Scheduled['heartbeatTimeout']): number {
  return Number(time?.seconds ?? 0) * 1_000 + (time?.nanos ?? 0) / 1e6;
}

/** The object in it; an empty one where there is none, or a codec hides it. */
function jsonIn(given: Given): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(given?.payloads?.[0]?.data ?? undefined));
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function numberIn(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}

/** The runs of one workflow id. */
export interface CostTarget {
  workflowId: string;
  workflow: CostedWorkflow;
  /** The newest run of each chain, the newest chain first; default: all of a job that Temporal still has. */
  runIds?: readonly string[];
  /** Leaves out a chain that began before this time, in milliseconds; of a queue, which lives for years, none. */
  since?: number;
  /** Temporal listed it: where it is gone since, that is no error. */
  isListed?: boolean;
}

/** What was read; without a cost where nothing is left, or all of it is too old. */
interface CostRead {
  cost: Cost | null;
  /** What the cost leaves out. */
  notes: readonly string[];
}

type ReadRun = CostedRun & { runId: string; isHidden: boolean };

/** Reads what Temporal still has of a workflow's runs. */
export function readCost({ jobs: { client }, signal }: Pick<Session, 'jobs' | 'signal'>, target: CostTarget) {
  return temporalCall(client, { signal, timeoutMs: HISTORIES_MS }, async (): Promise<CostRead> => {
    const { workflow, since = 0 } = target;
    const isQueue = workflow === REQUEST_QUEUE_WORKFLOW;
    // A follow-up to an ended job makes another chain, and so does a start after a refused create.
    const chains: ReadRun[][] = [];
    for (const runId of target.runIds ?? (await newestRunIds(client, target.workflowId))) {
      // The list may lag, and name a run that has continued as new.
      if (!chains.flat().some((run) => run.runId === runId)) chains.push(await readChain(client, target, runId));
    }
    const runs = chains.flat();
    if (runs.length === 0) return { cost: null, notes: [NOTE.deleted] };
    const firstOf = (chain: ReadRun[]) => chain.at(-1)?.events[0];
    const counted = chains.filter((chain) => isQueue || millisOf(firstOf(chain)?.eventTime) >= since);
    const costs = counted.filter(({ length }) => length > 0).map((chain) => estimateCost(workflow, chain));
    if (costs.length === 0) return { cost: null, notes: [] };
    const isWhole = chains.every((chain) => chain.length > 0 && (isQueue || !continuedFrom(firstOf(chain))));
    const earlier = isWhole ? [] : [NOTE.earlier];
    const hidden = runs.some(({ isHidden }) => isHidden) ? [NOTE.hidden] : [];
    return { cost: costs.reduce(addCosts), notes: [NOTE.unseen, ...earlier, ...hidden] };
  }).catch((error: Error): CostRead => {
    if (target.isListed && error.name === 'JobNotFoundError') return { cost: null, notes: [NOTE.deleted] };
    throw error;
  });
}

/** Of each chain, the newest chain first. */
async function newestRunIds(client: Client, workflowId: string): Promise<string[]> {
  for (;;) {
    const newest = await readNewestRun(client, workflowId);
    const earlier = await listEarlierRuns(client, newest);
    if (earlier !== null) return [newest.runId, ...earlier.all];
  }
}

/** From its newest run back to the first one that is still kept; of a queue that run alone. */
async function readChain(client: Client, { workflowId, workflow }: CostTarget, newestRunId: string) {
  const runs: ReadRun[] = [];
  for (let runId: string | null | undefined = newestRunId; runId;) {
    const run: ReadRun | null = await readRun(client, workflowId, runId).catch((error: Error) => {
      if (error.name === 'WorkflowNotFoundError') return null;
      throw error;
    });
    if (run === null) break;
    runs.push(run);
    runId = workflow === REQUEST_QUEUE_WORKFLOW ? null : continuedFrom(run.events[0]);
  }
  return runs;
}

async function readRun(client: Client, workflowId: string, runId: string): Promise<ReadRun> {
  // What is pending is asked for first: what ended meanwhile is in the history.
  const { raw, historySize = 0 } = await lenientWorkflowClient(client).getHandle(workflowId, runId).describe();
  const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  const pending = raw.pendingActivities ?? [];
  const told: Given[] = (events ?? []).flatMap((event) => [
    event.activityTaskScheduledEventAttributes?.input,
    event.activityTaskCompletedEventAttributes?.result,
    event.workflowExecutionCompletedEventAttributes?.result,
  ]);
  for (const given of [...told, ...pending.map(({ heartbeatDetails }) => heartbeatDetails)])
    await decode(client, given);
  return {
    runId,
    events: events ?? [],
    bytes: historySize,
    pending: pending.map(({ activityId, attempt, heartbeatDetails }) => {
      return { id: activityId ?? '', attempt: attempt ?? 1, details: jsonIn(heartbeatDetails) };
    }),
    isHidden: told.some((given) => given?.payloads?.some(isEncrypted)),
  };
}

/** In its place; what has no key here stays hidden, and counts as nothing told. */
async function decode({ options }: Client, given: Given): Promise<void> {
  if (!given?.payloads) return;
  for (const codec of options.loadedDataConverter.payloadCodecs) {
    given.payloads = await codec.decode(given.payloads).catch(() => given.payloads!);
  }
}
