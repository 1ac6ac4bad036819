/**
 * What the SDK lacks for attempts of activities, until it offers them: the server's time, another attempt at no cost in
 * history (samples-typescript/polling/infrequent), and an attempt that outlives its function.
 */
import { activityInfo, ApplicationFailure, Context } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import { hasGrpcStatus } from './grpc.js';

/** The clocks of a machine, in milliseconds; tests have others. */
export interface MachineClock {
  /** Goes evenly, and stands still while the machine is suspended. */
  monotonic(): number;
  wall(): number;
}

const MACHINE: MachineClock = { monotonic: () => performance.now(), wall: () => Date.now() };

/** What time it is in an attempt of an activity, in milliseconds. */
export interface AttemptClock {
  /**
   * The time of the Temporal server: when it scheduled the attempt, plus what has passed here since. Workflow times are
   * the server's too, so a wrong clock of a worker changes nothing.
   */
  server(): number;
  /**
   * The same for what is reported to others, or may be too late by then: the server's time of an attempt that waited
   * hours for a worker is hours behind. A machine whose clock is ahead only makes it later.
   */
  late(): number;
  /** For durations within this process. */
  monotonic(): number;
}

/** The clock of the attempt that runs. */
export function startClock({ monotonic, wall } = MACHINE): AttemptClock {
  const scheduledAt = activityInfo().currentAttemptScheduledTimestampMs;
  const startedAt = monotonic();
  const server = () => scheduledAt + (monotonic() - startedAt);
  return { server, late: () => Math.max(server(), wall()), monotonic };
}

/**
 * The failure that makes the server try the attempt again after a wait, in milliseconds. Its message is what the web UI
 * shows meanwhile; `next` says what then happens, for example `next poll`. It has no stack: nothing is wrong.
 */
export function tryLater(type: string, why: string, next: string, waitMs: number): ApplicationFailure {
  const delayMs = Math.max(1, Math.round(waitMs));
  const failure = ApplicationFailure.create({
    message: `${why}, ${next} in ${Math.max(1, Math.round(delayMs / 1_000))} s`,
    type,
    category: 'BENIGN',
    nextRetryDelay: delayMs,
  });
  failure.stack = '';
  return failure;
}

/** How long one call may take. */
export const ATTEMPT_CALL_MS = 10_000;

/**
 * What the server answers an attempt: `cancelled` if it is not wanted any more, `superseded` if there is no such
 * attempt or another one has begun, `mustEnd` if an operator paused or reset it, `unknown` if no answer came.
 */
export type ServerAnswer = 'accepted' | 'cancelled' | 'superseded' | 'mustEnd' | 'unknown';

/**
 * An attempt that outlives its function (`CompleteAsyncError`): completed, failed or kept alive by its task token.
 * `AsyncCompletionClient.fail` takes no details, and a heartbeat with them would be one more billable action.
 */
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

  /** Ends the attempt by a failure that another attempt follows; that one gets the `details`. */
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
      await this.#client.withDeadline(Date.now() + ATTEMPT_CALL_MS, () => work(this.#client));
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
