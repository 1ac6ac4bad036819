/** The activities that a workflow's history shows, with what a cost is estimated from. */

/** The parts of a history event that count; Temporal's own protobuf events fit. */
export interface CostEvent {
  eventId?: { toString(): string } | null;
  eventTime?: Timestamp | null;
  workflowExecutionStartedEventAttributes?: { continuedExecutionRunId?: string | null } | null;
  workflowExecutionCompletedEventAttributes?: { result?: Payloads | null } | null;
  activityTaskScheduledEventAttributes?: {
    activityId?: string | null;
    activityType?: { name?: string | null } | null;
    input?: Payloads | null;
    heartbeatTimeout?: Timestamp | null;
  } | null;
  activityTaskStartedEventAttributes?: (OfActivity & { attempt?: number | null }) | null;
  activityTaskCompletedEventAttributes?: (OfActivity & { result?: Payloads | null }) | null;
  activityTaskFailedEventAttributes?: OfActivity | null;
  activityTaskTimedOutEventAttributes?: OfActivity | null;
  activityTaskCancelRequestedEventAttributes?: OfActivity | null;
  activityTaskCanceledEventAttributes?: OfActivity | null;
  timerStartedEventAttributes?: object | null;
  workflowExecutionSignaledEventAttributes?: {
    externalWorkflowExecution?: { workflowId?: string | null } | null;
  } | null;
  workflowExecutionUpdateAcceptedEventAttributes?: object | null;
  upsertWorkflowSearchAttributesEventAttributes?: object | null;
  workflowPropertiesModifiedEventAttributes?: object | null;
  signalExternalWorkflowExecutionInitiatedEventAttributes?: object | null;
  startChildWorkflowExecutionInitiatedEventAttributes?: object | null;
}

interface OfActivity {
  scheduledEventId?: { toString(): string } | null;
}

export interface Payloads {
  payloads?: { data?: Uint8Array | null }[] | null;
}

/** A time or a duration. */
interface Timestamp {
  seconds?: { toString(): string } | number | null;
  nanos?: number | null;
}

/** One activity of a history. Times in milliseconds. */
export interface ActivityRecord {
  id: string;
  name: string;
  /** The attempt that ended it; 0 where none is in history, as while it waits or where it was cancelled in a wait. */
  attempt: number;
  scheduledAt: number;
  /** When its last attempt began; null where history does not tell. */
  startedAt: number | null;
  /** When it ended, or was asked to; null where neither happened. */
  endedAt: number | null;
  /** 0 where it has none. */
  heartbeatTimeoutMs: number;
  /** What it was given; empty where a codec hides it. */
  input: Record<string, unknown>;
  /** What its last heartbeat told; empty where it is not under way, or had none. */
  details: Record<string, unknown>;
  /** What it says of itself in its result; empty while it has none. */
  result: Record<string, unknown>;
}

/** All activities of one run, in the order of their events. */
export function activitiesOf(events: readonly CostEvent[]): ActivityRecord[] {
  const activities = new Map<string, ActivityRecord>();
  const ofEvent = (attributes: OfActivity | null | undefined) =>
    attributes ? activities.get(String(attributes.scheduledEventId)) : undefined;
  for (const event of events) {
    if (event.activityTaskScheduledEventAttributes) activities.set(String(event.eventId), scheduled(event));
    const started = ofEvent(event.activityTaskStartedEventAttributes);
    if (started) {
      started.attempt = event.activityTaskStartedEventAttributes?.attempt ?? 1;
      started.startedAt = millisOf(event.eventTime);
    }
    const ended = ofEvent(endOf(event));
    if (ended) ended.endedAt ??= millisOf(event.eventTime);
    const completed = ofEvent(event.activityTaskCompletedEventAttributes);
    if (completed) completed.result = jsonIn(event.activityTaskCompletedEventAttributes?.result);
  }
  return [...activities.values()];
}

function scheduled({ eventTime, activityTaskScheduledEventAttributes: given }: CostEvent): ActivityRecord {
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

function endOf(event: CostEvent): OfActivity | null | undefined {
  return (
    event.activityTaskCancelRequestedEventAttributes ??
    event.activityTaskCanceledEventAttributes ??
    event.activityTaskCompletedEventAttributes ??
    event.activityTaskFailedEventAttributes ??
    event.activityTaskTimedOutEventAttributes
  );
}

/** The number of reads that a job's own result tells; null where the run has no such result. */
export function pollsOfResult(events: readonly CostEvent[]): number | null {
  const { polls } = jsonIn(events.at(-1)?.workflowExecutionCompletedEventAttributes?.result);
  return typeof polls === 'number' ? polls : null;
}

/** When an event happened, or how long a duration is. */
export function millisOf(time: Timestamp | null | undefined): number {
  return Number(time?.seconds ?? 0) * 1_000 + (time?.nanos ?? 0) / 1e6;
}

/** What an activity was given, returned or heartbeat; nothing where a codec hides it. */
export function jsonIn(given: Payloads | null | undefined): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(given?.payloads?.[0]?.data ?? undefined));
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
