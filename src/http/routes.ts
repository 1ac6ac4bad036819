/** All routes: the one table of which the server finds the handler and what it takes, and OpenAPI is made. */
import { ADOPT, ATTACH_JOB, ATTRIBUTION, CREATE_JOB, FOLLOW_UP, SETTLE } from '../agent-job/fields.js';
import { type JsonSchema, schemaOf, TEXT } from '../contract/kinds.js';
import { JOBS_QUERY } from './bodies.js';
import { streamEvents } from './events.js';
import { cancelJob, followUp, getJob, listJobs, pollNow, resolveJob, startJob } from './jobs.js';
import type { Answer, Call, readQuery } from './request.js';

/** One method of one path. */
export interface Route {
  readonly method: 'GET' | 'POST';
  /** With the parts in curly brackets that `readAddress` reads. */
  readonly path: string;
  readonly summary: string;
  /** Null where it has answered itself. */
  readonly handle: (call: Call) => Promise<Answer | null>;
  readonly query?: Parameters<typeof readQuery>[1];
  readonly headers?: readonly (keyof typeof HEADERS)[];
  /** `shown` tells forms apart that `schema` has in one. */
  readonly body?: { readonly schema: JsonSchema; readonly shown?: JsonSchema };
  /** By status, what it may answer besides problems; null where there is no body. */
  readonly answers: Readonly<Record<number, JsonSchema | null>>;
}

/** What the headers of requests mean. */
export const HEADERS = {
  'Idempotency-Key': 'The key of the job, or the id of the follow-up: repeated with it, a request does nothing twice.',
  Prefer: '`wait=SECONDS`, at most 60: the answer comes once the run is over, or the fate is known.',
  'Last-Event-ID': 'The id of the event that was seen last: it is not told again.',
} as const;

type More = Omit<Route, 'method' | 'path' | 'summary' | 'handle'>;

function get(path: string, summary: string, handle: Route['handle'], more: More): Route {
  return { method: 'GET', path, summary, handle, ...more };
}

function post(path: string, summary: string, handle: Route['handle'], more: More): Route {
  return { method: 'POST', path, summary, handle, ...more };
}

/** A shape of docs/contract/agent-jobs.schema.json. */
function shape(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

const TEXT_OR_NULL: JsonSchema = { type: ['string', 'null'] };
const ANY_OBJECT: JsonSchema = { type: 'object' };
const STATE: JsonSchema = { anyOf: [shape('JobState'), { type: 'null' }] };
const FAILURE = objectOf({ failure: objectOf({ type: TEXT.schema(), message: TEXT.schema(), details: {} }) });
const RESULT: JsonSchema = { anyOf: [shape('AgentJobResult'), FAILURE, { type: 'null' }] };
const JOB = objectOf({ key: TEXT_OR_NULL, workflowId: TEXT.schema(), state: STATE, result: RESULT });
const STARTED = objectOf({ key: TEXT.schema(), workflowId: TEXT.schema(), isNew: { type: 'boolean' }, state: STATE });
const JOB_PAGE = objectOf({ jobs: { type: 'array', items: ANY_OBJECT }, nextCursor: TEXT_OR_NULL });
const QUEUED = objectOf({ id: TEXT.schema(), state: TEXT.schema() });

/** The schema of an object that has all of these fields. */
export function objectOf(properties: Record<string, JsonSchema>): JsonSchema {
  return { type: 'object', properties, required: Object.keys(properties) };
}

const { projectId: _, ...CREATE } = CREATE_JOB;
const { projectId: __, ...ATTACH } = ATTACH_JOB;
const START = { schema: schemaOf(CREATE), shown: { oneOf: [schemaOf(CREATE), schemaOf(ATTACH)] } };
const DECISION = schemaOf({ ...SETTLE, ...ADOPT, ...ATTRIBUTION });

const OF_PROJECT: readonly Route[] = [
  post('/jobs', 'Start a job, or join the one that the key names', startJob, {
    headers: ['Idempotency-Key'],
    body: START,
    answers: { 200: STARTED, 201: STARTED },
  }),
  get('/jobs', 'List jobs', listJobs, {
    query: JOBS_QUERY,
    answers: { 200: JOB_PAGE },
  }),
];

const OF_JOB: readonly Route[] = [
  get('', 'Read a job: its state, and its result once its run is over', getJob, {
    headers: ['Prefer'],
    answers: { 200: JOB },
  }),
  get('/events', 'Stream the states of a job as they change, then its result', streamEvents, {
    headers: ['Last-Event-ID'],
    answers: { 200: {}, 204: null },
  }),
  post('/follow-ups', 'Send a follow-up', followUp, {
    headers: ['Idempotency-Key', 'Prefer'],
    body: { schema: schemaOf(FOLLOW_UP) },
    answers: { 200: shape('FollowUpAnswer'), 202: QUEUED },
  }),
  post('/cancel', 'Ask the workflow to end; the remote job goes on', cancelJob, { answers: { 202: ANY_OBJECT } }),
  post('/poll-now', 'Read the job upstream at once', pollNow, { answers: { 202: ANY_OBJECT } }),
  post('/resolve', 'Settle a write in doubt', resolveJob, {
    body: { schema: DECISION, shown: shape('ResolveUnknownInput') },
    answers: { 200: shape('JobState') },
  }),
];

function below(base: string, routes: readonly Route[]): Route[] {
  return routes.map((route) => ({ ...route, path: base + route.path }));
}

/** The tools of an agent, each of which checks the project of its arguments; the protocol has its own description. */
export const MCP_ROUTE: Route = post('/mcp', 'Call a tool', callMcp, { body: { schema: {} }, answers: {} });

/** The SDK is loaded when it is first called: few servers have agents. */
async function callMcp(call: Call): Promise<Answer | null> {
  const { serveMcp } = await import('./mcp/server.js');
  return serveMcp(call);
}

/** Each route under all of its addresses. */
export const ROUTES: readonly Route[] = [
  ...below('/v1/projects/{projectId}', OF_PROJECT),
  ...below('/v1/projects/{projectId}/jobs/{key}', OF_JOB),
  ...below('/v1/jobs/{id}', OF_JOB),
];
