/**
 * The SDK's retries of requests go on after `Connection.close()`. A retry on a closed channel throws from a timer,
 * where nobody can catch it, and ends the process. This can go when closing a connection clears the timers of its
 * retries.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';

/** Sends requests to Temporal again, as the SDK does it, until `end`. */
export class RequestRetries {
  #hasEnded = false;
  #outlastsRefusals = false;
  #latestAt = 0;
  /** For the connection. */
  readonly interceptor: ReturnType<typeof makeGrpcRetryInterceptor> = makeGrpcRetryInterceptor(this.#options());

  /** From now on the server is known: one that refuses the connection is about to come back. */
  outlastRefusals(): void {
    this.#outlastsRefusals = true;
  }

  /**
   * No request is sent again from now on. Resolves within seconds, when no retry is due any more: then the connection
   * may be closed.
   */
  async end(): Promise<void> {
    this.#hasEnded = true;
    const left = this.#latestAt - performance.now();
    if (left > 0) await pause(left);
  }

  #options(): ReturnType<typeof defaultGrpcRetryOptions> {
    const { retryableDecider, delayFunction } = defaultGrpcRetryOptions();
    return {
      retryableDecider: (attempt, status) =>
        !this.#hasEnded &&
        (this.#outlastsRefusals || !isConnectionRefused(status)) &&
        retryableDecider(attempt, status),
      delayFunction: (attempt, status) => {
        const delay = delayFunction(attempt, status);
        // A timer may be late, by as much as the process is busy.
        this.#latestAt = Math.max(this.#latestAt, performance.now() + delay + 100);
        return delay;
      },
    };
  }
}

/** True where nobody listens at the server's address. */
export function isConnectionRefused({ details }: { details: string }): boolean {
  return details.includes('ECONNREFUSED');
}
