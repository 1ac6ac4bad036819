/** A client that sends a trace context with the start of a workflow, as Temporal's OpenTelemetry interceptors do. */
import { Client } from '@temporalio/client';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';

/** The trace of the callers of tests. */
export const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';

const CONTEXT = { traceparent: `00-${TRACE_ID}-b7ad6b7169203331-01`, tracestate: 'vendor=1' };

/** A copy of the client; it sends this payload in place of a proper context if one is given. */
export function tracedClient({ options }: Client, payload?: Payload): Client {
  const headers = { '_tracer-data': payload ?? defaultPayloadConverter.toPayload(CONTEXT) };
  const { connection, namespace } = options;
  return new Client({
    connection: connection as never,
    namespace,
    interceptors: { workflow: [{ start: (input, next) => next({ ...input, headers }) }] },
  });
}

/** The context that each activity of a history was given; null for one without. */
export function contextsOfActivities({
  events,
}: {
  events?: { activityTaskScheduledEventAttributes?: { header?: { fields?: object | null } | null } | null }[] | null;
}): (string | null)[] {
  return (events ?? []).flatMap(({ activityTaskScheduledEventAttributes: scheduled }) => {
    if (!scheduled) return [];
    const payload = (scheduled.header?.fields as Record<string, Payload> | undefined)?.['_tracer-data'];
    return [payload ? JSON.stringify(defaultPayloadConverter.fromPayload(payload)) : null];
  });
}

/** A proper context as `contextsOfActivities` shows it. */
export const CONTEXT_TEXT = JSON.stringify(CONTEXT);
