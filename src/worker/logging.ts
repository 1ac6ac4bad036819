/** What a log line holds, and which of the SDK's lines are left out. */
import type { LogLevel as TemporalLogLevel } from '@temporalio/common';
import type { ActivityInterceptorsFactory, Logger as TemporalLogger, NativeConnection } from '@temporalio/worker';
import { pino } from 'pino';
import type { Logger } from 'pino';
import type { LogFormat, LogLevel } from '../config.js';
import { contextIn, traceIdOf } from '../contract/trace-context.js';

export type { Logger } from 'pino';

/** Warnings of the SDK about what is intended: the exports role runs no workflows. */
const NO_WARNINGS: readonly string[] = ['No workflows registered, not polling for workflow tasks'];
/** Fields of the SDK's lines that hold whole tasks: their payloads may hold a prompt. */
const TASK_FIELDS: readonly string[] = ['jobs', 'start', 'task', 'taskEncoded', 'workflowInfo'];
const LOOKUP_LIMIT_MS = 2_000;
const MAX_CACHED_IDS = 1_000;

type LogMeta = { runId?: unknown; workflowId?: unknown };

/** JSON lines on standard output, or one readable line per event for a terminal. */
export function createLogger({ level, format }: { level: LogLevel; format: LogFormat }): Logger {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { error: serializeError },
  };
  const destination = pino.destination({ fd: 1, sync: true });
  return pino(options, format === 'json' ? destination : { write: (line) => destination.write(asText(line)) });
}

/** Lets the Temporal SDK, native part included, and activities and workflows log into the same lines. */
export function bridgeToTemporal(logger: Logger, workflowIds: WorkflowIds): TemporalLogger {
  const log = (level: TemporalLogLevel, message: string, meta: LogMeta = {}) => {
    const shown = NO_WARNINGS.includes(message) ? 'debug' : (level.toLowerCase() as LogLevel);
    if (!logger.isLevelEnabled(shown)) return;
    const fields = withoutTasks(meta);
    const write = (more: object) => logger[shown](more, message);
    const { runId, workflowId } = meta;
    if (!isProblem(level) || typeof runId !== 'string' || workflowId !== undefined) return write(fields);
    void workflowIds.of(runId).then((id) => write(id === undefined ? fields : { workflowId: id, ...fields }));
  };
  return {
    log,
    trace: (message, meta) => log('TRACE', message, meta),
    debug: (message, meta) => log('DEBUG', message, meta),
    info: (message, meta) => log('INFO', message, meta),
    warn: (message, meta) => log('WARN', message, meta),
    error: (message, meta) => log('ERROR', message, meta),
  };
}

function withoutTasks(meta: LogMeta): LogMeta {
  return Object.fromEntries(Object.entries(meta).filter(([name]) => !TASK_FIELDS.includes(name)));
}

/** The SDK tells of each workflow task too, at lower levels: to look each run up would be a list request a job. */
function isProblem(level: TemporalLogLevel): boolean {
  return level === 'WARN' || level === 'ERROR';
}

/** An interceptor that gives an activity's log lines the trace id of its workflow's caller. */
export const addTraceIds: ActivityInterceptorsFactory = () => {
  let traceId: string | undefined;
  return {
    inbound: {
      execute(input, next) {
        const context = contextIn(input.headers);
        if (context) traceId = traceIdOf(context);
        return next(input);
      },
    },
    outbound: {
      getLogAttributes: (input, next) => next(traceId === undefined ? input : { ...input, trace_id: traceId }),
    },
  };
};

/** Looks up the workflow of a run: the SDK's native part logs the run id alone where a workflow task fails. */
export class WorkflowIds {
  readonly #ids = new Map<string, Promise<string | undefined>>();
  #read: ((runId: string) => Promise<string | undefined>) | undefined;

  /** From now on runs can be looked up. */
  connect(connection: NativeConnection, namespace: string): void {
    this.#read = async (runId) => {
      const { executions } = await connection.withDeadline(Date.now() + LOOKUP_LIMIT_MS, () =>
        connection.workflowService.listWorkflowExecutions({ namespace, query: `RunId = '${runId}'`, pageSize: 1 }),
      );
      return executions[0]?.execution?.workflowId ?? undefined;
    };
  }

  /** The workflow's id; undefined where Temporal does not answer in time. Never rejects. */
  async of(runId: string): Promise<string | undefined> {
    if (!this.#read || !/^[\w-]+$/.test(runId)) return undefined;
    const known = this.#ids.get(runId) ?? this.#read(runId).catch(() => undefined);
    if (this.#ids.size >= MAX_CACHED_IDS) this.#ids.clear();
    this.#ids.set(runId, known);
    const id = await known;
    // A run may be listed a moment later.
    if (id === undefined) this.#ids.delete(runId);
    return id;
  }
}

/** Does the work at most so often: what happens all the time gives a line now and then. */
export function atMostEvery<Args extends unknown[]>(ms: number, work: (...args: Args) => void): typeof work {
  let doneAt = -Infinity;
  return (...args) => {
    if (performance.now() - doneAt < ms) return;
    doneAt = performance.now();
    work(...args);
  };
}

// An error's other fields are left out: a failure's carry encoded payloads, which may hold a prompt.
function serializeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { name, message, stack, cause } = error;
  return { name, message, stack, ...(cause !== undefined && { cause: serializeError(cause) }) };
}

function asText(line: string): string {
  const { time, level, msg, error, ...rest } = JSON.parse(line) as Record<string, unknown>;
  const fields = Object.entries(rest).map(
    ([key, value]) => ` ${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  const stack = error ? `\n${String((error as Error).stack ?? JSON.stringify(error))}` : '';
  return `${String(time)} ${String(level).toUpperCase().padEnd(5)} ${String(msg)}${fields.join('')}${stack}\n`;
}
