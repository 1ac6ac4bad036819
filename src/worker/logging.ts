/** What a log line holds, and which of the SDK's lines are left out. */
import type { LogLevel as TemporalLogLevel } from '@temporalio/common';
import type { ActivityInterceptorsFactory, Logger as TemporalLogger } from '@temporalio/worker';
import { pino } from 'pino';
import type { Logger } from 'pino';
import type { LogFormat, LogLevel } from '../config.js';
import { contextIn, traceIdOf } from '../contract/trace-context.js';

export type { Logger } from 'pino';

/** Warnings of the SDK about what is intended: the exports role runs no workflows. */
const NO_WARNINGS: readonly string[] = ['No workflows registered, not polling for workflow tasks'];
/** Fields of the SDK's lines that hold whole tasks: their payloads may hold a prompt. */
const TASK_FIELDS: readonly string[] = ['jobs', 'start', 'task', 'taskEncoded', 'workflowInfo'];

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
export function bridgeToTemporal(logger: Logger): TemporalLogger {
  const log = (level: TemporalLogLevel, message: string, meta: object = {}) => {
    const shown = NO_WARNINGS.includes(message) ? 'debug' : (level.toLowerCase() as LogLevel);
    if (!logger.isLevelEnabled(shown)) return;
    const fields = Object.entries(meta).filter(([name]) => !TASK_FIELDS.includes(name));
    logger[shown](Object.fromEntries(fields), message);
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

/** Does the work at most once in `ms`: what happens all the time gives a line now and then. */
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
