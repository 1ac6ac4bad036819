/** The control of a sandbox: each command and what it does, the way in by HTTP, and the callers' side. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import * as z from 'zod';
import { apiKeySchema, rateLimitsSchema } from './access.js';
import type { ApiKey, ApiKeys, RateLimiter, RateLimits } from './access.js';
import { type FaultRule, type Faults, faultRuleSchema } from './faults.js';
import { type HttpResponse, jsonResponse, readBody, sendResponse } from './http.js';
import { jobScriptSchema, jobStepSchema, scriptRuleSchema } from './jobs.js';
import type { Jobs, JobScript, JobStep, ScriptRule } from './jobs.js';
import type { OperationCounts, RequestLog } from './request-log.js';
import { type Visitors, visitorSettingsSchema } from './visitors.js';

/** What a sandbox is composed of; its requests and its control reach all of it. */
export interface SandboxParts {
  now: () => number;
  jobs: Jobs;
  visitors: Visitors;
  keys: ApiKeys;
  limiter: RateLimiter;
  faults: Faults;
  requestLog: RequestLog;
  openConnections: () => number;
  log: (line: string) => void;
}

/** Counts since the start. */
export interface SandboxCounts {
  operations: OperationCounts;
  /** Connections that are open now, those of the control included. */
  openConnections: number;
}

const createsFilter = z.strictObject({ projectId: z.string().optional(), promptIncludes: z.string().optional() });
const messagesFilter = z.strictObject({ jobId: z.string().optional() });
const jobChange = jobStepSchema.extend({ id: z.string() });
const visitorChange = visitorSettingsSchema.extend({ projectId: z.string().optional() });
const dateRange = z.strictObject({ projectId: z.string(), dateFrom: z.string(), dateTo: z.string() });

/**
 * The commands of one sandbox: each is a method of `SandboxControl`, and a command that any language sends as
 * `POST <url>/__sandbox/<name>` with its argument as JSON. A wrong argument throws and changes nothing.
 */
export function controlCommands(parts: SandboxParts) {
  const { faults, jobs, keys, limiter, requestLog, visitors } = parts;
  return {
    /** Adds one fault rule after those already there; the first rule that applies wins. */
    addFault: (rule: FaultRule) => ({ id: faults.add(faultRuleSchema.parse(rule)) }),
    clearFaults: () => (faults.clear(), null),
    /** The rules, with how often each matched a request and injected its fault. */
    faults: () => faults.list(),
    /** Replaces the default script of jobs created from now on. */
    setScript: (script: JobScript) => (jobs.setDefaultScript(jobScriptSchema.parse(script)), null),
    /** Gives the next create, or those that match, a script of its own. */
    addScript: (rule: ScriptRule) => (jobs.addRule(scriptRuleSchema.parse(rule)), null),
    /** Puts a job into a state until the next message; an error if there is no such job. */
    setJob: (change: { id: string } & JobStep) => {
      const { id, ...step } = jobChange.parse(change);
      jobs.set(id, step);
      return null;
    },
    /** Creates that took effect, in order. */
    creates: (filter?: z.input<typeof createsFilter>) => {
      const { projectId, promptIncludes = '' } = createsFilter.parse(filter ?? {});
      const isWanted = projectId === undefined ? () => true : (id: string) => id === projectId;
      return jobs.creates().filter((create) => isWanted(create.projectId) && create.prompt.includes(promptIncludes));
    },
    /** Messages that took effect, in order per job. */
    messages: (filter?: z.input<typeof messagesFilter>) => jobs.messages(messagesFilter.parse(filter ?? {}).jobId),
    counts: (): SandboxCounts => ({
      operations: structuredClone(requestLog.counts),
      openConnections: parts.openConnections(),
    }),
    /** The last requests, oldest first; at most `keptRequests` of the options. */
    requests: () => requestLog.requests(),
    /** Replaces the accepted keys. */
    setKeys: (list: ApiKey[]) => (keys.replace(z.array(apiKeySchema).parse(list)), null),
    /** Replaces the limits and forgets the requests counted so far. */
    setRateLimits: (limits: RateLimits) => (limiter.replace(rateLimitsSchema.parse(limits)), null),
    /** Replaces what the visitor export shows, for one project or for all that have no settings of their own. */
    setVisitors: (change: z.input<typeof visitorChange>) => {
      const { projectId, ...settings } = visitorChange.parse(change);
      visitors.set(settings, projectId);
      return null;
    },
    /** What a complete export of the date range must hold. */
    expectedSnapshot: (range: z.input<typeof dateRange>) => visitors.expectedSnapshot(dateRange.parse(range)),
  };
}

type Commands = ReturnType<typeof controlCommands>;
type Command = (argument: unknown) => unknown;

/** The control of a sandbox, in this process or (by its URL) in another one. Every method is one command. */
export type SandboxControl = {
  [Name in keyof Commands]: (...argument: Parameters<Commands[Name]>) => Promise<ReturnType<Commands[Name]>>;
};

class Control {
  constructor(url: string) {
    return new Proxy(this, {
      // A promise that resolves with this reads its `then`.
      get: (_, name) => (name === 'then' ? undefined : (argument: unknown) => send(url, String(name), argument)),
    });
  }
}

/** The control of the sandbox with this URL. */
export const SandboxControl = Control as unknown as new (url: string) => SandboxControl;

/** A connection that a fault at `connect` resets has carried no command, so it is safe to try again. */
const MAX_ATTEMPTS = 5;

async function send(url: string, name: string, argument: unknown): Promise<unknown> {
  for (let tries = 1; ; tries++) {
    const request = { method: 'POST', body: JSON.stringify(argument ?? null) };
    const response = await fetch(`${url}/__sandbox/${name}`, request).catch((error: unknown) => {
      if (tries === MAX_ATTEMPTS) throw error;
    });
    if (!response) continue;
    const { result, error } = (await response.json()) as { result: unknown; error?: string };
    if (!response.ok) throw new Error(error ?? `sandbox control ${name}: ${response.status}`);
    return result;
  }
}

/** The same commands in this process. */
export function controlInProcess(commands: Commands): SandboxControl {
  const inProcess = Object.entries(commands).map(([name, run]) => [
    name,
    async (argument: unknown) => (run as Command)(argument),
  ]);
  return Object.fromEntries(inProcess) as SandboxControl;
}

/** The path before a command's name. */
export const CONTROL_PATH = '/__sandbox/';

/** Handles `POST /__sandbox/<name>`: 200 `{result}`, 400 `{error}`, 404, 405, and 403 for what a web page may send. */
export async function handleControl(
  commands: Commands,
  request: IncomingMessage,
  serverResponse: ServerResponse,
): Promise<void> {
  const body = await readBody(request);
  if (body === undefined) return;
  sendResponse(serverResponse, decline(request) ?? runCommand(commands, request.url!.slice(CONTROL_PATH.length), body));
}

/**
 * The control asks for no key, and any page that a developer visits can send requests to loopback. A browser names the
 * page as the origin of every POST, and an image or a link is a GET.
 */
function decline({ method, headers }: IncomingMessage): HttpResponse | undefined {
  if (headers.origin !== undefined || headers['sec-fetch-site'] !== undefined) {
    return jsonResponse(403, { error: 'the control takes no requests from web pages' });
  }
  if (method === 'POST') return undefined;
  return jsonResponse(405, { error: 'the control takes POST' }, { allow: 'POST' });
}

function runCommand(commands: Commands, name: string, body: Buffer): HttpResponse {
  if (!Object.hasOwn(commands, name)) {
    return jsonResponse(404, { error: `no command "${name}"; there are ${Object.keys(commands).join(', ')}` });
  }
  try {
    const argument = body.length === 0 ? null : (JSON.parse(body.toString()) as unknown);
    return jsonResponse(200, { result: (commands[name as keyof Commands] as Command)(argument) });
  } catch (error) {
    const words = error instanceof z.ZodError ? z.prettifyError(error) : String(error);
    return jsonResponse(400, { error: `${name}: ${words}` });
  }
}
