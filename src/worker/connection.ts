/** How a worker waits for Temporal, and which errors end its process instead. */
import { setTimeout as sleep } from 'node:timers/promises';
import { NativeConnection, type NativeConnectionOptions } from '@temporalio/worker';
import type { TemporalSettings } from '../config.js';
import { messageOf } from '../config/config-error.js';
import { GRPC_STATUS, grpcStatusOf } from '../temporal/grpc.js';
import type { Logger } from './logging.js';

const MIN_BETWEEN_TRIES_MS = 500;
const MAX_BETWEEN_TRIES_MS = 10_000;
/** A server that takes the connection and then says nothing is tried again. */
const ATTEMPT_LIMIT_MS = 30_000;
/** A namespace that was just registered takes some seconds to be seen everywhere. */
const NAMESPACE_GRACE_MS = 15_000;

/** The namespace, the permission or the address is wrong: no retry helps. */
class TemporalSettingsError extends Error {
  override readonly name = 'TemporalSettingsError';
}

/**
 * Connects once Temporal answers for the namespace; throws TemporalSettingsError if no retry will help. While it
 * waits, each try has the credentials of `read`: those of the first one may expire. Address and namespace stay.
 */
export async function connectTemporal(
  settings: TemporalSettings,
  log: Logger,
  read: () => TemporalSettings = () => settings,
): Promise<NativeConnection> {
  const { address, namespace } = settings;
  const startedAt = Date.now();
  for (let waitMs = MIN_BETWEEN_TRIES_MS; ; waitMs = Math.min(waitMs * 2, MAX_BETWEEN_TRIES_MS)) {
    try {
      return await connectOnce(namespace, { ...read().connectionOptions, address });
    } catch (error) {
      const remedy = remedyFor(error, Date.now() - startedAt);
      if (remedy !== undefined) throw settingsError(settings, remedy, error);
      log.warn({ address, namespace, reason: messageOf(error), nextTryInMs: waitMs }, 'Temporal is not there yet');
      await sleep(waitMs);
    }
  }
}

/** One bounded call that shows whether the server answers for the namespace. */
export function reachNamespace(connection: NativeConnection, namespace: string, deadline: number): Promise<unknown> {
  return connection.withDeadline(deadline, () => connection.workflowService.describeNamespace({ namespace }));
}

/** Connects, and makes a call to the namespace; throws if either fails or takes too long. */
async function connectOnce(namespace: string, options: NativeConnectionOptions): Promise<NativeConnection> {
  const connection = await withinLimit(NativeConnection.connect(options));
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

/** Answers of the server that no retry mends, by their gRPC code and by the native client's words for them. */
const FATAL_ANSWERS: [code: number, words: RegExp, remedy: string][] = [
  [
    GRPC_STATUS.unauthenticated,
    /does not have valid authentication credentials/,
    'the credentials are refused: check TEMPORAL_API_KEY or the client certificate',
  ],
  [
    GRPC_STATUS.permissionDenied,
    /does not have permission to execute/,
    'the credentials have no rights here: check TEMPORAL_NAMESPACE and what TEMPORAL_API_KEY or the certificate may do',
  ],
  [GRPC_STATUS.invalidArgument, /ParseError/, 'check the TEMPORAL_* settings'],
];

/** Failures to connect that no retry mends. The native client names them in its message alone. */
const FATAL_FAILURES: [words: RegExp, remedy: string][] = [
  [
    /received fatal alert|AlertReceived\(/,
    'the server refuses the TLS connection: check TEMPORAL_TLS_CLIENT_CERT_* and TEMPORAL_TLS_CLIENT_KEY_*',
  ],
  [
    /InvalidCertificate\(/,
    "the server's certificate is not trusted: check TEMPORAL_TLS_SERVER_CA_CERT_* and TEMPORAL_TLS_SERVER_NAME",
  ],
  [
    /NativeCertsNotFound/,
    'this machine has no root certificates: install ca-certificates, or set TEMPORAL_TLS_SERVER_CA_CERT_PATH',
  ],
  [/InvalidContentType/, 'the server speaks no TLS: check TEMPORAL_ADDRESS, or set TEMPORAL_TLS=false'],
  [/H2NotNegotiated/, 'the server speaks no gRPC: check TEMPORAL_ADDRESS'],
  [/CONNECT call failed with status: 407/, 'the proxy wants credentials: check TEMPORAL_PROXY'],
];

/** What to do if no retry will help; undefined if one may. */
function remedyFor(error: unknown, elapsedMs: number): string | undefined {
  const code = grpcStatusOf(error);
  if (code === GRPC_STATUS.notFound && elapsedMs > NAMESPACE_GRACE_MS) return 'check TEMPORAL_NAMESPACE';
  if (error instanceof TypeError) return 'check the TEMPORAL_* settings';
  if (code !== undefined) return FATAL_ANSWERS.find(([fatal]) => fatal === code)?.[2];
  const words = messageOf(error);
  const answer = FATAL_ANSWERS.find(([, pattern]) => pattern.test(words));
  return answer?.[2] ?? FATAL_FAILURES.find(([pattern]) => pattern.test(words))?.[1];
}

function settingsError(
  { address, namespace }: TemporalSettings,
  remedy: string,
  error: unknown,
): TemporalSettingsError {
  const text = `Temporal at ${address}, namespace ${namespace}: ${remedy} (${messageOf(error)})`;
  return new TemporalSettingsError(text, { cause: error });
}
