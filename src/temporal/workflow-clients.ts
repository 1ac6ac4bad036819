/** Clients of workflows that work as the caller's own does, each but for one thing. */
import { randomUUID } from 'node:crypto';
import {
  type Client,
  isGrpcServiceError,
  type WorkflowCancelInput,
  WorkflowClient,
  type WorkflowClientOptions,
  type WorkflowExecutionInfo,
} from '@temporalio/client';
import type { Payload, QueryDefinition } from '@temporalio/common';
import { STALE_COPY } from '../contract/shared.js';

/** The options of a client like the caller's own, but for whether queries of closed workflows are refused. */
export function workflowOptionsOf({ connection, options, workflow }: Client): WorkflowClientOptions {
  const { namespace, identity, loadedDataConverter: dataConverter } = options;
  return { connection, namespace, identity, dataConverter, interceptors: workflow.options.interceptors };
}

/**
 * For one update with a start. An update that the workflow's validator refuses counts as accepted too, and the SDK's
 * handle does not say whether its outcome is known already. This can go when the handle says it.
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

// The SDK's `cancel` takes no reason, although Temporal's request has one and history keeps it. This can go when the
// SDK's handle takes a reason.

/** Who asks for a cancellation, and why. */
interface CancelAttribution {
  by?: string | undefined;
  note?: string | undefined;
}

/**
 * The client's workflows, whose cancellations tell who asks, as the identity, and why, as the reason. Both are plain
 * text in history, whatever codec the client has.
 */
export function attributedWorkflowClient(client: Client, attribution: CancelAttribution): WorkflowClient {
  return new AttributedWorkflowClient(client, attribution);
}

class AttributedWorkflowClient extends WorkflowClient {
  readonly #reason: string;

  constructor(client: Client, { by, note }: CancelAttribution) {
    super({ ...workflowOptionsOf(client), identity: by ?? client.options.identity });
    this.#reason = note ?? '';
  }

  protected override async _cancelWorkflowHandler({ workflowExecution, firstExecutionRunId }: WorkflowCancelInput) {
    const { namespace, identity } = this.options;
    try {
      return await this.workflowService.requestCancelWorkflowExecution({
        namespace,
        identity,
        requestId: randomUUID(),
        workflowExecution,
        firstExecutionRunId: firstExecutionRunId ?? '',
        reason: this.#reason,
      });
    } catch (error) {
      this.rethrowGrpcError(error, 'Failed to cancel workflow', workflowExecution);
    }
  }
}

// Repeats queries that a worker could not answer for one reason alone: its copy of the run was spoilt by that very
// query, and is thrown away (src/workflows/stale-copy.ts). Asked again, the run is read from its history. A client of
// another make sees the error once.

/** Another worker may have spoilt its copy too; then something else is wrong. */
const MOST_TRIES = 3;

/** Asks a workflow by a query that changes nothing. */
export async function queryAgain<Answer>(query: () => Promise<Answer>): Promise<Answer> {
  for (let tries = 1; ; tries++) {
    try {
      return await query();
    } catch (error) {
      if (tries === MOST_TRIES || !isOfStaleCopy(error)) throw error;
    }
  }
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

/** The SDK wraps gRPC's error in its own, and takes a failed query for one that the workflow does not know. */
function isOfStaleCopy(error: unknown): boolean {
  for (let inner = error; inner instanceof Error; inner = inner.cause) {
    if (inner.message.includes(STALE_COPY)) return true;
    if (isGrpcServiceError(inner) && inner.details.includes(STALE_COPY)) return true;
  }
  return false;
}

// The SDK's client fails a whole list when one memo of it can't be decoded. temporalio/sdk-typescript#1139 is about
// the same fault in workers: one payload that can't be decoded fails every workflow task of its workflow (see
// payload-converter.ts). This can go when the SDK hands out memos undecoded.

/**
 * Reads workflows as the client does, but a memo field that can't be decoded, such as one of another service under
 * its own key, is undefined: one foreign memo must not end a whole list.
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

// The SDK's list goes over all pages and tells no page's end. This reads one page, with the token of the next one; it
// can go when the SDK's list takes and tells tokens.

/** What to read. */
export interface PageRequest {
  query: string;
  pageSize: number;
  /** The token of the page before; null for the first page. */
  token: Uint8Array | null;
}

/** Some runs, newest first as far as the server sorts them, and the token of the next page; null at the end. */
export interface RunPage {
  runs: WorkflowExecutionInfo[];
  token: Uint8Array | null;
}

/** Reads one page of a list of workflows. */
export async function readListPage(client: Client, { query, pageSize, token }: PageRequest): Promise<RunPage> {
  const workflows = new OnePageClient(client, token);
  const runs: WorkflowExecutionInfo[] = [];
  for await (const run of workflows.list({ query, pageSize })) runs.push(run);
  return { runs, token: workflows.nextToken };
}

/** A client whose list begins where a token says, and ends with that page. */
class OnePageClient extends WorkflowClient {
  readonly #token: Uint8Array | null;
  nextToken: Uint8Array | null = null;

  constructor(client: Client, token: Uint8Array | null) {
    super(lenientOptions(client));
    this.#token = token;
  }

  override get workflowService(): WorkflowClient['workflowService'] {
    const service = super.workflowService;
    const listWorkflowExecutions = async (request: object) => {
      const page = await service.listWorkflowExecutions({
        ...request,
        ...(this.#token !== null && { nextPageToken: this.#token }),
      });
      this.nextToken = page.nextPageToken.length > 0 ? page.nextPageToken : null;
      page.nextPageToken = new Uint8Array();
      return page;
    };
    return Object.create(service, { listWorkflowExecutions: { value: listWorkflowExecutions } }) as typeof service;
  }
}
