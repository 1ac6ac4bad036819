/** The billable actions that the history of a job or a queue shows. `docs/performance.md` says what counts. */
import type { WorkflowHandle } from '@temporalio/client';

export type HistoryEvents = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>;
type HistoryEvent = HistoryEvents[number];
type Scheduled = NonNullable<HistoryEvent['activityTaskScheduledEventAttributes']>;

const WRITES: readonly string[] = ['createJob', 'sendMessage'];

/** An activity that ended. */
interface Activity {
  name: string;
  input: Record<string, unknown>;
  result: Record<string, unknown>;
  attempt: number;
}

/** Counts the actions of one run by kind. */
function countActions(events: HistoryEvents) {
  const count = (attributes: keyof HistoryEvent) => events.filter((event) => event[attributes] != null).length;
  const activities = activitiesOf(events);
  return {
    starts: count('workflowExecutionStartedEventAttributes'),
    activities: count('activityTaskScheduledEventAttributes'),
    activityRetries: sum(activities.map(({ attempt }) => attempt - 1)),
    fences: sum(activities.map(fencesOf)),
    timers: count('timerStartedEventAttributes'),
    signals: count('workflowExecutionSignaledEventAttributes'),
    updates: count('workflowExecutionUpdateAcceptedEventAttributes'),
    queueMessages:
      count('signalExternalWorkflowExecutionInitiatedEventAttributes') + 2 * activities.filter(hasJoined).length,
    turnReports: activities.filter(hasReported).length,
    searchAttributeUpserts: count('upsertWorkflowSearchAttributesEventAttributes'),
    memoUpserts: count('workflowPropertiesModifiedEventAttributes'),
  };
}

/** All actions of one run. */
export function billableActions(events: HistoryEvents): number {
  return sum(Object.values(countActions(events)));
}

function activitiesOf(events: HistoryEvents): Activity[] {
  const attempts = new Map<string, number>();
  const scheduled = new Map<string, Scheduled>();
  const ended: Activity[] = [];
  for (const event of events) {
    const { activityTaskScheduledEventAttributes: schedule, activityTaskStartedEventAttributes: start } = event;
    if (schedule) scheduled.set(String(event.eventId), schedule);
    if (start) attempts.set(String(start.scheduledEventId), start.attempt ?? 1);
    const end = event.activityTaskCompletedEventAttributes ?? event.activityTaskCanceledEventAttributes;
    const id = String(end?.scheduledEventId);
    const { activityType, input } = scheduled.get(id) ?? {};
    const result = jsonIn(event.activityTaskCompletedEventAttributes?.result);
    if (end)
      ended.push({ name: activityType?.name ?? '', input: jsonIn(input), result, attempt: attempts.get(id) ?? 1 });
  }
  return ended;
}

/** The fence of each write, and one more that takes it back after a throttled write. Leases leave no trace. */
function fencesOf({ name, attempt, result }: Activity): number {
  if (!WRITES.includes(name)) return 0;
  const isHeld = result['kind'] === 'held' || result['isHeld'] === true;
  const hasNoFence = isHeld || result['kind'] === 'notDelivered';
  const isTakenBack = result['kind'] === 'throttled';
  return attempt - (hasNoFence ? 1 : 0) + (isTakenBack ? 1 : 0);
}

/** A signal and a query join a queue. */
function hasJoined({ name, result }: Activity): boolean {
  return Boolean(WRITES.includes(name) ? result['queued'] : name === 'readChunk' && result['asked']);
}

/** A write that joins again reports its turn with that. */
function hasReported({ name, input, result }: Activity): boolean {
  return (
    WRITES.includes(name) && input['turn'] !== undefined && result['kind'] !== 'throttled' && result['kind'] !== 'held'
  );
}

function jsonIn(given: Scheduled['input']): Record<string, unknown> {
  const data = given?.payloads?.[0]?.data;
  return data?.length ? (JSON.parse(new TextDecoder().decode(data)) as Record<string, unknown>) : {};
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}
