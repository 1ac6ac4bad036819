/** Counts what a workflow has cost on Temporal, from its histories. Rules: https://docs.temporal.io/cloud/actions */
import {
  AGENT_JOB_WORKFLOW,
  RECURRING_JOB_LOCK_WORKFLOW,
  RECURRING_JOB_WORKFLOW,
  REQUEST_QUEUE_WORKFLOW,
  VISITOR_EXPORT_WORKFLOW,
} from '../contract.js';
import { activitiesOf, millisOf, pollsOfResult, type ActivityRecord, type CostEvent } from './cost-history.js';
import { isWatch, watchCost } from './watch-cost.js';

/** The workflows whose cost can be told. */
export const COSTED_WORKFLOWS = [
  AGENT_JOB_WORKFLOW,
  REQUEST_QUEUE_WORKFLOW,
  RECURRING_JOB_WORKFLOW,
  RECURRING_JOB_LOCK_WORKFLOW,
  VISITOR_EXPORT_WORKFLOW,
] as const;
export type CostedWorkflow = (typeof COSTED_WORKFLOWS)[number];

/** One run of the chain that continue-as-new makes. */
export interface CostedRun {
  events: readonly CostEvent[];
  /** Size of its history as the server tells it. */
  bytes: number;
}

/** An activity that is under way or waits for its next attempt. */
export interface PendingActivity {
  id: string;
  attempt: number;
  /** What its last heartbeat told. */
  details?: Record<string, unknown>;
}

/** What the cost is estimated from. */
export interface CostInput {
  /** Default `agentJob`. */
  workflow?: CostedWorkflow;
  /** The newest run first. */
  runs: readonly CostedRun[];
  pending: readonly PendingActivity[];
  /** When the histories were read, in milliseconds of the server's clock; default now. */
  readAt?: number;
}

/** Billable actions by kind. */
interface ActionCounts {
  starts: number;
  activities: number;
  /** Attempts after the first: reads, where each is an attempt, or questions whose turn it is to write. */
  activityRetries: number;
  /** One fence before each write, one that takes it back where the write was throttled, and renewals of a lease. */
  heartbeats: number;
  timers: number;
  signals: number;
  updates: number;
  /** To join a queue and to ask it for the place, or to leave it. The turns that it gives are signals. */
  queueMessages: number;
  /** A turn that was used, or was not, is reported. */
  turnReports: number;
  searchAttributeUpserts: number;
  memoUpserts: number;
  /** A child costs one more than any other start. */
  childWorkflows: number;
  /** Signals to other workflows than a queue. */
  sentSignals: number;
}

/** What a job has cost so far. */
export interface JobCost {
  runs: number;
  historyEvents: number;
  historyBytes: number;
  /** Reads of the upstream's job, the one that is under way included. */
  reads: number;
  actions: ActionCounts;
  billableActions: number;
}

const WRITES: readonly string[] = ['createJob', 'sendMessage'];
const ASK_TURN = 'askTurn';
/** The SDK sends a heartbeat at most after this share of the time-out, and at least once a minute. */
const THROTTLE = { share: 0.8, mostMs: 60_000 };
/** Exports heartbeat so often; the first one leaves at once. */
const EXPORT_BEAT_MS = 2_000;

/**
 * Estimates a workflow's cost. Events and bytes are exact. Actions leave out what has no trace in history: queries,
 * rejected updates, and what died with a worker.
 */
export function estimateCost(input: CostInput): JobCost {
  const { workflow = AGENT_JOB_WORKFLOW, runs, pending, readAt = Date.now() } = input;
  const events = runs.flatMap((run) => run.events);
  const pendingById = new Map(pending.map((activity) => [activity.id, activity]));
  // Ids of activities are unique in a run; what is pending is of the newest.
  const activities = runs.flatMap((run, index) => activitiesIn(run, index === 0 ? pendingById : new Map()));
  const watches = activities
    .filter(isWatch)
    .map((watch) => ({ ...watchCost(watch, readAt), isPending: watch.isPending }));
  const others = activities.filter((activity) => !isWatch(activity));
  const ended = watches.filter(({ isPending }) => !isPending);
  const readsOfEnded = pollsOfResult(runs[0]?.events ?? []) ?? sum(ended, ({ reads }) => reads);
  const actions: ActionCounts = {
    ...countEvents(events, workflow),
    activities: activities.length,
    activityRetries: sum(others, ({ attempt }) => Math.max(0, attempt - 1)) + sum(watches, ({ retries }) => retries),
    heartbeats: sum(others, heartbeatsOf) + sum(watches, ({ heartbeats }) => heartbeats),
    queueMessages: sum(others, joinMessages) + leaveMessages(events, workflow),
    turnReports: count(others, hasReported),
  };
  return {
    runs: runs.length,
    historyEvents: events.length,
    historyBytes: sum(runs, ({ bytes }) => bytes),
    reads: readsOfEnded + sum(watches, ({ reads, isPending }) => (isPending ? reads : 0)),
    actions,
    billableActions: sum(Object.values(actions), (n) => n),
  };
}

interface Activity extends ActivityRecord {
  isPending: boolean;
}

/** What is neither pending nor ended went with its run, as where that was terminated. */
function activitiesIn({ events }: CostedRun, pending: ReadonlyMap<string, PendingActivity>): Activity[] {
  const lastAt = millisOf(events.at(-1)?.eventTime);
  return activitiesOf(events).map((activity) => {
    const found = activity.endedAt === null ? pending.get(activity.id) : undefined;
    const endedAt = found ? null : (activity.endedAt ?? lastAt);
    return { ...activity, ...found, endedAt, isPending: found !== undefined };
  });
}

type EventCounts = Omit<
  ActionCounts,
  'activities' | 'activityRetries' | 'heartbeats' | 'queueMessages' | 'turnReports'
>;

/** What each event stands for alone. What two workflows say to each other counts with one of them. */
function countEvents(events: readonly CostEvent[], workflow: CostedWorkflow): EventCounts {
  const isServant = workflow === REQUEST_QUEUE_WORKFLOW || workflow === RECURRING_JOB_LOCK_WORKFLOW;
  const starts = events.flatMap(({ workflowExecutionStartedEventAttributes: start }) => start ?? []);
  const counts = isServant || workflow === AGENT_JOB_WORKFLOW ? 0 : 1;
  return {
    // The request that starts a queue counts with whoever joins it.
    starts: workflow === REQUEST_QUEUE_WORKFLOW ? count(starts, isContinued) : starts.length,
    timers: countOf(events, 'timerStartedEventAttributes'),
    signals: isServant ? 0 : countOf(events, 'workflowExecutionSignaledEventAttributes'),
    updates: countOf(events, 'workflowExecutionUpdateAcceptedEventAttributes'),
    searchAttributeUpserts: countOf(events, 'upsertWorkflowSearchAttributesEventAttributes'),
    memoUpserts: countOf(events, 'workflowPropertiesModifiedEventAttributes'),
    childWorkflows: countOf(events, 'startChildWorkflowExecutionInitiatedEventAttributes'),
    sentSignals: counts * countOf(events, 'signalExternalWorkflowExecutionInitiatedEventAttributes'),
  };
}

function isContinued({ continuedExecutionRunId }: { continuedExecutionRunId?: string | null }): boolean {
  return Boolean(continuedExecutionRunId);
}

function leaveMessages(events: readonly CostEvent[], workflow: CostedWorkflow): number {
  if (workflow !== AGENT_JOB_WORKFLOW) return 0;
  return countOf(events, 'signalExternalWorkflowExecutionInitiatedEventAttributes');
}

/** Of a write, its fences; of an export's activity, what the SDK sends of its beats. */
function heartbeatsOf(activity: Activity): number {
  const { name, attempt, heartbeatTimeoutMs, startedAt, endedAt } = activity;
  if (WRITES.includes(name)) return attempt - (hasNoFence(activity) ? 1 : 0) + (isTakenBack(activity) ? 1 : 0);
  if (heartbeatTimeoutMs === 0 || startedAt === null || endedAt === null) return 0;
  const lastMs = endedAt - startedAt - EXPORT_BEAT_MS;
  const throttleMs = Math.min(THROTTLE.share * heartbeatTimeoutMs, THROTTLE.mostMs);
  return lastMs < 0 ? 0 : 1 + Math.floor(lastMs / throttleMs);
}

/** It was not sent. */
function hasNoFence({ result, attempt }: Activity): boolean {
  return attempt > 0 && (result['isHeld'] === true || result['kind'] === 'notDelivered');
}

/** It was sent and throttled: its fence was taken back. */
function isTakenBack({ result }: Activity): boolean {
  return result['kind'] === 'throttled' && result['isHeld'] !== true;
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

function countOf(events: readonly CostEvent[], attributes: keyof CostEvent): number {
  return count(events, (event) => event[attributes] != null);
}

function count<T>(items: readonly T[], isCounted: (item: T) => boolean): number {
  return items.filter(isCounted).length;
}

function sum<T>(items: readonly T[], figure: (item: T) => number): number {
  return items.reduce((total, item) => total + figure(item), 0);
}

/** What all chains of runs of a workflow have cost together: each counts its own reads. */
export function estimateChains(chains: readonly { input: CostInput }[]): JobCost {
  return chains.map(({ input }) => estimateCost(input)).reduce(addCosts);
}

/** What two jobs have cost together. */
export function addCosts(one: JobCost, other: JobCost): JobCost {
  const { actions, ...counts } = one;
  const { actions: otherActions, ...otherCounts } = other;
  return { ...addCounts(counts, otherCounts), actions: addCounts(actions, otherActions) };
}

function addCounts<T extends Record<keyof T, number>>(one: T, other: T): T {
  return Object.fromEntries(Object.keys(one).map((name) => [name, one[name as keyof T] + other[name as keyof T]])) as T;
}
