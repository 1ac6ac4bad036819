/**
 * All routes, derived from the table of operations, with the two that are no operation: events and tools. And which
 * project and job a path names: only its decoded parts count, never how it begins.
 */
import { agentJobOf, agentJobWorkflowId } from '../contract.js';
import { InvalidInputError } from '../contract/errors.js';
import { ID, type JsonSchema } from '../contract/kinds.js';
import { type HttpCall, type Operation, OPERATIONS } from '../operations.js';
import { type Arguments, KEY, plainObject } from '../operations/arguments.js';
import { streamEvents } from './events.js';
import { Problem, readOr400 } from './problem.js';
import { type Answer, type Call, idempotencyKeyOf, waitOf } from './request.js';

/** One method of one path. */
export interface Route {
  readonly id: string;
  readonly method: 'GET' | 'POST';
  /** With the parts in curly brackets that `readAddress` reads. */
  readonly path: string;
  readonly pattern: RegExp;
  readonly summary: string;
  /** Null if it has streamed its answer. */
  readonly handle: (call: Call) => Promise<Answer | null>;
  readonly query: Arguments;
  readonly headers: readonly (keyof typeof HEADERS)[];
  /** Null if no body is read. */
  readonly body: JsonSchema | null;
  /** By status, what it may answer besides problems; null if there is no body. */
  readonly answers: Readonly<Record<number, JsonSchema | null>>;
}

/** What the headers of requests mean. */
export const HEADERS = {
  'Idempotency-Key': 'The key of the job, or the id of the follow-up: repeated with it, a request does nothing twice.',
  Prefer: '`wait=SECONDS`, at most 60: the answer comes once the run is over, or the outcome is known.',
  'Last-Event-ID': 'The id of the event that was seen last: it is not sent again.',
} as const;

const BASES = {
  project: ['/v1/projects/{projectId}'],
  job: ['/v1/projects/{projectId}/jobs/{key}', '/v1/jobs/{id}'],
} as const;

function routesOf(operation: Operation): Route[] {
  const { id, summary, of, http, arguments: all } = operation;
  if (http === null) return [];
  const { method, takes, answers, idempotencyKey, waits } = http;
  const { key: _, ...fields } = all;
  const headers = [...(idempotencyKey ? (['Idempotency-Key'] as const) : []), ...(waits ? (['Prefer'] as const) : [])];
  const query = takes === 'query' ? fields : {};
  const body = takes === 'body' ? plainObject(fields, { isClosed: true }) : null;
  const route = { id, method, summary, answers, headers, query, body, handle: handlerOf(operation, http) };
  return BASES[of].map((base) => at(base + http.path, route));
}

function handlerOf(operation: Operation, { idempotencyKey, waits = false, status = 200 }: HttpCall): Route['handle'] {
  return async (call) => {
    const { request, caller, service } = call;
    const given = idempotencyKey === undefined ? undefined : idempotencyKeyOf(request);
    if (idempotencyKey === 'key' && given === undefined) {
      throw new Problem(400, 'the header Idempotency-Key is missing: it is the key of the job');
    }
    const args = {
      ...call.args,
      ...(given !== undefined && { [idempotencyKey!]: call.args[idempotencyKey!] ?? given }),
    };
    const taken = { ...call, args, keyName: caller.name, waitMs: waits ? waitOf(request) : 0 };
    const body = await (operation.of === 'job' ? operation.run({ ...taken, job: call.job() }) : operation.run(taken));
    const isStart = idempotencyKey === 'key' && 'workflowId' in body;
    const headers = isStart ? { location: `${service.publicUrl ?? ''}${jobPath(String(body.workflowId))}` } : {};
    return { status: statusOf(body, status), headers, body };
  };
}

function statusOf(body: object, status: NonNullable<HttpCall['status']>): number {
  if (typeof status === 'number') return status;
  const isOne = Object.entries(body).some(([name, value]) => name === status.field && value === status.value);
  return isOne ? status.status : 200;
}

/** A route without its path. */
type Handled = Omit<Route, 'path' | 'pattern'>;

function at(path: string, route: Handled): Route {
  // A part is matched as it came, still encoded.
  return { ...route, path, pattern: new RegExp(`^${path.replace(/\{(\w+)\}/g, '(?<$1>[^/]*)')}$`) };
}

const EVENTS: Handled = {
  id: 'streamEvents',
  method: 'GET',
  query: {},
  headers: ['Last-Event-ID'],
  body: null,
  handle: streamEvents,
  summary: 'Stream the states of a job as they change, then its result',
  answers: { 200: { type: 'string' }, 204: null },
};

/** Each route under all of its addresses. */
export const ROUTES: readonly Route[] = [
  ...Object.values<Operation>(OPERATIONS).flatMap(routesOf),
  ...BASES.job.map((base) => at(`${base}/events`, EVENTS)),
];

/** The tools of an agent. Each checks the project of its arguments; the protocol has its own description. */
export const MCP_ROUTE = at('/mcp', {
  id: 'callTool',
  method: 'POST',
  summary: 'Call a tool',
  query: {},
  headers: [],
  body: {},
  answers: {},
  // The SDK is loaded when it is first called: few servers have agents.
  handle: async (call) => (await import('./mcp.js')).serveMcp(call),
});

/** Of a path below `/v1` that ends in a slash. */
export const ENDS_IN_SLASH = 'no path below /v1 ends in a slash; one that a key ends in is %2F';

/** What a path names; `projectId` is null if another client made up the workflow id. */
interface Address {
  readonly projectId: string | null;
  /** Null if the path names a project alone. */
  readonly workflowId: string | null;
}

/** The address of a path that names neither. */
export const NOWHERE: Address = { projectId: null, workflowId: null };

/** Decodes what a pattern found; throws a problem 400. */
export function readAddress({ projectId: project = '', key, id }: Record<string, string>): Address {
  if (key === '' || id === '') throw new Problem(400, `the path: ${ENDS_IN_SLASH}`);
  try {
    if (id !== undefined) return addressOfId(id);
    const projectId = ID.check(decode(project), 'projectId');
    return {
      projectId,
      workflowId: key === undefined ? null : agentJobWorkflowId(projectId, KEY.check(decode(key), 'key')),
    };
  } catch (error) {
    throw error instanceof InvalidInputError ? new Problem(400, `the path: ${error.message}`) : error;
  }
}

/** The second address of a job, which has no encoded slash that a proxy could decode. */
function jobPath(workflowId: string): string {
  return `/v1/jobs/${Buffer.from(workflowId).toString('base64url')}`;
}

function addressOfId(id: string): Address {
  const workflowId = Buffer.from(id, 'base64url').toString();
  if (jobPath(workflowId) !== `/v1/jobs/${id}` || !/^\P{Cc}+$/u.test(workflowId)) {
    throw new Problem(400, 'the path: the id must be the base64url of a workflow id, without padding');
  }
  const named = agentJobOf(workflowId);
  if (named === null) return { projectId: null, workflowId };
  KEY.check(named.key ?? 'attached', 'key');
  return { projectId: ID.check(named.projectId, 'projectId'), workflowId };
}

function decode(part: string): string {
  return readOr400('the path: a part of it is not percent-encoded UTF-8', () => decodeURIComponent(part));
}
