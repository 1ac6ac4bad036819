/** The OpenAPI 3.1 document, made of the table of routes and the published schemas of the contract. */
import { ID, type JsonSchema, NO_CONTROL_CHARACTERS, TEXT } from '../contract/kinds.js';
import { HEADERS, objectOf, type Route, ROUTES } from './routes.js';
import { contractSchemas } from './schemas.js';

const PROBLEM = objectOf({
  ...{ type: TEXT.schema(), title: TEXT.schema(), status: { type: 'integer' }, detail: TEXT.schema() },
  ...{ code: TEXT.schema(), retryable: { type: 'boolean' } },
});

/** The document; with keys, callers need one. */
export function openApi({ version, keys }: { version: string; keys: object | null }): object {
  const hasKeys = keys !== null;
  const paths: Record<string, Record<string, object>> = {};
  for (const route of ROUTES) (paths[route.path] ??= {})[route.method.toLowerCase()] = operation(route);
  return {
    openapi: '3.1.0',
    info: { title: 'agent-jobs', version, license: { name: 'MIT', identifier: 'MIT' } },
    servers: [{ url: '/' }],
    paths,
    components: {
      schemas: { ...contractSchemas(), Problem: PROBLEM },
      ...(hasKeys && { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } }),
    },
    ...(hasKeys && { security: [{ key: [] }] }),
  };
}

/** What stands in a path. */
const PARTS: Readonly<Record<string, JsonSchema>> = {
  projectId: ID.schema(),
  key: { type: 'string', minLength: 1, pattern: NO_CONTROL_CHARACTERS },
  id: { type: 'string', pattern: '^[A-Za-z0-9_-]+$' },
};

/** As bodies are checked: without a field that is not named. */
function closed(schema: JsonSchema): JsonSchema {
  const { properties, oneOf } = schema as { properties?: Record<string, JsonSchema>; oneOf?: JsonSchema[] };
  if (oneOf) return { ...schema, oneOf: oneOf.map(closed) };
  if (!properties) return schema;
  const inner = Object.entries(properties).map(([name, property]) => [name, closed(property)]);
  return { ...schema, properties: Object.fromEntries(inner) as object, additionalProperties: false };
}

function operation(route: Route): object {
  const { path, summary, body, answers, handle } = route;
  const type = path.endsWith('/events') ? 'text/event-stream' : 'application/json';
  const responses = Object.entries(answers).map(([status, schema]) => [
    status,
    { description: summary, ...(schema && { content: { [type]: { schema } } }) },
  ]);
  const problem = { schema: { $ref: '#/components/schemas/Problem' } };
  return {
    operationId: `${handle.name}${path.startsWith('/v1/jobs/') ? 'ById' : ''}`,
    summary,
    parameters: parametersOf(route),
    ...(body && {
      requestBody: { required: true, content: { 'application/json': { schema: closed(body.shown ?? body.schema) } } },
    }),
    responses: {
      ...(Object.fromEntries(responses) as object),
      default: { description: 'A problem (RFC 9457)', content: { 'application/problem+json': problem } },
    },
  };
}

function parametersOf({ path, query = {}, headers = [], method }: Route): object[] {
  const parts = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    ...{ name, in: 'path', required: true, schema: PARTS[name] },
  }));
  const queries = Object.entries(query).map(([name, kind]) => ({ name, in: 'query', schema: kind.schema() }));
  // The key of a start is the only header that must come.
  const required = method === 'POST' && path.endsWith('/jobs');
  const read = headers.map((name) => {
    const schema = name === 'Idempotency-Key' ? PARTS['key'] : TEXT.schema();
    return { name, in: 'header', required, description: HEADERS[name], schema };
  });
  return [...parts, ...queries, ...read];
}
