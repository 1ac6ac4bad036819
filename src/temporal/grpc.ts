/** The statuses of gRPC, and when the connection repeats a request. */
import { setTimeout as pause } from 'node:timers/promises';
import { defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';

/** gRPC's status codes: by them alone the errors of Temporal's client and of its native connection differ. */
export const GRPC_STATUS = {
  canceled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;

/** The status of gRPC's answer, which the SDK and the native connection wrap; undefined for any other error. */
export function grpcStatusOf(error: unknown): number | undefined {
  for (let inner = error; inner instanceof Error; inner = inner.cause) {
    const { code } = inner as { code?: unknown };
    if (typeof code === 'number') return code;
  }
  return undefined;
}

/** Whether an error is gRPC's answer with this status. */
export function hasGrpcStatus(error: unknown, status: keyof typeof GRPC_STATUS): boolean {
  return grpcStatusOf(error) === GRPC_STATUS[status];
}

// The SDK's retries of requests go on after `Connection.close()`. A retry on a closed channel throws from a timer and
// ends the process. This can go when closing a connection clears the timers of its retries.

/** Sends requests to Temporal again, as the SDK does it, until `end`. */
export class RequestRetries {
  #hasEnded = false;
  #outlastsRestarts = false;
  #latestAt = 0;
  /** For the connection. */
  readonly interceptor: ReturnType<typeof makeGrpcRetryInterceptor> = makeGrpcRetryInterceptor(this.#options());

  /** From now on the server is known: one that does not listen is about to come back. */
  outlastRestarts(): void {
    this.#outlastsRestarts = true;
  }

  /** Sends no request again. Resolves when no retry is due any more: then the connection may be closed. */
  async end(): Promise<void> {
    this.#hasEnded = true;
    const left = this.#latestAt - performance.now();
    if (left > 0) await pause(left);
  }

  #options(): ReturnType<typeof defaultGrpcRetryOptions> {
    const { retryableDecider, delayFunction } = defaultGrpcRetryOptions();
    return {
      retryableDecider: (attempt, status) =>
        !this.#hasEnded && (this.#outlastsRestarts || !isNotListening(status)) && retryableDecider(attempt, status),
      delayFunction: (attempt, status) => {
        const delay = delayFunction(attempt, status);
        // A timer is late while the process is busy.
        this.#latestAt = Math.max(this.#latestAt, performance.now() + delay + 100);
        return delay;
      },
    };
  }
}

/** True if no server listens at the address. */
export function isNotListening({ details }: { details: string }): boolean {
  return details.includes('ECONNREFUSED');
}
