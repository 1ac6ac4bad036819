import type { LogLevel as TemporalLogLevel } from '@temporalio/common';
import type { Logger as TemporalLogger } from '@temporalio/worker';
import { pino } from 'pino';
import type { Logger } from 'pino';
import type { LogFormat, LogLevel } from '../config.js';

import type { WorkflowNames } from './workflow-names.js';

export type { Logger } from 'pino';

/** What the SDK warns of and is meant so: the exports role runs no workflows. */
const NO_WARNINGS: readonly string[] = ['No workflows registered, not polling for workflow tasks'];

type LogMeta = { runId?: unknown; workflowId?: unknown };

/** JSON lines on standard output, or one readable line per event for a terminal. */
export function createLogger({ level, format }: { level: LogLevel; format: LogFormat }): Logger {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { error: describeError },
  };
  const destination = pino.destination({ fd: 1, sync: true });
  return pino(options, format === 'json' ? destination : { write: (line) => destination.write(asText(line)) });
}

/** Lets the Temporal SDK, native part included, and activities and workflows log into the same lines. */
export function bridgeToTemporal(logger: Logger, names: WorkflowNames): TemporalLogger {
  const write = (level: TemporalLogLevel, message: string, meta: object) =>
    logger[NO_WARNINGS.includes(message) ? 'debug' : (level.toLowerCase() as LogLevel)](meta, message);
  const log = (level: TemporalLogLevel, message: string, meta: LogMeta = {}) => {
    const { runId, workflowId } = meta;
    if (typeof runId !== 'string' || workflowId !== undefined) return write(level, message, meta);
    void names
      .of(runId)
      .then((name) => write(level, message, name === undefined ? meta : { workflowId: name, ...meta }));
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

// An error's other fields are left out: a failure's carry encoded payloads, which may hold a prompt.
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { name, message, stack, cause } = error;
  return { name, message, stack, ...(cause !== undefined && { cause: describeError(cause) }) };
}

function asText(line: string): string {
  const { time, level, msg, error, ...rest } = JSON.parse(line) as Record<string, unknown>;
  const fields = Object.entries(rest).map(
    ([key, value]) => ` ${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  const stack = error ? `\n${String((error as Error).stack ?? JSON.stringify(error))}` : '';
  return `${String(time)} ${String(level).toUpperCase().padEnd(5)} ${String(msg)}${fields.join('')}${stack}\n`;
}
