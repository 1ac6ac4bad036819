import { setTimeout as pause } from 'node:timers/promises';
import { defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';

/**
 * How requests to Temporal are sent again: as the SDK does it, until they are ended. The SDK would go on when the connection is
 * closed, and its timer would then throw where nobody can catch it, which ends the process.
 */
export class RequestRetries {
  #hasEnded = false;
  #latestAt = 0;
  /** For the connection. */
  readonly interceptor: ReturnType<typeof makeGrpcRetryInterceptor> = makeGrpcRetryInterceptor(this.#options());

  /** No request is sent again from now on; resolves, within seconds, when none is about to be: the connection may be closed. */
  async end(): Promise<void> {
    this.#hasEnded = true;
    const left = this.#latestAt - performance.now();
    if (left > 0) await pause(left);
  }

  #options(): ReturnType<typeof defaultGrpcRetryOptions> {
    const { retryableDecider, delayFunction } = defaultGrpcRetryOptions();
    return {
      retryableDecider: (attempt, status) => !this.#hasEnded && retryableDecider(attempt, status),
      delayFunction: (attempt, status) => {
        const delay = delayFunction(attempt, status);
        // A timer may be late, by as much as the process is busy.
        this.#latestAt = Math.max(this.#latestAt, performance.now() + delay + 100);
        return delay;
      },
    };
  }
}
