/**
 * What callers give: settings of a client, the job to start or attach to, and the options of a call. An unknown name is
 * invalid: nothing is sent. Workflows ignore such fields.
 */
import type { Client, ClientInterceptors } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { ADOPT, ATTRIBUTION, CREATE_JOB, OTHER_DECISION } from '../agent-job/fields.js';
import { parseResolution } from '../agent-job/input.js';
import type { AgentJobInput, AttachJobInput, Attribution, ResolveUnknownInput } from '../contract.js';
import { InvalidInputError } from '../contract/errors.js';
import { checkObject, isGiven, schemaOf, TEXT, type JsonSchema } from '../contract/kinds.js';
import { cutToBytes } from '../contract/shared.js';
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
  /** The web UI names jobs by keys, without prompts; default `AGENT_JOBS_HIDE_PROMPTS` for `connect`, else false. */
  hidePrompts?: boolean | null | undefined;
  /** The limit of each call that gives none itself, in milliseconds. Waits for an end have none. */
  timeoutMs?: number | null | undefined;
  /** Takes warnings of the client; default: nothing is logged. */
  logger?: Logger | null | undefined;
}

/** The server to connect to; what is left out comes from the environment or the Temporal profile that it names. */
export interface ConnectSettings extends SharedSettings {
  /** `host:port`; else `TEMPORAL_ADDRESS` or the profile. */
  address?: string | null | undefined;
  /** Else `TEMPORAL_NAMESPACE` or the profile. */
  namespace?: string | null | undefined;
  /** Encrypts what is sent; needed if the workers have `PAYLOAD_KEYS_FILE`. Default: nothing is encrypted. */
  dataConverter?: DataConverter | null | undefined;
  /** For Temporal's client: those of OpenTelemetry, for example, send the trace context of a call. */
  interceptors?: ClientInterceptors | null | undefined;
}

/** What to work over, if a service brings its own client. */
export interface AgentJobsSettings extends SharedSettings {
  client: Client;
}

/** Takes warnings that a call waits or is tried again; `console` is one. No warning holds a prompt. */
export interface Logger {
  warn: (message: string, meta: Record<string, unknown>) => void;
}

/** What all calls of one `AgentJobs` share. */
export interface ClientContext {
  client: Client;
  taskQueue: string;
  webUi: WebUi | null;
  hidePrompts: boolean;
  /** The limit of calls that give none themselves; undefined: each has its default. */
  timeoutMs: number | undefined;
  logger: Logger;
}

/** How long a call to Temporal may take, and what else ends it; neither ends the job. */
export interface CallOptions {
  /** The call ends with the signal's reason. */
  signal?: AbortSignal | null | undefined;
  /** Milliseconds; each call has a default, `Infinity` is none. */
  timeoutMs?: number | null | undefined;
}

/** What ends a wait. */
export interface WaitOptions {
  /** The wait ends with the signal's reason; the job goes on. */
  signal?: AbortSignal | null | undefined;
}

/** How what a caller wrote is checked. */
export interface InputOptions {
  /** Also send fields that this release does not know, to workers of a newer one; default false: they are invalid. */
  allowUnknown?: boolean | null | undefined;
}

/** All names that an object of ours may have; its type makes sure that none is missing. */
export type Names<T> = Readonly<Record<keyof T, true>>;

const SHARED_SETTINGS: Names<SharedSettings> = {
  taskQueue: true,
  webUiUrl: true,
  hidePrompts: true,
  timeoutMs: true,
  logger: true,
};
/** The names of ConnectSettings. */
export const CONNECT_SETTINGS: Names<ConnectSettings> = {
  ...SHARED_SETTINGS,
  address: true,
  namespace: true,
  dataConverter: true,
  interceptors: true,
};
/** The names of AgentJobsSettings. */
export const OWN_CLIENT_SETTINGS: Names<AgentJobsSettings> = { ...SHARED_SETTINGS, client: true };
/** The names of InputOptions. */
export const INPUT_OPTIONS: Names<InputOptions> = { allowUnknown: true };
/** The names of Attribution. */
export const ATTRIBUTION_OPTIONS: Names<Attribution> = { by: true, note: true };
const WAIT_OPTIONS: Names<WaitOptions> = { signal: true };
const CALL_OPTIONS: Names<CallOptions> = { signal: true, timeoutMs: true };

/** Throws InvalidInputError if an option, filter or setting is given that a call would not read. */
export function checkNames<T extends object>(given: T | null | undefined, what: string, names: Names<T>): void {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return;
  const unknown = Object.entries(given).find(([name, value]) => isGiven(value) && !Object.hasOwn(names, name));
  if (unknown !== undefined) throw unknownName(unknown[0], `is no ${what} of this call`, Object.keys(names));
}

/** Throws InvalidInputError for an option that a call does not have; `more` has those besides its limits. */
export function checkOptions(options: object | null | undefined, more: object = {}): void {
  checkNames<object>(options, 'option', { ...CALL_OPTIONS, ...more });
}

/** Throws InvalidInputError if a wait is given another option than its signal. */
export function checkWaitOptions(options: WaitOptions | null | undefined): void {
  checkNames(options, 'option', WAIT_OPTIONS);
}

/**
 * The limits of a call: its own, else those of the client, else its default. JavaScript may give null. Throws
 * InvalidInputError for an option that the call does not have; `more` has the names besides its limits.
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

/** Requests to create a job and to attach to one have fields of the same names. */
const REQUEST = schemaOf({ key: TEXT, ...CREATE_JOB });
const RESOLUTION = schemaOf({ ...OTHER_DECISION, ...ADOPT, ...ATTRIBUTION });

/** Checks that what is to be started is an object of known fields. Throws InvalidInputError. */
export function checkRequest<Request extends object>(request: unknown, options: InputOptions | null): Request {
  checkKnownFields(checkObject(request, 'request'), REQUEST, options);
  return request as Request;
}

/** Checks a decision about a write in doubt: a misspelt `since` would resolve another one. Throws InvalidInputError. */
export function checkResolution(resolution: ResolveUnknownInput): ResolveUnknownInput {
  const checked = parseResolution(resolution);
  checkNames<object>(resolution, 'field', RESOLUTION['properties'] as Names<object>);
  return checked;
}

/** Throws InvalidInputError for a field that the schema of the object does not name, at any depth. */
export function checkKnownFields(given: object, schema: JsonSchema, options: InputOptions | null, path = ''): void {
  const properties = schema['properties'] as Record<string, JsonSchema> | undefined;
  // The names of metadata are the caller's own; what is no object has no names.
  if (options?.allowUnknown || properties === undefined || Array.isArray(given)) return;
  for (const [name, value] of Object.entries(given)) {
    if (!isGiven(value)) continue;
    if (!Object.hasOwn(properties, name)) {
      const problem = `is no field that this release knows${options === null ? '' : ' (allowUnknown lets it pass)'}`;
      throw unknownName(name, problem, Object.keys(properties), path);
    }
    if (typeof value === 'object') checkKnownFields(value as object, properties[name]!, options, `${path}${name}.`);
  }
}

const SHOWN_BYTES = 100;

function unknownName(name: string, problem: string, known: readonly string[], path = ''): InvalidInputError {
  return new InvalidInputError(path + cutToBytes(name, SHOWN_BYTES), `${problem}: known are ${known.join(', ')}`);
}

const PLAIN = 'PAYLOAD_KEYS_FILE is set, but this client encrypts nothing: give connect a dataConverter with a codec';

/** The caller's converter. Warns if it encrypts nothing though keys are set, by the logger, else as the process. */
export function converterOf(
  { dataConverter, logger }: ConnectSettings,
  hasPayloadKeys: boolean,
): ConnectSettings['dataConverter'] {
  if (!hasPayloadKeys || dataConverter?.payloadCodecs?.length) return dataConverter;
  if (logger) loggerOf(logger).warn(PLAIN, {});
  else process.emitWarning(PLAIN);
  return dataConverter;
}

/** The caller's logger, or one that does nothing. */
export function loggerOf(given: Logger | null | undefined): Logger {
  // A full disk must not fail a start, nor end the process if the method is asynchronous.
  const warn = async (...args: Parameters<Logger['warn']>) => given?.warn(...args);
  return { warn: (...args) => void warn(...args).catch(() => {}) };
}
