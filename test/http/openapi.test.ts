/** The OpenAPI document is one from which generators make clients: every part of it is named, described and used. */
import { readFile } from 'node:fs/promises';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { TOOLS } from '../../src/http/mcp.js';
import { openApi } from '../../src/http/openapi.js';

interface Schema {
  [keyword: string]: unknown;
  properties?: Record<string, Schema>;
  items?: Schema;
  enum?: unknown[];
}

interface Call {
  operationId: string;
  tags: string[];
  parameters: { name: string; description: string; schema: Schema }[];
  responses: Record<string, { description: string }>;
}

const document = openApi('1.2.3') as {
  openapi: string;
  info: { version: string };
  paths: Record<string, Record<string, Call>>;
  components: { schemas: Record<string, Schema> };
};
const { schemas } = document.components;
const calls = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, call]) => ({ name: `${method.toUpperCase()} ${path}`, path, call })),
);
const requests = Object.entries(schemas).filter(([name]) => name.endsWith('Request'));

test('docs/http.md names each parameter of the list', async () => {
  const [, lists = ''] = /^### Lists$([^]*?)^###/m.exec(await readFile('docs/http.md', 'utf8')) ?? [];
  const named = [...lists.matchAll(/`(\w+)`/g)].map(([, name]) => name);
  const { parameters } = document.paths['/v1/projects/{projectId}/jobs']!['get']!;
  const taken = parameters.map(({ name }) => name).filter((name) => name !== 'projectId');
  expect(taken.length).toBeGreaterThan(5);
  expect(named).toEqual(expect.arrayContaining(taken));
});

test('it names each call under its addresses', () => {
  const ofJob = (base: string) => [
    ...['', '/events'].map((rest) => `GET ${base}${rest}`),
    ...['/follow-ups', '/cancel', '/poll-now', '/resolve'].map((rest) => `POST ${base}${rest}`),
  ];
  expect([document.openapi, document.info.version]).toEqual(['3.1.0', '1.2.3']);
  expect(calls.map(({ name }) => name).toSorted()).toEqual(
    [
      ...['POST', 'GET'].map((method) => `${method} /v1/projects/{projectId}/jobs`),
      ...ofJob('/v1/projects/{projectId}/jobs/{key}'),
      ...ofJob('/v1/jobs/{id}'),
    ].toSorted(),
  );
});

test('each call has an id of its own, a tag, and its problems', () => {
  expect(new Set(calls.map(({ call }) => call.operationId)).size).toBe(calls.length);
  for (const { name, path, call } of calls) {
    expect(call.tags, name).toEqual(['jobs']);
    const named = path.endsWith('/jobs') ? [] : ['404', '504'];
    expect(Object.keys(call.responses), name).toEqual(expect.arrayContaining(['400', '401', '403', '429', ...named]));
    for (const { description } of Object.values(call.responses)) expect(description, name).toMatch(/^\S.{10,}$/);
  }
});

/** The keywords of JSON Schema that every generator and every client of tools reads. */
const WORDS: Record<string, string[]> = {
  string: ['enum', 'format', 'pattern', 'minLength'],
  number: ['minimum', 'maximum'],
  integer: ['minimum', 'maximum'],
  boolean: [],
  array: ['items'],
  object: ['properties', 'required', 'additionalProperties'],
};

/** What one of them would stumble over, or a reader would miss. */
function faultsOf(schema: Schema, path: string): string[] {
  const { type, properties = {}, items } = schema;
  const words = ['type', 'description', ...(WORDS[String(type)] ?? [])];
  const lacks = [
    ...(typeof type === 'string' && type in WORDS ? [] : ['one type']),
    ...(type === 'array' && !items ? ['items'] : []),
    ...(JSON.stringify(schema).includes('null') ? ['no null'] : []),
  ];
  return [
    ...[...Object.keys(schema).filter((word) => !words.includes(word)), ...lacks].map((fault) => `${path}: ${fault}`),
    ...(items ? faultsOf(items, `${path}[]`) : []),
    ...Object.entries(properties).flatMap(([name, property]) => [
      ...(/^\S.{10,}$/.test(String(property['description'])) ? [] : [`${path}.${name}: a description`]),
      ...faultsOf(property, `${path}.${name}`),
    ]),
  ];
}

test('each request, parameter and tool has one type for each field, no null, and a description', () => {
  expect(requests.map(([name]) => name)).toEqual(['ResolveJobRequest', 'SendFollowUpRequest', 'StartJobRequest']);
  const parameters = calls.flatMap(({ call }) => call.parameters);
  const tools = TOOLS.map(({ name, input }): [string, Schema] => [name, input]);
  const all = [...requests, ...tools, ...parameters.map(({ name, schema }): [string, Schema] => [name, schema])];
  expect(all.flatMap(([name, schema]) => faultsOf(schema, name))).toEqual([]);
  expect(parameters.filter(({ description }) => !/^\S.{10,}$/.test(description))).toEqual([]);
  expect(TOOLS[0]!.input['properties']).toMatchObject({
    polling: { properties: { min: { type: 'string', description: expect.stringContaining('such as "2 hours"') } } },
    onUnknownOutcome: { type: 'string', enum: ['ask', 'fail', 'retry'] },
    priority: { type: 'integer', minimum: 1, maximum: 5 },
  });
  expect(TOOLS[0]!.input['properties']).not.toHaveProperty('jobId');
});

/** All that a schema holds, at any depth. */
function inside(value: unknown): Schema[] {
  if (typeof value !== 'object' || value === null) return [];
  return [value as Schema, ...Object.values(value).flatMap(inside)];
}

test('no two words of an enum differ in case alone, and each schema is used', () => {
  const lists = inside(document).flatMap(({ enum: words }) => (Array.isArray(words) ? [words] : []));
  for (const words of lists) {
    expect(new Set(words.map((word) => String(word).toLowerCase())).size, String(words)).toBe(words.length);
  }
  const used = new Set(inside(document).map(({ $ref }) => String($ref).split('/').at(-1)));
  expect(Object.keys(schemas).filter((name) => !used.has(name))).toEqual([]);
});

test('an answer lists no words: a client of today takes those of a later release', () => {
  const isClosed = ({ enum: words, const: word, oneOf }: Schema) =>
    Array.isArray(words) || (word ?? oneOf) !== undefined;
  const answers = Object.entries(schemas).filter(([name]) => !name.endsWith('Request'));
  expect(answers.filter(([, schema]) => inside(schema).some(isClosed)).map(([name]) => name)).toEqual([]);
  const { JobState, AgentJobResult } = schemas;
  expect(JobState!.properties!['phase']).toEqual({
    type: 'string',
    description: 'One of creating, done, needsAttention, sending, watching; more may come.',
  });
  expect(AgentJobResult!.properties!['outcome']).toEqual({
    type: 'string',
    description: 'One of archived, completed, failed, abandoned, lost, timedOut; more may come.',
  });
});

test('an answer has no choice of two shapes, and requires nothing that may be null', () => {
  const answers = Object.entries(schemas).filter(([name]) => !name.endsWith('Request'));
  const all = answers.flatMap(([name, schema]) => inside(schema).map((part): [string, Schema] => [name, part]));
  const isNull = ({ type, anyOf }: Schema): boolean =>
    [type].flat().includes('null') || ((anyOf as Schema[] | undefined)?.some(isNull) ?? false);
  const choices = all.filter(
    ([, { anyOf }]) => Array.isArray(anyOf) && anyOf.filter((form) => !isNull(form)).length > 1,
  );
  expect(choices).toEqual([]);
  const needless = all.flatMap(([name, { required, properties }]) =>
    Array.isArray(required) && properties
      ? required.filter((field) => isNull(properties[field]!)).map((field) => `${name}.${field}`)
      : [],
  );
  expect(needless).toEqual([]);
  const { Job, JobFailure } = schemas as Record<string, Schema & { required: string[] }>;
  expect([Job!.required, JobFailure!.required]).toEqual([['workflowId'], ['type', 'message']]);
});

test('times are told as such, but for those of the upstream, which may be any text', () => {
  const { JobState, JobSummary, Waiting, Decision, JobRecord, ResolveJobRequest } = schemas;
  const times: [Schema, string][] = [
    [JobState!, 'startedAt'],
    [JobState!, 'lastChangeAt'],
    [JobSummary!, 'endedAt'],
    [Waiting!, 'until'],
    [Decision!, 'at'],
    [ResolveJobRequest!, 'since'],
  ];
  for (const [shape, field] of times) expect(shape.properties![field], field).toMatchObject({ format: 'date-time' });
  expect(JobSummary!.properties!['endedAt']).toEqual({ type: ['string', 'null'], format: 'date-time' });
  for (const field of ['createdAt', 'archivedAt']) expect(JobRecord!.properties![field]).not.toHaveProperty('format');
});

test('its schemas can be used, and a start is a prompt or a job id', () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema(document, 'openapi');
  for (const name of Object.keys(schemas)) {
    expect(ajv.getSchema(`openapi#/components/schemas/${name}`)).toBeTypeOf('function');
  }
  const isStart = ajv.getSchema('openapi#/components/schemas/StartJobRequest')!;
  for (const body of [{ prompt: 'x', deadline: '1 hour' }, { jobId: 'j' }]) expect(isStart(body)).toBe(true);
  for (const wrong of [{ prompt: 1 }, { prompt: 'x', deadlin: '1 hour' }]) expect(isStart(wrong)).toBe(false);
  // Readers of YAML take no such control characters, and it is sent as it is.
  expect(JSON.stringify(document)).not.toMatch(/[\u007f-\u009f]/);
});
