/** What all calls over one Temporal client share, and how the options of a single call go before it. */
import type { Client } from '@temporalio/client';
import type { CallOptions } from './temporal-call.js';
import type { WebUi } from './web-ui.js';

/** Takes what the client has to say; a method that throws harms no call. No prompt and no key is ever logged. */
export interface Logger {
  debug: LogMethod;
  info: LogMethod;
  warn: LogMethod;
  error: LogMethod;
}

type LogMethod = (message: string, meta: Record<string, unknown>) => void;

/** Of one `AgentJobs`. */
export interface ClientContext {
  client: Client;
  taskQueue: string;
  webUi: WebUi | null;
  /** The limit of calls that say none themselves; undefined: each has its default. */
  timeoutMs: number | undefined;
  logger: Logger;
}

/** The limits of a call: its own, else those of the client. */
export function limitsOf({ timeoutMs }: Pick<ClientContext, 'timeoutMs'>, options: CallOptions): CallOptions {
  return { signal: options.signal, timeoutMs: options.timeoutMs ?? timeoutMs };
}

/** The caller's logger, or none: what it throws is its own affair. */
export function loggerOf(given: Logger | null | undefined): Logger {
  const method = (level: keyof Logger): LogMethod => {
    return (message, meta) => {
      try {
        given?.[level](message, meta);
      } catch {
        // A full disk must not fail a start.
      }
    };
  };
  return { debug: method('debug'), info: method('info'), warn: method('warn'), error: method('error') };
}
