/**
 * An attempt of an activity that outlives its function (`CompleteAsyncError`): completed, failed or kept alive by its
 * task token. A failure takes the last details along in the same call; `AsyncCompletionClient.fail` cannot, and a
 * heartbeat of its own would be one more call and one more billable action.
 */
import { Context } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import type { ApplicationFailure, Payload } from '@temporalio/common';
import { hasGrpcStatus } from './grpc.js';

/** How long one call may take. */
export const CALL_LIMIT_MS = 10_000;

/**
 * What the server answers an attempt: `cancelled` if it is not wanted any more, `superseded` where it knows no such
 * attempt, or another one has begun, `mustEnd` where an operator paused or reset it, `unknown` where no answer came.
 */
export type ServerAnswer = 'accepted' | 'cancelled' | 'superseded' | 'mustEnd' | 'unknown';

export class AsyncAttempt {
  readonly #client: Client;
  readonly #taskToken: Uint8Array;

  /** By default the attempt that runs. */
  constructor({ client, info } = Context.current()) {
    this.#client = client;
    // A copy: the SDK's is a part of the whole task, which it would keep in memory with the activity's input.
    this.#taskToken = Uint8Array.from(info.taskToken);
  }

  async complete(result: unknown): Promise<ServerAnswer> {
    return this.#call((client) => client.activity.complete(this.#taskToken, result));
  }

  /** Ends the attempt by a failure that another attempt follows; `details` are what that one is told. */
  async fail(failure: ApplicationFailure, details: unknown): Promise<ServerAnswer> {
    return this.#call(async ({ options, connection }) => {
      const { payloadConverter, failureConverter, payloadCodecs } = options.loadedDataConverter;
      let payloads: Payload[] = [payloadConverter.toPayload(details)];
      for (const codec of payloadCodecs) payloads = await codec.encode(payloads);
      await connection.workflowService.respondActivityTaskFailed({
        identity: options.identity,
        namespace: options.namespace,
        taskToken: this.#taskToken,
        failure: failureConverter.errorToFailure(failure, payloadConverter),
        lastHeartbeatDetails: { payloads },
      });
    });
  }

  /** Shows that the attempt is alive, until the heartbeat timeout from now on. */
  async heartbeat(details: unknown): Promise<ServerAnswer> {
    return this.#call((client) => client.activity.heartbeat(this.#taskToken, details));
  }

  async reportCancellation(): Promise<ServerAnswer> {
    return this.#call((client) => client.activity.reportCancellation(this.#taskToken));
  }

  async #call(work: (client: Client) => Promise<void>): Promise<ServerAnswer> {
    try {
      await this.#client.withDeadline(Date.now() + CALL_LIMIT_MS, () => work(this.#client));
      return 'accepted';
    } catch (error) {
      return answerIn(error);
    }
  }
}

function answerIn(error: unknown): ServerAnswer {
  const name = error instanceof Error ? error.name : '';
  if (name === 'ActivityCancelledError') return 'cancelled';
  if (name === 'ActivityPausedError' || name === 'ActivityResetError') return 'mustEnd';
  return name === 'ActivityNotFoundError' || hasGrpcStatus(error, 'notFound') ? 'superseded' : 'unknown';
}
