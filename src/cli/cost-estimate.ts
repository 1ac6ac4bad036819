/** The price list: what a workflow's histories say that it has cost on Temporal, by the rules of `COST_SOURCE`. */
import type { WorkflowHandle } from '@temporalio/client';
import { RENEW_EARLY_MS } from '../agent-job/poll-plan.js';
import {
  AGENT_JOB_WORKFLOW,
  RECURRING_JOB_WORKFLOW,
  REQUEST_QUEUE_WORKFLOW,
  VISITOR_EXPORT_WORKFLOW,
} from '../contract.js';

export const COST_SOURCE = 'https://docs.temporal.io/cloud/actions';

/** The workflows whose cost can be told. */
export const COSTED_WORKFLOWS = [
  AGENT_JOB_WORKFLOW,
  REQUEST_QUEUE_WORKFLOW,
  RECURRING_JOB_WORKFLOW,
  VISITOR_EXPORT_WORKFLOW,
] as const;
export type CostedWorkflow = (typeof COSTED_WORKFLOWS)[number];

/** Kinds of billable actions, as people read them. */
export const ACTION_KINDS = {
  starts: 'starts',
  activities: 'activities',
  // Attempts after the first: reads, where each is an attempt, or questions whose turn it is to write.
  activityRetries: 'activity retries',
  // One fence before each write, one that takes it back where the write was throttled, and renewals of a lease.
  heartbeats: 'heartbeats',
  timers: 'timers',
  signals: 'signals',
  updates: 'updates',
  // To join a queue and to ask it for the place, or to leave it. The turns that it gives are signals.
  queueMessages: 'queue messages',
  // A turn that was used, or was not, is reported.
  turnReports: 'turn reports',
  searchAttributeUpserts: 'search attributes',
  memoUpserts: 'memo',
  // A child costs one more than any other start.
  childWorkflows: 'child workflows',
  // Signals to other workflows than a queue.
  sentSignals: 'sent signals',
} as const;
export type ActionKind = keyof typeof ACTION_KINDS;

/** What a job has cost so far. */
export interface JobCost {
  runs: number;
  historyEvents: number;
  historyBytes: number;
  /** Reads of the upstream's job that history or a heartbeat tells. */
  reads: number;
  actions: Record<ActionKind, number>;
  billableActions: number;
}

export type CostEvent = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];
/** What an activity was given, returned or told. */
export type Given = NonNullable<CostEvent['activityTaskScheduledEventAttributes']>['input'];
type Duration = NonNullable<CostEvent['activityTaskScheduledEventAttributes']>['heartbeatTimeout'];

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
  /** Of the newest run. */
  pending: readonly PendingActivity[];
}

const POLL = 'pollJob';
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
export function estimateCost({ workflow = AGENT_JOB_WORKFLOW, runs, pending }: CostInput): JobCost {
  const events = runs.flatMap((run) => run.events);
  const activities = runs.flatMap((run, index) => activitiesOf(run.events, index === 0 ? pending : []));
  const polls = activities.filter(({ name }) => name === POLL);
  const others = activities.filter(({ name }) => name !== POLL);
  const { polls: readsOfResult } = jsonIn(runs[0]?.events.at(-1)?.workflowExecutionCompletedEventAttributes?.result);
  const actions: JobCost['actions'] = {
    ...countEvents(events, workflow),
    activities: activities.length,
    activityRetries: sum(activities, ({ attempt }) => Math.max(0, attempt - 1)),
    heartbeats: sum(others, heartbeatsOf) + sum(polls, renewalsOf),
    turnReports: others.filter(hasReported).length,
  };
  actions.queueMessages += sum(others, joinMessages);
  return {
    runs: runs.length,
    historyEvents: events.length,
    historyBytes: sum(runs, ({ bytes }) => bytes),
    reads: typeof readsOfResult === 'number' ? readsOfResult : sum(polls, readsOf),
    actions,
    billableActions: sum(Object.values(actions), (n) => n),
  };
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

/** What each event stands for alone. What two workflows say to each other counts with one of them. */
function countEvents(
  events: readonly CostEvent[],
  workflow: CostedWorkflow,
): Omit<JobCost['actions'], 'activities' | 'activityRetries' | 'heartbeats' | 'turnReports'> {
  const count = (attributes: keyof CostEvent) => events.filter((event) => event[attributes] != null).length;
  const isServant = workflow === REQUEST_QUEUE_WORKFLOW;
  const isJob = workflow === AGENT_JOB_WORKFLOW;
  const sent = count('signalExternalWorkflowExecutionInitiatedEventAttributes');
  // The request that starts a queue counts with whoever joins it.
  const isContinued = (event: CostEvent) => event.workflowExecutionStartedEventAttributes?.continuedExecutionRunId;
  return {
    starts: isServant ? events.filter(isContinued).length : count('workflowExecutionStartedEventAttributes'),
    timers: count('timerStartedEventAttributes'),
    signals: isServant ? 0 : count('workflowExecutionSignaledEventAttributes'),
    updates: count('workflowExecutionUpdateAcceptedEventAttributes'),
    queueMessages: isJob ? sent : 0,
    searchAttributeUpserts: count('upsertWorkflowSearchAttributesEventAttributes'),
    memoUpserts: count('workflowPropertiesModifiedEventAttributes'),
    childWorkflows: count('startChildWorkflowExecutionInitiatedEventAttributes'),
    sentSignals: isServant || isJob ? 0 : sent,
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
function activitiesOf(events: readonly CostEvent[], pending: readonly PendingActivity[]): Activity[] {
  const activities = new Map<string, Activity>();
  for (const event of events) {
    const { activityTaskScheduledEventAttributes: scheduled, activityTaskStartedEventAttributes: started } = event;
    if (scheduled) activities.set(String(event.eventId), newActivity(event));
    const ended = endOf(event);
    const activity = activities.get(String((started ?? ended)?.scheduledEventId));
    if (!activity) continue;
    if (started) Object.assign(activity, { attempt: started.attempt ?? 1, startedAt: millisOf(event.eventTime) });
    else activity.endedAt ??= millisOf(event.eventTime);
    const { activityTaskCompletedEventAttributes: completed } = event;
    if (completed) activity.result = jsonIn(completed.result);
  }
  const lastAt = millisOf(events.at(-1)?.eventTime);
  return [...activities.values()].map((activity) => {
    const found = activity.endedAt === null ? pending.find(({ id }) => id === activity.id) : undefined;
    return found ? { ...activity, ...found } : { ...activity, endedAt: activity.endedAt ?? lastAt };
  });
}

function newActivity({ eventTime, activityTaskScheduledEventAttributes: given }: CostEvent): Activity {
  return {
    id: given?.activityId ?? '',
    name: given?.activityType?.name ?? '',
    attempt: 0,
    scheduledAt: millisOf(eventTime),
    startedAt: null,
    endedAt: null,
    heartbeatTimeoutMs: millisOf(given?.heartbeatTimeout),
    input: jsonIn(given?.input),
    details: {},
    result: {},
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
  if (result['reads'] !== undefined || endedAt === null)
    return numberIn((endedAt === null ? details : result)['heartbeats']);
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
  const throttleMs = Math.min(THROTTLE.share * heartbeatTimeoutMs, THROTTLE.mostMs);
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
export function millisOf(time: Duration): number {
  return Number(time?.seconds ?? 0) * 1_000 + (time?.nanos ?? 0) / 1e6;
}

/** The object in it; an empty one where there is none, or a codec hides it. */
export function jsonIn(given: Given): Record<string, unknown> {
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
