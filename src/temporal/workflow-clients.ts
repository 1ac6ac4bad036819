/** What the SDK's client of workflows lacks: clients that differ from the caller's in one thing. */
import { isGrpcServiceError, ScheduleClient, ScheduleNotFoundError, WorkflowClient } from '@temporalio/client';
import type { Client, ScheduleDescription, WorkflowClientOptions } from '@temporalio/client';
import type { Payload, QueryDefinition } from '@temporalio/common';
import { STALE_COPY } from '../contract/shared.js';

/** The options of a client like the caller's own, but closed workflows may be queried, too. */
export function workflowOptionsOf({ connection, options, workflow }: Client): WorkflowClientOptions {
  const { namespace, identity, loadedDataConverter: dataConverter } = options;
  return { connection, namespace, identity, dataConverter, interceptors: workflow.options.interceptors };
}

/** Another worker may have spoilt its copy too; then something else is wrong. */
const MAX_QUERY_TRIES = 3;

/**
 * Repeats a query that a worker could not answer for one reason alone: its copy of the run was spoilt by that very
 * query, and is thrown away (src/temporal/private/stale-copy.ts). The next try reads the run from its history.
 */
export async function queryAgain<Answer>(query: () => Promise<Answer>): Promise<Answer> {
  for (let tries = 1; ; tries++) {
    try {
      return await query();
    } catch (error) {
      if (tries === MAX_QUERY_TRIES || !isOfStaleCopy(error)) throw error;
    }
  }
}

/** The SDK wraps gRPC's error in its own, and takes a failed query for one that the workflow does not know. */
function isOfStaleCopy(error: unknown): boolean {
  for (let inner = error; inner instanceof Error; inner = inner.cause) {
    if (inner.message.includes(STALE_COPY)) return true;
    if (isGrpcServiceError(inner) && inner.details.includes(STALE_COPY)) return true;
  }
  return false;
}

/** Asks a run, or the newest, whether or not it is closed: the caller's client may query no closed ones. */
export function askWorkflow<Answer, Args extends unknown[]>(
  client: Client,
  { workflowId, runId }: { workflowId: string; runId?: string | undefined },
  query: QueryDefinition<Answer, Args>,
  ...args: Args
): Promise<Answer> {
  const handle = new WorkflowClient(workflowOptionsOf(client)).getHandle(workflowId, runId);
  return queryAgain(() => handle.query(query, ...args));
}

/**
 * Reads workflows as the client does, but a memo field that can't be decoded is undefined, such as one of another
 * service under its own key: the SDK's client fails a whole list for it (temporalio/sdk-typescript#1139). This can go
 * when the SDK hands out memos undecoded.
 */
export function lenientWorkflowClient(client: Client): WorkflowClient {
  return new WorkflowClient(lenientOptions(client));
}

/** The options of a client that reads as `lenientWorkflowClient` does. */
export function lenientOptions({ connection, options }: Client): Omit<WorkflowClientOptions, 'interceptors'> {
  const { namespace, identity, loadedDataConverter } = options;
  return { connection, namespace, identity, dataConverter: lenient(loadedDataConverter) };
}

type LoadedDataConverter = Client['options']['loadedDataConverter'];

/** The same converter, to which what it can't decode is undefined. */
export function lenient({ payloadConverter, payloadCodecs, ...others }: LoadedDataConverter): LoadedDataConverter {
  return {
    ...others,
    payloadConverter: {
      toPayload: (value) => payloadConverter.toPayload(value),
      fromPayload<T>(payload: Payload): T {
        try {
          return payloadConverter.fromPayload(payload);
        } catch {
          return undefined as T;
        }
      },
    },
    // What a codec can't decode is handed on as it is, for the converter to judge.
    payloadCodecs: payloadCodecs.map((codec) => ({
      encode: (payloads) => codec.encode(payloads),
      decode: async (payloads) => await codec.decode(payloads).catch(() => payloads),
    })),
  };
}

/** The Schedules whose ids begin so. No lack of a codec hides one, nor one that was removed since it was listed. */
export async function* schedulesWithId(client: Client, start: string): AsyncGenerator<ScheduleDescription> {
  const schedules = new ScheduleClient(lenientOptions(client));
  for await (const { scheduleId } of schedules.list()) {
    if (!scheduleId.startsWith(start)) continue;
    const description = schedules.getHandle(scheduleId).describe();
    const found = await description.catch((error: unknown) => {
      if (!(error instanceof ScheduleNotFoundError)) throw error;
    });
    if (found) yield found;
  }
}
