/** The control of a sandbox: for its callers, by HTTP, and each command with what it does. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import * as z from 'zod';
import { type ApiKey, apiKeySchema, type RateLimits, rateLimitsSchema } from './access.js';
import { type Chaos, chaosRules, chaosSchema, type FaultRule, parseFaultRule } from './armed-faults.js';
import type { SandboxParts } from './handler.js';
import { type HttpResponse, jsonResponse, type Operation, readBody, sendResponse } from './http.js';
import { type JobScript, jobScriptSchema, type JobStep, jobStepSchema } from './job-life.js';
import { type CreateRecord, type MessageRecord, type ScriptRule, scriptRuleSchema } from './jobs.js';
import type { ConnectionCount, OperationCount } from './request-log.js';
import { visitorSettingsSchema } from './visitor-rows.js';

type Remote = {
  [Name in keyof ControlCommands]: (
    ...argument: Parameters<ControlCommands[Name]>
  ) => Promise<ReturnType<ControlCommands[Name]>>;
};

/** Carries one command to a sandbox; rejects with the sandbox's message where it refuses. */
type SendCommand = (name: string, argument: unknown) => Promise<unknown>;

class Control {
  constructor(urlOrSend: string | SendCommand) {
    const send = typeof urlOrSend === 'string' ? sendOverHttp(urlOrSend) : urlOrSend;
    return new Proxy(this, {
      get(control, name) {
        // A promise asks what it is given for a `then`.
        const isCommand = typeof name === 'string' && name !== 'then' && !(name in control);
        return isCommand ? (argument?: unknown) => send(name, argument) : (Reflect.get(control, name) as unknown);
      },
    });
  }
}

/** The control of a sandbox, in this process or (by its URL) in another one. Every method is one command. */
export const SandboxControl = Control as unknown as new (urlOrSend: string | SendCommand) => Remote;
export type SandboxControl = Remote;

/** A connection that a fault at `connect` resets has carried no command, so a retry is safe. */
const MAX_ATTEMPTS = 5;

function sendOverHttp(url: string): SendCommand {
  return async (name, argument) => {
    const response = await post(`${url}/__sandbox/${name}`, JSON.stringify(argument ?? null));
    const { result, error } = (await response.json()) as { result: unknown; error?: string };
    if (!response.ok) throw new Error(error ?? `sandbox control ${name}: ${response.status}`);
    return result;
  };
}

async function post(url: string, body: string): Promise<Response> {
  for (let tries = 1; ; tries++) {
    try {
      return await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
    } catch (error) {
      if (tries === MAX_ATTEMPTS) throw error;
    }
  }
}

/** Runs commands in this process, with the same checks and the same copies as over HTTP. */
export function sendInProcess(commands: ControlCommands): SendCommand {
  return async (name, argument) => {
    const command = commands[name as keyof ControlCommands] as (argument: unknown) => unknown;
    return structuredClone(command(structuredClone(argument)));
  };
}

export interface ControlOptions {
  commands: ControlCommands;
  /**
   * Host names with a dot that a request may come under. Addresses, `localhost` and names without a dot always may: no
   * web page's domain is one.
   */
  allowedHosts: readonly string[];
}

/**
 * Handles `POST /__sandbox/<name>`: 200 `{result}`, 400 `{error}`, 404 for an unknown command, 403 for a request that a
 * web page may have sent, 405 for another method.
 */
export async function handleControl(
  { commands, allowedHosts }: ControlOptions,
  name: string,
  request: IncomingMessage,
  serverResponse: ServerResponse,
): Promise<void> {
  const body = await readBody(request);
  if (body === undefined) return;
  const refusal = refuse(request, allowedHosts);
  if (refusal) return sendResponse(serverResponse, refusal);
  sendResponse(
    serverResponse,
    Buffer.isBuffer(body) ? runCommand(commands, name, body) : jsonResponse(413, { error: 'too large' }),
  );
}

/** The control asks for no key, and any page that a developer visits can send requests to loopback. */
function refuse({ method, headers }: IncomingMessage, allowedHosts: readonly string[]): HttpResponse | undefined {
  // Only browsers send these two; no page of ours uses the control.
  if (headers.origin !== undefined || headers['sec-fetch-site'] !== undefined) {
    return jsonResponse(403, { error: 'the control takes no requests from web pages' });
  }
  // An image or a link is a GET, and some browsers give it no origin.
  if (method !== 'POST') return jsonResponse(405, { error: 'the control takes POST' }, { allow: 'POST' });
  if (isOwnHost(headers.host, allowedHosts)) return undefined;
  return jsonResponse(403, { error: 'the control is not known under this host name; name it in allowedHosts' });
}

/** A page can have its own domain point here, but neither an address, `localhost` nor a name without a dot. */
function isOwnHost(host: string | undefined, allowedHosts: readonly string[]): boolean {
  if (!host || !URL.canParse(`http://${host}`)) return false;
  const { hostname } = new URL(`http://${host}`);
  const isAddress = hostname.startsWith('[') || isIP(hostname) !== 0;
  return isAddress || !hostname.includes('.') || allowedHosts.some((allowed) => allowed.toLowerCase() === hostname);
}

function runCommand(commands: ControlCommands, name: string, body: Buffer): HttpResponse {
  if (!Object.hasOwn(commands, name)) {
    return jsonResponse(404, { error: `no command "${name}"; there are ${Object.keys(commands).join(', ')}` });
  }
  const command = commands[name as keyof ControlCommands] as (argument: unknown) => unknown;
  try {
    return jsonResponse(200, { result: command(body.length === 0 ? null : JSON.parse(body.toString('utf8'))) });
  } catch (error) {
    const words = error instanceof z.ZodError ? z.prettifyError(error) : String(error);
    return jsonResponse(400, { error: `${name}: ${words}` });
  }
}

/** Counts since the start or the last `resetCounts`. */
export interface SandboxCounts {
  operations: Record<Operation | 'other', OperationCount>;
  connections: ConnectionCount;
  /** Injected faults by kind. */
  faults: Record<string, number>;
  /** Requests to the default target of `redirect` faults. */
  redirectTargetVisits: number;
  jobs: number;
  messages: number;
}

/** Which part of a list; default: all of it. */
export interface Paging {
  offset?: number | undefined;
  limit?: number | undefined;
}

const paging = { offset: z.int().min(0).optional(), limit: z.int().min(0).optional() };
const jobId = named('id', z.string());
const createsFilter = z.strictObject({
  projectId: z.string().optional(),
  promptIncludes: z.string().optional(),
  ...paging,
});
const messagesFilter = z.strictObject({ jobId: z.string().optional(), ...paging });
const requestsFilter = z.strictObject({ limit: z.int().min(1).optional() });
const jobChange = jobStepSchema.extend({ id: z.string() });
const keyList = named('keys', z.array(apiKeySchema));
const visitorChange = visitorSettingsSchema.extend({ projectId: z.string().optional() });
const windowSchema = z.strictObject({ projectId: z.string(), dateFrom: z.string(), dateTo: z.string() });
const time = named('ms', z.number().min(0));

/** An argument alone, as the method takes it, or in an object under its name. */
function named<Name extends string, Schema extends z.ZodType>(name: Name, schema: Schema) {
  const isAlone = (given: unknown) => typeof given !== 'object' || Array.isArray(given);
  const shape = { [name]: schema } as Record<Name, Schema>;
  const inObject = z.preprocess((given) => (isAlone(given) ? { [name]: given } : given), z.strictObject(shape));
  return { parse: (given: unknown) => (inObject.parse(given) as Record<Name, z.output<Schema>>)[name] };
}

/** What the control of a sandbox can do; a wrong argument throws and changes nothing. */
type ControlCommands = ReturnType<typeof controlCommands>;

/**
 * The commands of one sandbox: each is a method of `SandboxControl`, and a command that any language sends as
 * `POST <url>/__sandbox/<name>` with its argument as JSON.
 */
export function controlCommands(parts: SandboxParts) {
  return { ...faultCommands(parts), ...jobCommands(parts), ...logCommands(parts), ...settingCommands(parts) };
}

function faultCommands({ faults }: SandboxParts) {
  return {
    /** Adds one fault rule after those already there; the first rule that applies wins. */
    addFault: (rule: FaultRule) => ({ id: faults.add(parseFaultRule(rule)) }),
    /** Adds faults of many kinds at random. */
    chaos: (chaos: Chaos) => ({ rules: chaosRules(chaosSchema.parse(chaos)).map((rule) => faults.add(rule)).length }),
    clearFaults: () => (faults.clear(), null),
    /** The rules, with how often each matched a request and injected its fault. */
    faults: () => faults.list(),
  };
}

function jobCommands({ jobs }: SandboxParts) {
  const known = (found: boolean, id: string) => {
    if (!found) throw new Error(`no job ${id}`);
    return null;
  };
  return {
    /** Replaces the default script of jobs created from now on. */
    setScript: (script: JobScript) => (jobs.setDefaultScript(jobScriptSchema.parse(script)), null),
    /** Gives the next create, or those that match, a script of its own. */
    addScript: (rule: ScriptRule) => (jobs.addRule(scriptRuleSchema.parse(rule)), null),
    /** Puts a job into a state until the next message; an error where there is no such job. */
    setJob: (change: { id: string } & JobStep) => {
      const { id, ...step } = jobChange.parse(change);
      return known(jobs.set(id, step), id);
    },
    /** Removes a job: requests for it get a 404 from now on. */
    removeJob: (given: string) => {
      const id = jobId.parse(given);
      return known(jobs.remove(id), id);
    },
    /** The current record, not counted as a read; null where there is no such job. */
    job: (id: string): unknown => jobs.peek(jobId.parse(id)) ?? null,
  };
}

function logCommands({ requestLog, connections, faults, jobs, redirectTarget }: SandboxParts) {
  return {
    /** Creates that took effect, in order. */
    creates: (filter?: z.input<typeof createsFilter>): CreateRecord[] => {
      const { projectId, promptIncludes, ...page } = createsFilter.parse(filter ?? {});
      const creates = [...jobs.creates()].filter(
        (create) =>
          (projectId === undefined || create.projectId === projectId) &&
          (promptIncludes === undefined || create.prompt.includes(promptIncludes)),
      );
      return pageOf(creates, page);
    },
    /** Messages that took effect, in order per job. */
    messages: (filter?: z.input<typeof messagesFilter>): MessageRecord[] => {
      const { jobId: id, ...page } = messagesFilter.parse(filter ?? {});
      return pageOf([...jobs.messages(id)], page);
    },
    counts: (): SandboxCounts => ({
      operations: requestLog.counts(),
      connections: connections.counts(),
      faults: faults.counts(),
      redirectTargetVisits: redirectTarget.visits,
      jobs: jobs.size,
      messages: jobs.messagesTaken,
    }),
    /** Resets the counts of requests, faults and redirect visits; jobs, messages and connections stay. */
    resetCounts: () => {
      requestLog.reset();
      faults.resetCounts();
      redirectTarget.visits = 0;
      return null;
    },
    /** The last requests, oldest first; at most `keptRequests` of the options. */
    requests: (filter?: z.input<typeof requestsFilter>) =>
      requestLog.requests(requestsFilter.parse(filter ?? {}).limit ?? Infinity),
  };
}

function settingCommands({ clock, keys, limiter, visitors, closeIdleConnections }: SandboxParts) {
  const now = () => new Date(clock.now()).toISOString();
  return {
    /** Replaces the accepted keys. */
    setKeys: (list: ApiKey[]) => (keys.replace(keyList.parse(list)), null),
    /** Replaces the limits and forgets the requests counted so far. */
    setRateLimits: (limits: RateLimits) => (limiter.replace(rateLimitsSchema.parse(limits)), null),
    /** Replaces what the visitor export shows, for one project or for all that have no settings of their own. */
    setVisitors: (change: z.input<typeof visitorChange>) => {
      const { projectId, ...settings } = visitorChange.parse(change);
      visitors.set(settings, projectId);
      return null;
    },
    /** What a complete export of the date range must hold once all its data have arrived. */
    expectedSnapshot: (range: z.input<typeof windowSchema>) => {
      const { projectId, dateFrom, dateTo } = windowSchema.parse(range);
      return visitors.expectedSnapshot(projectId, dateFrom, dateTo);
    },
    /** The sandbox's time, ISO 8601. */
    now,
    /** Moves the sandbox's time forward and returns the new time. */
    advance: (ms: number) => {
      clock.advance(time.parse(ms));
      return now();
    },
    /** Closes all idle connections at once. */
    closeIdleConnections: () => (closeIdleConnections(), null),
  };
}

function pageOf<T>(all: T[], { offset = 0, limit = Infinity }: Paging): T[] {
  return all.slice(offset, offset + limit);
}
