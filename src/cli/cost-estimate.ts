/** Counts what a job has cost on Temporal, from its histories. Rules: https://docs.temporal.io/cloud/actions */

/** The parts of a history event that count; Temporal's own protobuf events fit. */
interface CostEvent {
  eventId?: { toString(): string } | null;
  workflowExecutionStartedEventAttributes?: object | null;
  activityTaskScheduledEventAttributes?: {
    activityType?: { name?: string | null } | null;
    input?: Payloads | null;
  } | null;
  activityTaskStartedEventAttributes?: {
    scheduledEventId?: { toString(): string } | null;
    attempt?: number | null;
  } | null;
  activityTaskCompletedEventAttributes?: {
    scheduledEventId?: { toString(): string } | null;
    result?: Payloads | null;
  } | null;
  timerStartedEventAttributes?: object | null;
  workflowExecutionSignaledEventAttributes?: object | null;
  workflowExecutionUpdateAcceptedEventAttributes?: object | null;
  upsertWorkflowSearchAttributesEventAttributes?: object | null;
  workflowPropertiesModifiedEventAttributes?: object | null;
  signalExternalWorkflowExecutionInitiatedEventAttributes?: object | null;
}

interface Payloads {
  payloads?: { data?: Uint8Array | null }[] | null;
}

/** One run of the chain that continue-as-new makes. */
export interface CostedRun {
  events: readonly CostEvent[];
  /** Size of its history as the server tells it. */
  bytes: number;
}

/** An activity that is under way or waits for its next attempt. */
export interface PendingActivity {
  name: string;
  attempt: number;
}

/** What the cost is estimated from. */
export interface CostInput {
  runs: readonly CostedRun[];
  pending: readonly PendingActivity[];
  /** The job's own count of finished reads; null where no worker tells: then reads that were cut short are missing. */
  polls: number | null;
}

/** Billable actions by kind. */
interface ActionCounts {
  starts: number;
  activities: number;
  /** Attempts after the first: nearly all of them reads, or questions whose turn it is to write. */
  activityRetries: number;
  /** One fence before each write, and one that takes it back where the write was throttled. */
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

const WATCH = 'pollJob';
const WRITES: readonly string[] = ['createJob', 'sendMessage'];
/** Each attempt after the first asks again whether a write that waits may be sent. */
const AWAIT_TURN = 'awaitTurn';

/**
 * Estimates a job's cost. Events and bytes are exact. Actions leave out what has no trace in history: queries, rejected
 * updates, and the heartbeats by which a poll loop passes its state to its next attempt.
 */
export function estimateCost({ runs, pending, polls }: CostInput): JobCost {
  const events = runs.flatMap((run) => run.events);
  const activities = runs.flatMap((run) => activitiesOf(run.events));
  const writes = activities.filter(({ name }) => WRITES.includes(name));
  const writeAttempts =
    sum(writes, ({ attempt }) => attempt) + sum(pendingOf(pending, WRITES), ({ attempt }) => attempt);
  const pendingReads = sum(pendingOf(pending, [WATCH]), ({ attempt }) => attempt);
  const watches = activities.filter(({ name }) => name === WATCH);
  const finishedReads = sum(watches, ({ reads }) => reads);
  const reads = pendingReads + (polls ?? finishedReads);
  // Of a watch that was cut short nothing tells how many attempts its reads took: at most as many.
  const cut = watches.filter(({ attempt }) => attempt === 0).length - pendingOf(pending, [WATCH]).length;
  const cutRetries = polls === null || cut <= 0 ? 0 : Math.max(0, polls - finishedReads - cut);
  const watchRetries =
    sum(watches, ({ attempt }) => Math.max(0, attempt - 1)) +
    cutRetries +
    sum(pendingOf(pending, [WATCH]), ({ attempt }) => Math.max(0, attempt - 1));
  const turns = [...activities.filter(({ name }) => name === AWAIT_TURN), ...pendingOf(pending, [AWAIT_TURN])];
  const turnRetries = sum(turns, ({ attempt }) => Math.max(0, attempt - 1));
  const writesStarted = writes.filter(({ attempt }) => attempt > 0).length + pendingOf(pending, WRITES).length;
  const actions: ActionCounts = {
    starts: countOf(events, 'workflowExecutionStartedEventAttributes'),
    activities: activities.length,
    activityRetries: watchRetries + turnRetries + writeAttempts - writesStarted,
    heartbeats: writeAttempts - count(writes, isHeld) + count(writes, isRefused),
    timers: countOf(events, 'timerStartedEventAttributes'),
    signals: countOf(events, 'workflowExecutionSignaledEventAttributes'),
    updates: countOf(events, 'workflowExecutionUpdateAcceptedEventAttributes'),
    queueMessages:
      2 * count(writes, hasJoined) + countOf(events, 'signalExternalWorkflowExecutionInitiatedEventAttributes'),
    turnReports: count(writes, hasReported),
    searchAttributeUpserts: countOf(events, 'upsertWorkflowSearchAttributesEventAttributes'),
    memoUpserts: countOf(events, 'workflowPropertiesModifiedEventAttributes'),
  };
  return {
    runs: runs.length,
    historyEvents: events.length,
    historyBytes: sum(runs, ({ bytes }) => bytes),
    reads,
    actions,
    billableActions: sum(Object.values(actions), (n) => n),
  };
}

interface Activity {
  name: string;
  /** The attempt that ended it; 0 where none is in history, as while it waits or where it was cancelled in a wait. */
  attempt: number;
  /** Reads of a watch that has ended. */
  reads: number;
  /** A write was sent because a queue had given it this turn. */
  turn: unknown;
  /** What it says of itself in its result; empty while it has none. */
  result: ActivityResult;
}

interface ActivityResult {
  kind?: string;
  reads?: number;
  isHeld?: boolean;
  queued?: object | null;
}

/** It was not sent, and has no fence. */
function isHeld({ result }: Activity): boolean {
  return result.isHeld === true;
}

/** It was sent and throttled: its fence was taken back. */
function isRefused({ result }: Activity): boolean {
  return result.kind === 'throttled' && result.isHeld !== true;
}

/** To join is a signal and a query. */
function hasJoined({ result }: Activity): boolean {
  return Boolean(result.queued);
}

/** Where it joins again, it reports its turn with that. */
function hasReported({ turn, result }: Activity): boolean {
  return turn !== undefined && result.kind !== undefined && result.kind !== 'throttled';
}

function activitiesOf(events: readonly CostEvent[]): Activity[] {
  const activities = new Map<string, Activity>();
  for (const event of events) {
    const scheduled = event.activityTaskScheduledEventAttributes;
    if (scheduled) {
      const name = scheduled.activityType?.name ?? '';
      const { turn } = WRITES.includes(name) ? (jsonIn(scheduled.input) as { turn?: unknown }) : {};
      activities.set(String(event.eventId), { name, attempt: 0, reads: 0, turn, result: {} });
    }
    const started = event.activityTaskStartedEventAttributes;
    const activity = started && activities.get(String(started.scheduledEventId));
    if (activity) activity.attempt = started.attempt ?? 1;
    const completed = event.activityTaskCompletedEventAttributes;
    const ended = completed && activities.get(String(completed.scheduledEventId));
    if (!ended) continue;
    ended.result = jsonIn(completed.result);
    ended.reads = ended.result.reads ?? ended.attempt;
  }
  return [...activities.values()];
}

/** What an activity was given or returned; nothing where a codec hides it. */
function jsonIn(given: Payloads | null | undefined): object {
  try {
    return (JSON.parse(new TextDecoder().decode(given?.payloads?.[0]?.data ?? undefined)) ?? {}) as object;
  } catch {
    return {};
  }
}

function pendingOf(pending: readonly PendingActivity[], names: readonly string[]): PendingActivity[] {
  return pending.filter(({ name }) => names.includes(name));
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

/** What two jobs have cost together. */
export function addCosts(one: JobCost, other: JobCost): JobCost {
  const { actions, ...counts } = one;
  const { actions: otherActions, ...otherCounts } = other;
  return { ...addCounts(counts, otherCounts), actions: addCounts(actions, otherActions) };
}

function addCounts<T extends Record<keyof T, number>>(one: T, other: T): T {
  return Object.fromEntries(Object.keys(one).map((name) => [name, one[name as keyof T] + other[name as keyof T]])) as T;
}
