import { setMaxListeners } from 'node:events';
import {
  isGrpcServiceError,
  ServiceError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
  type Client,
  type Connection,
} from '@temporalio/client';
import { NamespaceNotFoundError } from '@temporalio/common';
import { InvalidInputError } from '../contract/input-checks.js';
import { TemporalCallError, TemporalUnavailableError } from './errors.js';

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
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
};
const UNREACHABLE: readonly number[] = [GRPC.deadlineExceeded, GRPC.unavailable];
/** What a server says, too, whose database is away or which has just begun. */
const OUTAGE = [...UNREACHABLE, GRPC.canceled, GRPC.unknown, GRPC.resourceExhausted, GRPC.aborted, GRPC.internal];

/** How long a call to Temporal may take, and what else ends it; neither ends the job. */
export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** Milliseconds; each call has a default, `Infinity` is none. */
  timeoutMs?: number | undefined;
}

/** For a call that asks one thing. */
export const CALL_MS = 10_000;
/** For a call that may read and start more than once. */
export const START_MS = 30_000;
const AFTER_LIMIT_MS = 1_000;
/** What a timer of Node can hold. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Runs calls to Temporal that end with the signal's reason once it is aborted, or after a time, and whose errors say what to do. */
export async function temporalCall<T>(
  client: Client,
  { signal: given, timeoutMs: most = CALL_MS }: CallOptions,
  call: () => Promise<T>,
): Promise<T> {
  if (!(most > 0)) throw new InvalidInputError('timeoutMs', 'must be a number of milliseconds above 0');
  const { leftMs, abortSignal } = surroundingLimits(client);
  const signal = given && abortSignal ? AbortSignal.any([given, abortSignal]) : (given ?? abortSignal);
  const timeoutMs = Math.min(most, leftMs);
  signal?.throwIfAborted();
  const tooSlow = new TemporalUnavailableError(
    `Temporal${addressOf(client)} did not answer within ${timeoutMs / 1_000} seconds: check that the server runs and that TEMPORAL_ADDRESS names it`,
  );
  const own = new AbortController();
  const isLimited = timeoutMs <= MAX_TIMER_MS;
  const timer = isLimited ? setTimeout(() => own.abort(tooSlow), timeoutMs) : undefined;
  try {
    // What is sent again and can't be cancelled ends with the deadline, which is later than the limit, for its error tells less.
    const limited = isLimited ? () => client.withDeadline(Date.now() + timeoutMs + AFTER_LIMIT_MS, call) : call;
    return await whileWanted(client, own, signal, limited);
  } catch (error) {
    signal?.throwIfAborted();
    own.signal.throwIfAborted();
    throw toUserError(client, error);
  } finally {
    clearTimeout(timer);
  }
}

/** What the caller has set around the call with its client's own `withDeadline` and `withAbortSignal`, which ours would replace. */
export function surroundingLimits({ connection }: Client): { leftMs: number; abortSignal: AbortSignal | undefined } {
  const own = connection as Partial<Pick<Connection, 'callContextStorage'>> | undefined;
  const { deadline = Infinity, abortSignal } = own?.callContextStorage?.getStore() ?? {};
  return { leftMs: Math.max(0, Number(deadline) - Date.now()), abortSignal };
}

/**
 * Runs calls that end with the reason of an abort. The SDK does not see to that by itself: a request that it has sent again, as
 * after an outage, can't be cancelled any more. And it adds a listener with each request and removes none: the caller's own
 * signal must not collect them.
 */
async function whileWanted<T>(
  client: Client,
  own: AbortController,
  signal: AbortSignal | undefined,
  call: () => Promise<T>,
): Promise<T> {
  setMaxListeners(0, own.signal);
  const forward = () => own.abort(signal?.reason);
  signal?.addEventListener('abort', forward, { once: true });
  const aborted = new Promise<never>((_, reject) => {
    own.signal.addEventListener('abort', () => reject(own.signal.reason as Error), { once: true });
  });
  try {
    return await Promise.race([client.withAbortSignal(own.signal, call), aborted]);
  } finally {
    signal?.removeEventListener('abort', forward);
  }
}

/** Only our own connections and the SDK's tell it. */
function addressOf({ connection }: Client): string {
  const address = (connection as { options?: { address?: string } } | undefined)?.options?.address;
  return address === undefined ? '' : ` at ${address}`;
}

/** True where Temporal gave no definite answer: trying again later may help. */
export function isOutage(error: unknown): boolean {
  if (error instanceof TemporalUnavailableError) return true;
  const code = grpcError(error)?.code;
  return code !== undefined && OUTAGE.includes(code);
}

/** True where Temporal answered that the caller has no right to ask. */
export function isRefusal(error: unknown): boolean {
  const code = grpcError(error)?.code;
  return code === GRPC.permissionDenied || code === GRPC.unauthenticated;
}

/** True where the server does not understand the request, as a query by a search attribute that it does not know. */
export function isInvalidArgument(error: unknown): boolean {
  return grpcError(error)?.code === GRPC.invalidArgument;
}

/** True where the server does not have what was asked of it. */
export function isUnimplemented(error: unknown): boolean {
  return grpcError(error)?.code === GRPC.unimplemented;
}

/** True where a request's deadline passed before it was answered; the server knows it, too, and may be the first to end the call. */
export function isDeadlineExceeded(error: unknown): boolean {
  const code = grpcError(error)?.code;
  return code === GRPC.deadlineExceeded || code === GRPC.canceled;
}

/** True where the server knows of no worker that polls, or nobody answered in time. */
export function isNoAnswer(error: unknown): boolean {
  if (error instanceof TemporalUnavailableError) return true;
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
export function toUserError(client: Client, error: unknown): unknown {
  const namespace = client.options.namespace;
  if (error instanceof NamespaceNotFoundError) {
    const text = `Temporal has no namespace "${error.namespace || namespace}": check TEMPORAL_NAMESPACE`;
    return new TemporalCallError(text, { cause: error });
  }
  const grpc = grpcError(error);
  if (grpc !== undefined && grpc.code === GRPC.notFound && /namespace/i.test(grpc.details)) {
    return new TemporalCallError(`${grpc.details}: check TEMPORAL_NAMESPACE`, { cause: error });
  }
  if (grpc === undefined || !isOfTemporal(error)) return error;
  const Kind = UNREACHABLE.includes(grpc.code) ? TemporalUnavailableError : TemporalCallError;
  return new Kind(`Temporal${addressOf(client)} did not take the call: ${remedyFor(grpc, namespace)}`, {
    cause: error,
  });
}

function isOfTemporal(error: unknown): boolean {
  const isUpdate = error instanceof WorkflowUpdateRPCTimeoutOrCancelledError;
  return isUpdate || error instanceof ServiceError || isGrpcServiceError(error);
}

function remedyFor({ code, details }: { code: number; details: string }, namespace: string): string {
  if (code === GRPC.invalidArgument && /search attribute/i.test(details)) {
    return `${details}; run "agent-jobs setup" once for namespace "${namespace}"`;
  }
  if (code === GRPC.permissionDenied || code === GRPC.unauthenticated) {
    return `${details}; check TEMPORAL_API_KEY or the client certificate, and its rights in namespace "${namespace}"`;
  }
  if (UNREACHABLE.includes(code)) return `${details}; check that the server runs and that TEMPORAL_ADDRESS names it`;
  return details;
}
