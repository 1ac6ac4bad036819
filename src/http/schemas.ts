/** The published schemas of the contract, and what is left of one where every client of tools must read it. */
import { readFileSync } from 'node:fs';
import type { JsonSchema } from '../contract/kinds.js';

/** `npm run docs:contract` writes it, of the types that are told. */
const SCHEMAS = new URL('../../docs/contract/agent-jobs.schema.json', import.meta.url);

/** What is read of a schema here. */
interface Shape extends JsonSchema {
  type?: string | readonly string[];
  description?: string;
  properties?: Properties;
  items?: JsonSchema;
  enum?: readonly unknown[];
}

/** Schemas by the names of their fields. */
export type Properties = Readonly<Record<string, JsonSchema>>;

/** All shapes by their names, as OpenAPI refers to them. */
export function contractSchemas(): Record<string, JsonSchema> {
  const text = readFileSync(SCHEMAS, 'utf8').replaceAll('"#/$defs/', '"#/components/schemas/');
  return (JSON.parse(text) as { $defs: Record<string, JsonSchema> }).$defs;
}

/** Each field of one type, without null, and with no keyword that only some clients read; the checks know more. */
export function plainSchema(schema: JsonSchema): JsonSchema {
  const { type = [], description, properties, items, enum: words, minimum, maximum, ...others } = schema as Shape;
  const { required, additionalProperties } = others;
  const isDuration = 'x-max-duration-ms' in others;
  return {
    type: isDuration ? 'string' : [type].flat()[0],
    description: isDuration ? `${description} A duration, such as "2 hours".` : description,
    ...(words && { enum: words.filter((word) => word !== null) }),
    ...(!isDuration && { minimum, maximum }),
    ...(items && { items: plainSchema(items) }),
    ...(properties && { properties: Object.fromEntries(entriesOf(properties)) }),
    ...{ required, additionalProperties },
  };
}

function entriesOf(properties: Properties): [name: string, schema: JsonSchema][] {
  return Object.entries(properties).map(([name, property]) => [name, plainSchema(property)]);
}
