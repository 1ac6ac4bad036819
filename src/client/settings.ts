/**
 * What callers give: where to connect, over which client to work, and which job to start or attach to. And what all
 * calls of one client share.
 */
import type { Client, ClientInterceptors } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import type { AgentJobInput, AttachJobInput } from '../contract.js';
import type { Names } from './known-fields.js';
import { type CallOptions, checkOptions } from './temporal-call.js';
import type { WebUi } from './web-ui.js';

/** A job to start; the same key and input again answer with the same job. */
export type StartRequest = AgentJobInput & { key: string };

/** A job to attach to; without a key, attaching to the same job again answers with the same workflow. */
export type AttachRequest = AttachJobInput & { key?: string | null | undefined };

/** A job by its workflow id, its project and key, or its project and the id of the job that was attached. */
export type JobName = string | { projectId: string; key: string } | { projectId: string; jobId: string };

/** What holds for all calls of a client. */
interface SharedSettings {
  /** The task queue of the workers; default `AGENT_JOBS_TASK_QUEUE` for `connect`, else `agent-jobs`. */
  taskQueue?: string | null | undefined;
  /** Address of Temporal's web UI, for links; default `AGENT_JOBS_WEB_UI_URL` for `connect`, else Temporal Cloud’s. */
  webUiUrl?: string | null | undefined;
  /**
   * Lists and pages of the web UI name jobs by their keys, and show nothing of prompts; default
   * `AGENT_JOBS_HIDE_PROMPTS` for `connect`, else false.
   */
  hidePrompts?: boolean | null | undefined;
  /** The limit of each call that gives none itself, in milliseconds. Waits for an end have none. */
  timeoutMs?: number | null | undefined;
  /** Takes what the client has to say; default: nothing is logged. */
  logger?: Logger | null | undefined;
}

/** The server to connect to; what is left out comes from the environment or the Temporal profile that it names. */
export interface ConnectSettings extends SharedSettings {
  /** `host:port`; else `TEMPORAL_ADDRESS` or the profile. */
  address?: string | null | undefined;
  /** Else `TEMPORAL_NAMESPACE` or the profile. */
  namespace?: string | null | undefined;
  /** Encrypts what is sent; needed where the workers have `PAYLOAD_KEYS_FILE`. Default: nothing is encrypted. */
  dataConverter?: DataConverter | null | undefined;
  /** For Temporal's client: those of OpenTelemetry, for example, send the trace context of a call. */
  interceptors?: ClientInterceptors | null | undefined;
}

const SHARED: Names<SharedSettings> = {
  taskQueue: true,
  webUiUrl: true,
  hidePrompts: true,
  timeoutMs: true,
  logger: true,
};
export const CONNECT_SETTINGS: Names<ConnectSettings> = {
  ...SHARED,
  address: true,
  namespace: true,
  dataConverter: true,
  interceptors: true,
};
export const OWN_CLIENT_SETTINGS: Names<AgentJobsSettings> = { ...SHARED, client: true };

const PLAIN = 'PAYLOAD_KEYS_FILE is set, but this client encrypts nothing: give connect a dataConverter with a codec';

/** The caller's; warns where it encrypts nothing though keys are set, by its logger, else as one of the process. */
export function converterOf(
  { dataConverter, logger }: ConnectSettings,
  hasPayloadKeys: boolean,
): ConnectSettings['dataConverter'] {
  if (!hasPayloadKeys || dataConverter?.payloadCodecs?.length) return dataConverter;
  if (logger) loggerOf(logger).warn(PLAIN, {});
  else process.emitWarning(PLAIN);
  return dataConverter;
}

/** What to work over, where a service brings its own client. */
export interface AgentJobsSettings extends SharedSettings {
  client: Client;
}

/** What all calls of one `AgentJobs` share. */
export interface ClientContext {
  client: Client;
  taskQueue: string;
  webUi: WebUi | null;
  hidePrompts: boolean;
  /** The limit of calls that say none themselves; undefined: each has its default. */
  timeoutMs: number | undefined;
  logger: Logger;
}

/**
 * The limits of a call: its own, else those of the client, else its default. JavaScript may give null. Throws
 * InvalidInputError where an option is none of the call's; `more` has the names of those besides its limits.
 */
export function limitsOf(
  { timeoutMs }: Pick<ClientContext, 'timeoutMs'>,
  options: CallOptions | null,
  more?: object,
  defaultMs?: number,
): CallOptions {
  checkOptions(options, more);
  return { signal: options?.signal, timeoutMs: options?.timeoutMs ?? timeoutMs ?? defaultMs };
}

/**
 * What the client says of itself: that it waits, tries again or goes on. What fails a call is its error, not logged. No
 * prompt is ever logged; `meta.workflowId` holds the job's key, and `meta.error` is what the client ran into.
 */

/** Takes what the client has to say; a method that throws harms no call. */
export interface Logger {
  /** What each call came to. */
  debug: LogMethod;
  /** What was troubled, and goes on. */
  info: LogMethod;
  /** What waits, or is tried again. */
  warn: LogMethod;
  /** Nothing yet: errors are thrown. */
  error: LogMethod;
}

type LogMethod = (message: string, meta: Record<string, unknown>) => void;

/** The caller's logger, or none: what it throws is its own affair. */
export function loggerOf(given: Logger | null | undefined): Logger {
  const method = (level: keyof Logger): LogMethod => {
    return (message, meta) => {
      // A full disk must not fail a start, nor end the process where the method is asynchronous.
      const tell = async () => given?.[level](message, meta);
      void tell().catch(() => {});
    };
  };
  return { debug: method('debug'), info: method('info'), warn: method('warn'), error: method('error') };
}
