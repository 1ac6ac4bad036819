/** The OpenAPI 3.1 document for generators of clients, made of the routes and the published schemas of the contract. */
import { type JsonSchema, TEXT } from '../../src/contract/kinds.js';
import { HEADERS, type Route, ROUTES } from '../../src/http/routes.js';
import { CONTRACT_SCHEMAS, plainSchema, type Shape } from '../../src/operations/arguments.js';

const TEXT_OR_NULL: JsonSchema = { type: ['string', 'null'] };
const TEXTS: JsonSchema = { type: 'array', items: TEXT.schema() };
const BOOLEAN: JsonSchema = { type: 'boolean' };

function ref(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

function orNull(form: JsonSchema): JsonSchema {
  return { anyOf: [form, { type: 'null' }] };
}

function objectOf(properties: Record<string, JsonSchema>): JsonSchema {
  return { type: 'object', properties, required: Object.keys(properties) };
}

const { EndedJobResult, UnfinishedJobResult } = CONTRACT_SCHEMAS as Record<string, Shape>;

/** Both forms of a result in one: a generated client would not know a further form. */
const RESULT: JsonSchema = {
  ...UnfinishedJobResult!,
  description: CONTRACT_SCHEMAS['AgentJobResult']!['description'],
  properties: {
    ...UnfinishedJobResult!.properties!,
    outcome: {
      type: 'string',
      enum: [EndedJobResult!, UnfinishedJobResult!].flatMap(({ properties }) => properties!['outcome']!.enum!),
    },
  },
};

const texts = (...names: string[]) => Object.fromEntries(names.map((name) => [name, TEXT.schema()]));
const textsOrNull = (...names: string[]) => Object.fromEntries(names.map((name) => [name, TEXT_OR_NULL]));

const JOB_FIELDS = {
  key: TEXT_OR_NULL,
  workflowId: TEXT.schema(),
  ...textsOrNull('url', 'outcome', 'prLink'),
  state: orNull(ref('JobState')),
};

/** What HTTP answers with, besides the shapes of the contract. */
const ANSWERS: Readonly<Record<string, JsonSchema>> = {
  Job: objectOf({ ...JOB_FIELDS, result: orNull(ref('AgentJobResult')), failure: orNull(ref('JobFailure')) }),
  JobFailure: objectOf({ type: TEXT.schema(), message: TEXT.schema(), details: {} }),
  StartedJob: objectOf({ ...JOB_FIELDS, key: TEXT.schema(), isNew: BOOLEAN }),
  JobPage: objectOf({ jobs: { type: 'array', items: ref('JobSummary') }, nextCursor: TEXT_OR_NULL }),
  JobSummary: objectOf({
    key: TEXT_OR_NULL,
    ...texts('workflowId', 'runId'),
    ...textsOrNull('title', 'projectId', 'jobId', 'phase', 'batch'),
    tags: TEXTS,
    metadata: { type: 'object', additionalProperties: TEXT.schema() },
    ...textsOrNull('status', 'outcome', 'waitingFor', 'prLink'),
    ...texts('workflowStatus', 'startedAt'),
    endedAt: TEXT_OR_NULL,
  }),
  QueuedFollowUp: objectOf({ id: TEXT.schema(), state: TEXT.schema(), checked: BOOLEAN }),
  Problem: {
    ...objectOf({
      ...texts('type', 'title'),
      status: { type: 'integer' },
      ...texts('detail', 'code'),
      retryable: BOOLEAN,
    }),
    description: 'What went wrong (RFC 9457); `retryable` if the same request may work later.',
  },
};

/** Times of ours. Those of the upstream's record may be any text. */
const TIME_FIELDS = ['at', 'startedAt', 'finishedAt', 'endedAt', 'lastChangeAt', 'since', 'until', 'lookAfter'];

/** All shapes as answers, made of what generated clients read without a failure. */
const SHAPES = JSON.parse(
  JSON.stringify({ ...CONTRACT_SCHEMAS, AgentJobResult: RESULT, ...ANSWERS }),
  (name, value: unknown) => (typeof value === 'object' && value !== null ? forClients(name, value as Shape) : value),
) as Record<string, JsonSchema>;

/** A generated client would fail on a further word of an enum, and takes the null of a required field for none. */
function forClients(name: string, schema: Shape): object {
  const { enum: words, required, properties, type, description, ...others } = schema;
  if (Array.isArray(required) && properties) {
    return { ...schema, required: required.filter((field) => !canBeNull(properties[field]!)) };
  }
  if (TIME_FIELDS.includes(name) && type !== undefined) return { ...schema, format: 'date-time' };
  if (!Array.isArray(words)) return schema;
  const list = `One of ${words.filter((word) => word !== null).join(', ')}; more may come.`;
  return { ...others, type, description: description === undefined ? list : `${description} ${list}` };
}

function canBeNull({ type, anyOf = [], $ref }: Shape): boolean {
  const isAnything = type === undefined && anyOf.length === 0 && $ref === undefined;
  return isAnything || [type].flat().includes('null') || anyOf.some(canBeNull);
}

/** The document; a server puts its own version and address in. One without keys ignores the key that it asks for. */
export function openApiDocument(): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of ROUTES) (paths[route.path] ??= {})[route.method.toLowerCase()] = operationOf(route);
  const bodies = ROUTES.flatMap(({ body, id }): [string, JsonSchema][] => (body ? [[bodyName(id), body]] : []));
  const schemas = { ...SHAPES, ...(Object.fromEntries(bodies) as Record<string, JsonSchema>) };
  return {
    openapi: '3.1.0',
    info: {
      title: 'agent-jobs',
      version: '',
      license: { name: 'MIT', identifier: 'MIT' },
      description:
        'Starts jobs of coding agents, follows them, and sends them further instructions. Answers may get further ' +
        'fields and words, which clients ignore.',
    },
    servers: [{ url: '/' }],
    tags: [{ name: 'jobs', description: 'Jobs, each under the address of its key and under that of its id.' }],
    security: [{ key: [] }],
    paths,
    components: {
      schemas: usedOf(paths, schemas),
      securitySchemes: { key: { type: 'http', scheme: 'bearer' } },
    },
  };
}

function bodyName(id: string): string {
  return `${id[0]!.toUpperCase()}${id.slice(1)}Request`;
}

/** The schemas that a part of the document refers to, and those that these refer to. */
function usedOf(part: object, schemas: Readonly<Record<string, JsonSchema>>): Record<string, JsonSchema> {
  const used: Record<string, JsonSchema> = {};
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    const name = String((value as { $ref?: string }).$ref ?? '').replace('#/components/schemas/', '');
    if (name !== '' && !(name in used)) visit((used[name] = schemas[name]!));
    Object.values(value).forEach(visit);
  };
  visit(part);
  return Object.fromEntries(Object.entries(used).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

const PARTS: Readonly<Record<string, JsonSchema>> = {
  projectId: { type: 'string', minLength: 1, description: "The upstream's project, percent-encoded." },
  key: { type: 'string', minLength: 1, description: 'The key of the job, percent-encoded.' },
  id: { type: 'string', pattern: '^[A-Za-z0-9_-]+$', description: "The base64url of the job's workflow id." },
};

const PROBLEMS: readonly [status: number, description: string, isOf: (route: Route) => boolean][] = [
  [400, 'The path, a header or the JSON is malformed.', () => true],
  [401, 'No known key came with the request.', () => true],
  [403, 'The key is not for this project, or writes although it may only read (READ_ONLY_KEY).', () => true],
  [404, 'There is no such job.', isOfJob],
  [409, 'The job is not in a state for this call.', (route) => isOfJob(route) && route.method === 'POST'],
  [413, 'The body is too large.', hasBody],
  [415, 'The body is not application/json.', hasBody],
  [422, 'A field is wrong, or the key or id names another input.', (route) => hasBody(route) || 'limit' in route.query],
  [429, 'Too many requests; see Retry-After.', () => true],
  [503, 'Temporal does not answer; see Retry-After.', () => true],
  [504, 'No worker answered in time.', isOfJob],
];

function hasBody({ body }: Route): boolean {
  return body !== null;
}

function isOfJob({ path }: Route): boolean {
  return /\{(key|id)\}/.test(path);
}

function operationOf(route: Route): object {
  const { id, path, summary, body, answers } = route;
  const type = path.endsWith('/events') ? 'text/event-stream' : 'application/json';
  const responses = Object.entries(answers).map(([status, schema]) => [
    status,
    { description: schema ? summary : 'There is no more.', ...(schema && { content: { [type]: { schema } } }) },
  ]);
  const content = { 'application/problem+json': { schema: ref('Problem') } };
  const problems = PROBLEMS.filter(([, , isOf]) => isOf(route));
  return {
    operationId: `${id}${path.startsWith('/v1/jobs/') ? 'ById' : ''}`,
    tags: ['jobs'],
    summary,
    description: `${summary}.`,
    parameters: parametersOf(route),
    ...(body && { requestBody: { required: true, content: { 'application/json': { schema: ref(bodyName(id)) } } } }),
    responses: {
      ...(Object.fromEntries(responses) as object),
      ...Object.fromEntries(problems.map(([status, description]) => [status, { description, content }])),
      default: { description: 'Any other problem.', content },
    },
  };
}

function parametersOf({ path, query, headers, id }: Route): object[] {
  const parts = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => parameter(name, 'path', PARTS[name]!, true));
  const queries = Object.entries(query).map(([name, kind]) => parameter(name, 'query', plainSchema(kind.schema())));
  // The key of a start is the only header that must come.
  const read = headers.map((name) => {
    const isRequired = name === 'Idempotency-Key' && id === 'startJob';
    return parameter(name, 'header', { type: 'string', description: HEADERS[name] }, isRequired);
  });
  return [...parts, ...queries, ...read];
}

function parameter(name: string, place: string, { description, ...schema }: JsonSchema, required = false): object {
  return { name, in: place, required, description, schema };
}
