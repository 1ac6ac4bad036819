/** What the errors of Temporal's client mean: whether to try again, and what to do, in words for a person. */
import {
  isGrpcServiceError,
  QueryNotRegisteredError,
  QueryRejectedError,
  ServiceError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
  type Client,
} from '@temporalio/client';
import { NamespaceNotFoundError, ValueError } from '@temporalio/common';
import { GRPC_STATUS as GRPC, hasGrpcStatus, isNotListening } from '../temporal/grpc.js';
import { PayloadKeysError, TemporalCallError, TemporalUnavailableError } from './errors.js';
import { addressOf } from './web-ui.js';

const UNREACHABLE: readonly number[] = [GRPC.deadlineExceeded, GRPC.unavailable];
/** A server that has just begun, or whose database is away, also sends these. */
const OUTAGE = [...UNREACHABLE, GRPC.canceled, GRPC.unknown, GRPC.resourceExhausted, GRPC.aborted, GRPC.internal];
const PAUSED_STATUS = 8; // temporal.api.enums.v1.WorkflowExecutionStatus
const REFUSED_CREDENTIALS: readonly number[] = [GRPC.permissionDenied, GRPC.unauthenticated];

/** True if Temporal gave no definite response: trying again later may help. */
export function isOutage(error: unknown): boolean {
  if (error instanceof TemporalUnavailableError) return true;
  const code = grpcError(error)?.code;
  return code !== undefined && OUTAGE.includes(code);
}

/** True if the server takes this one request amiss; a missing search attribute is the namespace's fault. */
export function isRequestInvalid(error: unknown): boolean {
  return hasGrpcStatus(error, 'invalidArgument') && !/search attribute/i.test(grpcError(error)?.details ?? '');
}

/** True if the server does not have the method that was called. */
export function isUnimplemented(error: unknown): boolean {
  return hasGrpcStatus(error, 'unimplemented');
}

/** True if a request's deadline passed; the server knows the deadline too, and may be the first to end the call. */
export function isDeadlineExceeded(error: unknown): boolean {
  return hasGrpcStatus(error, 'deadlineExceeded') || hasGrpcStatus(error, 'canceled');
}

/** True if the server keeps a query or an update from workers because the workflow is paused. */
export function isPaused(error: unknown): boolean {
  if (error instanceof QueryRejectedError) return error.status === PAUSED_STATUS;
  return isUnfit(error, /is paused/i);
}

/** True if the server can't ask a closed run: no worker began it. No worker ever will. */
export function isClosedUnbegun(error: unknown): boolean {
  return isUnfit(error, /closed before WorkflowTaskStarted/i);
}

/** True if the server knows of no worker that polls, no worker answered in time, or a pause keeps all away. */
export function isNoAnswer(error: unknown): boolean {
  if (error instanceof TemporalUnavailableError || isPaused(error)) return true;
  const grpc = grpcError(error);
  if (grpc === undefined) return false;
  return (
    grpc.code === GRPC.deadlineExceeded || grpc.code === GRPC.failedPrecondition || /no poller/i.test(grpc.details)
  );
}

/**
 * True if the task that carried an update failed: for example, another message reached a run that was about to end or
 * to continue as new. The server then reports that to every caller of the update, and may give it to the next task.
 */
export function isTaskFailure(error: unknown): boolean {
  return isUnfit(error, /workflow task failure/i);
}

/** True if the workflow is in no state for the request, in such words. */
function isUnfit(error: unknown, words: RegExp): boolean {
  return hasGrpcStatus(error, 'failedPrecondition') && words.test(grpcError(error)?.details ?? '');
}

interface GrpcError {
  code: number;
  details: string;
}

/** The SDK wraps gRPC errors in its own. */
function grpcError(error: unknown): GrpcError | undefined {
  for (let inner = error; inner instanceof Error; inner = inner.cause) {
    if (isGrpcServiceError(inner)) return { code: inner.code, details: plainDetails(inner.details) };
  }
  return undefined;
}

/** gRPC's client adds its last try, and an empty note, to what it says of a server that it can't reach. */
function plainDetails(details: string): string {
  return details.replace(/\.? Last error: (?:Error: )?(.*?)\.? Resolution note: ?;?\s*$/s, ' ($1)');
}

/** A call that took too long. */
export function tooSlowError(client: Client, timeoutMs: number): TemporalUnavailableError {
  const text = `Temporal${placeOf(client)} did not answer within ${timeoutMs / 1_000} seconds`;
  return new TemporalUnavailableError(`${text}: check that the server runs and that TEMPORAL_ADDRESS names it`);
}

/** Why no connection could be made. */
export function toConnectError({ address, namespace }: { address: string; namespace: string }, cause: unknown): Error {
  const grpc = grpcError(cause);
  if (grpc !== undefined && REFUSED_CREDENTIALS.includes(grpc.code)) {
    const text = `Temporal at ${address} refuses the credentials: ${remedyFor(grpc, namespace)}`;
    return new TemporalCallError(text, { cause });
  }
  const why = grpc !== undefined && isNotListening(grpc) ? ', the connection is refused' : '';
  const text = `can not reach Temporal at ${address}, namespace "${namespace}"${why}`;
  const remedy = 'check TEMPORAL_ADDRESS, TLS, and that the server runs ("npm start" of agent-jobs starts one)';
  return new TemporalUnavailableError(`${text}: ${remedy}`, { cause });
}

/** An error of Temporal's own in words that say what to do; any other error as it is. */
export function toUserError(client: Client, error: unknown): unknown {
  const { namespace } = client.options;
  const grpc = grpcError(error);
  const isNamespaceMissing = grpc !== undefined && grpc.code === GRPC.notFound && /namespace/i.test(grpc.details);
  if (isNamespaceMissing || error instanceof NamespaceNotFoundError) {
    return new TemporalCallError(`Temporal has no namespace "${namespace}": check TEMPORAL_NAMESPACE`, {
      cause: error,
    });
  }
  if (grpc === undefined) return withoutGrpc(error);
  if (!isOfTemporal(error)) return error;
  const Kind = UNREACHABLE.includes(grpc.code) ? TemporalUnavailableError : TemporalCallError;
  return new Kind(`Temporal${placeOf(client)} did not take the call: ${remedyFor(grpc, namespace)}`, {
    cause: error,
    retryable: OUTAGE.includes(grpc.code),
  });
}

/** An error of the SDK that no answer of the server caused, in such words; any other error as it is. */
function withoutGrpc(error: unknown): unknown {
  // The SDK's converter knows of no keys.
  const [, encoding] = /^Unknown encoding: (.+)$/.exec(error instanceof ValueError ? error.message : '') ?? [];
  if (encoding !== undefined) {
    const text = `what was read is "${encoding}", for which this client has no key`;
    return new PayloadKeysError(`${text}: set PAYLOAD_KEYS_FILE, or give its codec`, { cause: error });
  }
  // The SDK makes it of each query that a worker could not answer.
  if (error instanceof QueryNotRegisteredError) {
    return new TemporalCallError(`no worker could answer: ${error.message}`, { cause: error });
  }
  if (!(error instanceof ServiceError)) return error;
  const { message } = error.cause instanceof Error ? error.cause : error;
  return new TemporalCallError(`Temporal could not be called: ${message}`, { cause: error });
}

function isOfTemporal(error: unknown): boolean {
  const isUpdate = error instanceof WorkflowUpdateRPCTimeoutOrCancelledError;
  return isUpdate || error instanceof ServiceError || isGrpcServiceError(error);
}

/** Temporal's own words, and what to do if that is known. */
function remedyFor({ code, details }: GrpcError, namespace: string): string {
  // An invalid value is one for an attribute of another type, which setup leaves alone.
  if (code === GRPC.invalidArgument && /^(?!invalid value).*search attribute/i.test(details)) {
    return `${details}; run "agent-jobs setup" once for namespace "${namespace}"`;
  }
  if (REFUSED_CREDENTIALS.includes(code)) {
    return `${details}; check TEMPORAL_API_KEY or the client certificate, and its rights in namespace "${namespace}"`;
  }
  if (UNREACHABLE.includes(code)) return `${details}; check that the server runs and that TEMPORAL_ADDRESS names it`;
  return details;
}

function placeOf(client: Client): string {
  const address = addressOf(client);
  return address && ` at ${address}`;
}
