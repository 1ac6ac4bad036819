/** What callers over HTTP and agents rely on: the OpenAPI document and the tools, in the form that is compared. */
import type { JsonSchema } from '../../src/contract/kinds.js';
import { TOOLS } from '../../src/http/mcp.js';
import { openApiDocument } from './openapi.js';

/** One method of one path. */
interface HttpOperation {
  readonly id: string;
  readonly parameters: JsonSchema;
  readonly request: JsonSchema | null;
  /** By status. */
  readonly answers: Readonly<Record<string, JsonSchema | null>>;
}

/** All calls, as data. */
export interface Calls {
  readonly operations: Readonly<Record<string, HttpOperation>>;
  /** The arguments of each tool. */
  readonly tools: Readonly<Record<string, JsonSchema>>;
  /** The shapes to which they refer; those of requests end so. */
  readonly $defs: Readonly<Record<string, JsonSchema>>;
}

interface Content {
  readonly content?: Readonly<Record<string, { readonly schema: JsonSchema }>>;
}

interface Operation {
  readonly operationId: string;
  readonly parameters: readonly { readonly name: string; readonly required: boolean; readonly schema: JsonSchema }[];
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content>>;
}

/** Reads the calls out of the source. */
export function readCalls(): Calls {
  const text = JSON.stringify(openApiDocument()).replaceAll('#/components/schemas/', '#/$defs/');
  const { paths, components } = JSON.parse(text) as {
    paths: Record<string, Record<string, Operation>>;
    components: { schemas: Record<string, JsonSchema> };
  };
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => [`${method.toUpperCase()} ${path}`, toOperation(operation)]),
  );
  return {
    operations: Object.fromEntries(operations) as Calls['operations'],
    tools: Object.fromEntries(TOOLS.map(({ name, input }) => [name, input])),
    $defs: components.schemas,
  };
}

function toOperation({ operationId: id, parameters, requestBody, responses }: Operation): HttpOperation {
  const schemaOf = ({ content = {} }: Content) => Object.values(content)[0]?.schema ?? null;
  const answers = Object.entries(responses).map(([status, content]) => [status, schemaOf(content)]);
  return {
    id,
    parameters: {
      type: 'object',
      properties: Object.fromEntries(parameters.map(({ name, schema }) => [name, schema])),
      required: parameters.filter(({ required }) => required).map(({ name }) => name),
    },
    request: requestBody ? schemaOf(requestBody) : null,
    answers: Object.fromEntries(answers) as HttpOperation['answers'],
  };
}
