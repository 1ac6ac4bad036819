/** What the SDK's client of workflows lacks: clients that differ from the caller's in one thing. */
import { randomUUID } from 'node:crypto';
import {
  type Client,
  isGrpcServiceError,
  ScheduleClient,
  type ScheduleDescription,
  ScheduleNotFoundError,
  type WorkflowCancelInput,
  WorkflowClient,
  type WorkflowClientOptions,
  type WorkflowExecutionInfo,
} from '@temporalio/client';
import { executionInfoFromRaw } from '@temporalio/client/lib/helpers.js';
import type { Payload, QueryDefinition } from '@temporalio/common';
import { STALE_COPY } from '../contract/shared.js';

/** The options of a client like the caller's own, except that queries of closed workflows are not refused. */
export function workflowOptionsOf({ connection, options, workflow }: Client): WorkflowClientOptions {
  const { namespace, identity, loadedDataConverter: dataConverter } = options;
  return { connection, namespace, identity, dataConverter, interceptors: workflow.options.interceptors };
}

/**
 * For one update with a start. A refused update counts as accepted too, and the SDK's handle does not say whether its
 * outcome is known already. This can go when the handle says it.
 */
export class UpdateWithStartClient extends WorkflowClient {
  /** Whether the response to the update held its outcome: its result needs no further request then. */
  isAnswered = false;

  constructor(client: Client) {
    super(workflowOptionsOf(client));
  }

  protected override async _updateWithStartHandler(
    ...given: Parameters<WorkflowClient['_updateWithStartHandler']>
  ): ReturnType<WorkflowClient['_updateWithStartHandler']> {
    const output = await super._updateWithStartHandler(...given);
    this.isAnswered = output.updateOutcome != null;
    return output;
  }
}

/**
 * The client's workflows, whose cancellations say who asks, as the identity, and why, as the reason. Both are plain
 * text in history, whatever codec the client has. This can go when the SDK's `cancel` takes a reason.
 */
export class CancelClient extends WorkflowClient {
  readonly #reason: string;

  constructor(client: Client, { by, note }: { by?: string | undefined; note?: string | undefined }) {
    super({ ...workflowOptionsOf(client), identity: by ?? client.options.identity });
    this.#reason = note ?? '';
  }

  protected override async _cancelWorkflowHandler({
    workflowExecution,
    firstExecutionRunId = '',
  }: WorkflowCancelInput) {
    const { namespace, identity } = this.options;
    const request = { namespace, identity, requestId: randomUUID(), workflowExecution, firstExecutionRunId };
    try {
      return await this.workflowService.requestCancelWorkflowExecution({ ...request, reason: this.#reason });
    } catch (error) {
      this.rethrowGrpcError(error, 'Failed to cancel workflow', workflowExecution);
    }
  }
}

/** Another worker may have spoilt its copy too; then something else is wrong. */
const MAX_TRIES = 3;

/**
 * Repeats a query that a worker could not answer for one reason alone: its copy of the run was spoilt by that very
 * query, and is thrown away (src/workflows/stale-copy.ts). The next try reads the run from its history.
 */
export async function queryAgain<Answer>(query: () => Promise<Answer>): Promise<Answer> {
  for (let tries = 1; ; tries++) {
    try {
      return await query();
    } catch (error) {
      if (tries === MAX_TRIES || !isOfStaleCopy(error)) throw error;
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

/** Asks a run, or the newest, whether or not it is closed: the caller's client may refuse queries of closed ones. */
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

function lenient({ payloadConverter, payloadCodecs, ...others }: LoadedDataConverter): LoadedDataConverter {
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

/** What to read. */
interface PageRequest {
  query: string;
  pageSize: number;
  /** The token of the page before; null for the first page. */
  token: Uint8Array | null;
}

/** Some runs, newest first as far as the server sorts them, and the token of the next page; null at the end. */
interface RunPage {
  runs: WorkflowExecutionInfo[];
  token: Uint8Array | null;
}

/**
 * Reads one page of a list of workflows, as a lenient client does. This can go when the SDK's list takes and returns
 * tokens.
 */
export async function readListPage(client: Client, { query, pageSize, token }: PageRequest): Promise<RunPage> {
  const { namespace, loadedDataConverter } = client.options;
  const converter = lenient(loadedDataConverter);
  const request = { namespace, query, pageSize, ...(token && { nextPageToken: token }) };
  const { executions, nextPageToken } = await client.workflowService.listWorkflowExecutions(request);
  const runs = await Promise.all(executions.map((raw) => executionInfoFromRaw(raw, converter, raw, namespace)));
  return { runs, token: nextPageToken.length > 0 ? nextPageToken : null };
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
