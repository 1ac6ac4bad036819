import { setMaxListeners } from 'node:events';
import { isGrpcServiceError, ServiceError, type Client } from '@temporalio/client';
import { NamespaceNotFoundError } from '@temporalio/common';
import { TemporalCallError } from './errors.js';

/** gRPC status codes that tell how to go on. */
const GRPC = {
  canceled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
};
const UNREACHABLE: readonly number[] = [GRPC.deadlineExceeded, GRPC.unavailable];
/** What a server says, too, whose database is away or which has just begun. */
const OUTAGE = [...UNREACHABLE, GRPC.canceled, GRPC.unknown, GRPC.resourceExhausted, GRPC.aborted, GRPC.internal];

/** Runs calls to Temporal that end with the signal's reason once it is aborted, and whose errors say what to do. */
export async function temporalCall<T>(
  client: Client,
  signal: AbortSignal | undefined,
  call: () => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  try {
    return await (signal === undefined ? call() : withOwnSignal(client, signal, call));
  } catch (error) {
    signal?.throwIfAborted();
    throw explain(client, error);
  }
}

/**
 * Runs calls that end with the signal's reason once it is aborted. The SDK does not see to that by itself: a request that it has
 * sent again, as after an outage, can't be cancelled any more. And it adds a listener with each request and removes none: the
 * caller's own signal must not collect them.
 */
async function withOwnSignal<T>(client: Client, signal: AbortSignal, call: () => Promise<T>): Promise<T> {
  const own = new AbortController();
  setMaxListeners(0, own.signal);
  let forward = () => {};
  const aborted = new Promise<never>((_, reject) => {
    forward = () => {
      own.abort(signal.reason);
      reject(signal.reason as Error);
    };
  });
  signal.addEventListener('abort', forward, { once: true });
  try {
    return await Promise.race([client.withAbortSignal(own.signal, call), aborted]);
  } finally {
    signal.removeEventListener('abort', forward);
  }
}

/** True where Temporal gave no definite answer: trying again later may help. */
export function isOutage(error: unknown): boolean {
  const code = grpcError(error)?.code;
  return code !== undefined && OUTAGE.includes(code);
}

/** True where a request's deadline passed before it was answered. */
export function isDeadlineExceeded(error: unknown): boolean {
  return grpcError(error)?.code === GRPC.deadlineExceeded;
}

/** True where the server knows of no worker that polls, or none answered in time. */
export function isNoWorker(error: unknown): boolean {
  const grpc = grpcError(error);
  if (grpc === undefined) return false;
  return (
    grpc.code === GRPC.deadlineExceeded || grpc.code === GRPC.failedPrecondition || /no poller/i.test(grpc.details)
  );
}

function grpcError(error: unknown): { code: number; details: string } | undefined {
  for (let inner = error; inner instanceof Error; inner = inner.cause) {
    if (isGrpcServiceError(inner)) return inner;
  }
  return undefined;
}

/** The error in words that say what to do, where it is one of Temporal's own. */
export function explain(client: Client, error: unknown): unknown {
  const namespace = client.options.namespace;
  if (error instanceof NamespaceNotFoundError) {
    const text = `Temporal has no namespace "${error.namespace || namespace}": check TEMPORAL_NAMESPACE`;
    return new TemporalCallError(text, { cause: error });
  }
  const grpc = grpcError(error);
  if (grpc !== undefined && grpc.code === GRPC.notFound && /namespace/i.test(grpc.details)) {
    return new TemporalCallError(`${grpc.details}: check TEMPORAL_NAMESPACE`, { cause: error });
  }
  if (grpc === undefined || !(error instanceof ServiceError || isGrpcServiceError(error))) return error;
  return new TemporalCallError(`Temporal did not take the call: ${advice(grpc, namespace)}`, { cause: error });
}

function advice({ code, details }: { code: number; details: string }, namespace: string): string {
  if (code === GRPC.invalidArgument && /search attribute/i.test(details)) {
    return `${details}; run "agent-jobs setup" once for namespace "${namespace}"`;
  }
  if (code === GRPC.permissionDenied || code === GRPC.unauthenticated) {
    return `${details}; check TEMPORAL_API_KEY or the client certificate, and its rights in namespace "${namespace}"`;
  }
  if (UNREACHABLE.includes(code)) return `${details}; check that the server runs and that TEMPORAL_ADDRESS names it`;
  return details;
}
