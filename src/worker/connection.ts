import { setTimeout as sleep } from 'node:timers/promises';
import { isGrpcServiceError } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import type { TemporalSettings } from '../config.js';
import type { Logger } from './logging.js';

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;
/** A server that takes the connection and then says nothing is tried again. */
const ATTEMPT_LIMIT_MS = 30_000;
/** A namespace that was just registered takes some seconds to be seen everywhere. */
const NAMESPACE_GRACE_MS = 15_000;

/** Temporal answered that waiting won't help: the namespace, the permission or the address is wrong. */
export class TemporalRefusedError extends Error {
  override readonly name = 'TemporalRefusedError';
}

/** Connects as soon as Temporal answers for the namespace, however long that takes; throws TemporalRefusedError where it never will. */
export async function connectTemporal(settings: TemporalSettings, log: Logger): Promise<NativeConnection> {
  const { address, namespace } = settings;
  const startedAt = Date.now();
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
    try {
      return await connectOnce(settings);
    } catch (error) {
      if (isFinal(error, Date.now() - startedAt)) throw refused(settings, error);
      log.warn({ address, namespace, reason: reasonOf(error), nextTryInMs: waitMs }, 'Temporal is not there yet');
      await sleep(waitMs);
    }
  }
}

/** One bounded call that shows whether the server answers for the namespace. */
export function reachNamespace(connection: NativeConnection, namespace: string, deadline: number): Promise<unknown> {
  return connection.withDeadline(deadline, () => connection.workflowService.describeNamespace({ namespace }));
}

async function connectOnce({ connectionOptions, namespace }: TemporalSettings): Promise<NativeConnection> {
  const connection = await withinLimit(NativeConnection.connect(connectionOptions));
  try {
    await reachNamespace(connection, namespace, Date.now() + ATTEMPT_LIMIT_MS);
    return connection;
  } catch (error) {
    await connection.close();
    throw error;
  }
}

async function withinLimit(connecting: Promise<NativeConnection>): Promise<NativeConnection> {
  const limit = new AbortController();
  const late = sleep(ATTEMPT_LIMIT_MS, 'late' as const, { signal: limit.signal });
  try {
    const first = await Promise.race([connecting, late]);
    if (first !== 'late') return first;
  } finally {
    limit.abort();
    late.catch(() => {});
  }
  connecting.then((connection) => connection.close()).catch(() => {});
  throw new Error(`no answer within ${ATTEMPT_LIMIT_MS / 1_000} seconds`);
}

const NOT_FOUND = 5;
const REFUSALS = new Set([3, 7, 16]); // INVALID_ARGUMENT, PERMISSION_DENIED, UNAUTHENTICATED

function isFinal(error: unknown, elapsedMs: number): boolean {
  if (isGrpcServiceError(error)) {
    return REFUSALS.has(error.code) || (error.code === NOT_FOUND && elapsedMs > NAMESPACE_GRACE_MS);
  }
  // The native client names an address or a certificate that it can't read only in the text.
  return error instanceof TypeError || /PermissionDenied|Unauthenticated|ParseError/.test(reasonOf(error));
}

function refused({ address, namespace }: TemporalSettings, error: unknown): TemporalRefusedError {
  return new TemporalRefusedError(`Temporal at ${address}, namespace ${namespace}: ${reasonOf(error)}`, {
    cause: error,
  });
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
