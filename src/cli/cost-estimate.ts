/**
 * The price list: what a workflow has cost on Temporal, estimated from its histories by the rules of `COST_SOURCE`. No
 * worker is asked. Events and bytes are exact; what has no trace in a history is left out.
 */
import type { Client, WorkflowHandle } from '@temporalio/client';
import { RENEW_EARLY_MS } from '../agent-job/poll-plan.js';
import { listEarlierRuns, readRun as readNewestRun } from '../client/agent-job/run-record.js';
import type { ProjectRun } from '../client/project-runs.js';
import { temporalCall } from '../client/temporal-call.js';
import { AGENT_JOB_WORKFLOW, REQUEST_QUEUE_WORKFLOW } from '../contract.js';
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
const THROTTLE = { share: 0.8, maxMs: 60_000 };
/** Exports heartbeat so often; the first one leaves at once. */
const EXPORT_BEAT_MS = 2_000;

export type CostedWorkflow = ProjectRun['workflow'];

/** What is billed, by kind, in the order in which people read it. */
const NO_ACTIONS = {
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
  // A child costs one more than any other start.
  childWorkflows: 0,
  // Signals to other workflows than a queue.
  sentSignals: 0,
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
  const polls = activities.filter(({ name }) => name === POLL);
  const others = activities.filter(({ name }) => name !== POLL);
  const actions = {
    ...countEvents(events, workflow),
    activities: activities.length,
    activityRetries: sum(activities, ({ attempt }) => Math.max(0, attempt - 1)),
    heartbeats: sum(others, heartbeatsOf) + sum(polls, renewalsOf),
    turnReports: others.filter(hasReported).length,
  };
  actions.queueMessages += sum(others, joinMessages);
  return {
    runs: 1,
    historyEvents: events.length,
    historyBytes: bytes,
    reads: sum(polls, readsOf),
    actions,
    billableActions: sum(Object.values(actions), (count) => count),
  };
}

/** What each event stands for alone. What two workflows say to each other counts with one of them. */
function countEvents(events: readonly CostEvent[], workflow: CostedWorkflow): Cost['actions'] {
  const count = (attributes: keyof CostEvent) => events.filter((event) => event[attributes] != null).length;
  const isQueue = workflow === REQUEST_QUEUE_WORKFLOW;
  const isJob = workflow === AGENT_JOB_WORKFLOW;
  const sent = count('signalExternalWorkflowExecutionInitiatedEventAttributes');
  // The request that starts a queue counts with whoever joins it.
  const isContinued = (event: CostEvent) => event.workflowExecutionStartedEventAttributes?.continuedExecutionRunId;
  return {
    ...NO_ACTIONS,
    starts: isQueue ? events.filter(isContinued).length : count('workflowExecutionStartedEventAttributes'),
    timers: count('timerStartedEventAttributes'),
    signals: isQueue ? 0 : count('workflowExecutionSignaledEventAttributes'),
    updates: count('workflowExecutionUpdateAcceptedEventAttributes'),
    queueMessages: isJob ? sent : 0,
    searchAttributeUpserts: count('upsertWorkflowSearchAttributesEventAttributes'),
    memoUpserts: count('workflowPropertiesModifiedEventAttributes'),
    childWorkflows: count('startChildWorkflowExecutionInitiatedEventAttributes'),
    sentSignals: isQueue || isJob ? 0 : sent,
  };
}

/** One activity of a history. Times in milliseconds. */
interface Activity {
  id: string;
  name: string;
  /** The attempt that ended it, or is under way; 0 where history does not tell. */
  attempt: number;
  scheduledAt: number;
  startedAt: number | null;
  endedAt: number | null;
  heartbeatTimeoutMs: number;
  /** What it was given, told by its last heartbeat, and returned; empty where there is none, or a codec hides it. */
  input: Record<string, unknown>;
  details: Record<string, unknown>;
  result: Record<string, unknown>;
}

/** All activities of a run. What is neither pending nor ended went with it, as where it was terminated. */
function activitiesOf(events: readonly CostEvent[], pending: CostedRun['pending']): Activity[] {
  const activities = new Map<string, Activity>();
  for (const event of events) {
    const { activityTaskScheduledEventAttributes: scheduled, activityTaskStartedEventAttributes: started } = event;
    if (scheduled) activities.set(String(event.eventId), newActivity(scheduled, millisOf(event.eventTime)));
    const activity = activities.get(String((started ?? endOf(event))?.scheduledEventId));
    if (!activity) continue;
    if (started) Object.assign(activity, { attempt: started.attempt ?? 1, startedAt: millisOf(event.eventTime) });
    else activity.endedAt ??= millisOf(event.eventTime);
    activity.result = jsonIn(event.activityTaskCompletedEventAttributes?.result);
  }
  const lastAt = millisOf(events.at(-1)?.eventTime);
  return [...activities.values()].map((activity) => {
    const found = activity.endedAt === null ? pending.find(({ id }) => id === activity.id) : undefined;
    return found ? { ...activity, ...found } : { ...activity, endedAt: activity.endedAt ?? lastAt };
  });
}

function newActivity({ activityId, activityType, heartbeatTimeout, input }: Scheduled, scheduledAt: number): Activity {
  return {
    id: activityId ?? '',
    name: activityType?.name ?? '',
    ...{ attempt: 0, scheduledAt, startedAt: null, endedAt: null },
    heartbeatTimeoutMs: millisOf(heartbeatTimeout),
    ...{ input: jsonIn(input), details: {}, result: {} },
  };
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
function readsOf({ attempt, details, result }: Activity): number {
  return numberIn(result['reads']) || Math.max(1, attempt, numberIn(details['polls']));
}

/** The heartbeats of a batch of polls. One that was cut short told nobody how many they were: its lease does. */
function renewalsOf({ result, details, heartbeatTimeoutMs, scheduledAt, endedAt }: Activity): number {
  if (endedAt === null) return numberIn(details['heartbeats']);
  if (result['reads'] !== undefined) return numberIn(result['heartbeats']);
  return heartbeatTimeoutMs === 0 ? 0 : Math.floor((endedAt - scheduledAt) / (heartbeatTimeoutMs - RENEW_EARLY_MS));
}

/** Of a write, its fences; of an export's activity, what the SDK sends of its beats. */
function heartbeatsOf({ name, attempt, result, heartbeatTimeoutMs, startedAt, endedAt }: Activity): number {
  if (WRITES.includes(name)) {
    const isHeld = result['isHeld'] === true;
    const hasNoFence = attempt > 0 && (isHeld || result['kind'] === 'notDelivered');
    const isTakenBack = result['kind'] === 'throttled' && !isHeld;
    return attempt - (hasNoFence ? 1 : 0) + (isTakenBack ? 1 : 0);
  }
  if (heartbeatTimeoutMs === 0 || startedAt === null || endedAt === null) return 0;
  const lastMs = endedAt - startedAt - EXPORT_BEAT_MS;
  const throttleMs = Math.min(THROTTLE.share * heartbeatTimeoutMs, THROTTLE.maxMs);
  return lastMs < 0 ? 0 : 1 + Math.floor(lastMs / throttleMs);
}

/** To join is a signal and a query. */
function joinMessages({ name, result }: Activity): number {
  const hasJoined = WRITES.includes(name) ? Boolean(result['queued']) : name === ASK_TURN && 'askedAt' in result;
  return hasJoined ? 2 : 0;
}

/** Where it joins again, it reports its turn with that. */
function hasReported({ name, input, result }: Activity): boolean {
  if (!WRITES.includes(name) || input['turn'] === undefined) return false;
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
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function numberIn(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}

function sum<T>(items: readonly T[], figure: (item: T) => number): number {
  return items.reduce((total, item) => total + figure(item), 0);
}

/** The runs of one workflow id. */
export interface CostTarget {
  workflowId: string;
  workflow: CostedWorkflow;
  /** The newest run of each chain, the newest chain first; default: all of a job that Temporal still has. */
  runIds?: readonly string[];
  /** Of these runs alone: a queue that lives for years is one chain. */
  isAlone?: boolean;
}

/** What was read, and whether Temporal still has all of it. */
export interface CostRead {
  /** The newest first. A follow-up to an ended job makes another chain, and so does a start after a refused create. */
  chains: { cost: Cost; startedAt: number }[];
  isComplete: boolean;
  /** Whether something that tells of reads and turns stayed encrypted. */
  isHidden: boolean;
}

type ReadRun = CostedRun & { runId: string; isHidden: boolean };

/** Reads what Temporal still has of a workflow's runs; no chain where it has deleted all of them since. */
export function readCost({ jobs: { client }, signal }: Pick<Session, 'jobs' | 'signal'>, target: CostTarget) {
  return temporalCall(client, { signal, timeoutMs: HISTORIES_MS }, async (): Promise<CostRead> => {
    const chains: ReadRun[][] = [];
    let isComplete = true;
    for (const runId of target.runIds ?? (await newestRunIds(client, target.workflowId))) {
      // The list may lag, and name a run that has continued as new.
      if (chains.flat().some((run) => run.runId === runId)) continue;
      const { runs, isWhole } = await readChain(client, target, runId);
      isComplete &&= isWhole;
      if (runs.length > 0) chains.push(runs);
    }
    return {
      chains: chains.map((runs) => ({
        cost: estimateCost(target.workflow, runs),
        startedAt: millisOf(runs.at(-1)?.events[0]?.eventTime),
      })),
      isComplete,
      isHidden: chains.flat().some(({ isHidden }) => isHidden),
    };
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

/** From its newest run back to the first one that is still kept. */
async function readChain(client: Client, { workflowId, isAlone }: CostTarget, newestRunId: string) {
  const runs: ReadRun[] = [];
  for (let runId: string | null | undefined = newestRunId; runId;) {
    const run: ReadRun | null = await readRun(client, workflowId, runId).catch((error: Error) => {
      if (error.name === 'WorkflowNotFoundError') return null;
      throw error;
    });
    if (run === null) return { runs, isWhole: false };
    runs.push(run);
    runId = isAlone ? null : run.events[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId;
  }
  return { runs, isWhole: true };
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
