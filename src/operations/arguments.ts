/** What an operation takes: its arguments by name, how each is checked, and the schema that every reader takes. */
import { readFileSync } from 'node:fs';
import { ID, type JsonSchema, type Kind, schemaOf, TEXT, whole } from '../contract/kinds.js';
import { InvalidInputError } from '../contract/errors.js';

/** The published schemas, with the descriptions of the types: `npm run docs:contract` writes the file. */
const SCHEMAS = new URL('../../docs/contract/agent-jobs.schema.json', import.meta.url);
/** Of one answer. Our clients read larger pages themselves. */
const MAX_PAGE = 200;

/** Arguments by their names. */
export type Arguments = Readonly<Record<string, Pick<Kind<unknown, unknown>, 'check' | 'schema' | 'isOptional'>>>;

type GivenTo<Argument> = Argument extends { readonly given?: (value: infer Value) => unknown } ? Value : never;

/** What callers give for arguments: one that may be null may also be left out. */
export type Given<Fields> = {
  readonly [Name in keyof Fields as null extends GivenTo<Fields[Name]> ? never : Name]: GivenTo<Fields[Name]>;
} & {
  readonly [Name in keyof Fields as null extends GivenTo<Fields[Name]> ? Name : never]?:
    GivenTo<Fields[Name]> | undefined;
};

/** Arguments as a caller wrote them. */
export type Written = Readonly<Record<string, unknown>>;

/** Checks all arguments; throws InvalidInputError. */
export function checkArguments<Fields extends Arguments>(
  fields: Fields,
  args: Written,
): asserts args is Written & Given<Fields> {
  for (const [name, kind] of Object.entries(fields)) kind.check(args[name], name);
}

/** Checks those that are given; throws InvalidInputError. */
export function checkGiven<Fields extends Arguments>(
  fields: Fields,
  args: Written,
): asserts args is Written & Partial<Given<Fields>> {
  for (const [name, value] of Object.entries(args)) fields[name]?.check(value, name);
}

type Properties = Readonly<Record<string, JsonSchema>>;

/** All shapes of the contract by their names, as OpenAPI refers to them. */
export const CONTRACT_SCHEMAS: Readonly<Record<string, JsonSchema>> = readSchemas();

function readSchemas(): Record<string, JsonSchema> {
  const text = readFileSync(SCHEMAS, 'utf8').replaceAll('"#/$defs/', '"#/components/schemas/');
  return (JSON.parse(text) as { $defs: Record<string, JsonSchema> }).$defs;
}

/** Fields of an input of the contract, with the descriptions that its published schema has. */
export function published<Fields extends Arguments>(shape: string, fields: Fields): Fields {
  const { properties, oneOf } = CONTRACT_SCHEMAS[shape] as { properties?: Properties; oneOf?: JsonSchema[] };
  const known = properties ?? (oneOf?.[0]?.['properties'] as Properties);
  const entries = Object.entries(fields).map(([name, kind]): [string, Arguments[string]] => {
    const { description } = known[name] ?? {};
    const isNested = 'properties' in kind.schema();
    const schema = isNested
      ? () => known[name]!
      : () => ({ ...kind.schema(), ...(description ? { description } : {}) });
    return [name, { ...kind, schema }];
  });
  return Object.fromEntries(entries) as Fields;
}

/** A kind with its description. */
export function described<Given, Value>(description: string, kind: Kind<Given, Value>): Kind<Given, Value> {
  return { ...kind, schema: () => ({ ...kind.schema(), description }) };
}

/** A time; the client checks it. */
export const TIME: Kind<string> = { ...TEXT, schema: () => ({ type: 'string', format: 'date-time' }) };

const PAGE = whole(1, MAX_PAGE);

/** How many items a page has at most, as a number or as the text of a query. */
export const PAGE_SIZE: Kind<number> = {
  ...PAGE,
  check: (value, field) => PAGE.check(typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value, field),
};

/** A key that can stand in a path: some clients and proxies take dots for a step. */
export const KEY: Kind<string> = {
  check: (key, field) => {
    if (typeof key === 'string' && /^(?!\.{1,2}$)\P{Cc}+$/u.test(key)) return key;
    throw new InvalidInputError(field, 'must be text without control characters, and not "." or ".."');
  },
  schema: () => ({ type: 'string', minLength: 1 }),
};

/** A project's id. */
export const PROJECT: Kind<string> = { check: ID.check, schema: () => ({ type: 'string', minLength: 1 }) };

/**
 * The schema of an object of arguments for generators and agents: one type for each field, no null, durations as text,
 * and no keyword that only some readers know. The checks are stricter.
 */
export function plainObject(fields: Arguments, { isClosed = false } = {}): JsonSchema {
  return { ...plainSchema(schemaOf(fields)), ...(isClosed && { additionalProperties: false }) };
}

/** The keywords of a schema that are read here. */
export interface Shape extends JsonSchema {
  type?: string | readonly string[];
  anyOf?: readonly Shape[];
  $ref?: string;
  description?: string;
  properties?: Readonly<Record<string, Shape>>;
  required?: readonly string[];
  items?: JsonSchema;
  enum?: readonly unknown[];
  additionalProperties?: unknown;
}

/** A schema in that plain form. */
export function plainSchema(schema: JsonSchema): JsonSchema {
  const { type = [], description, properties, items, enum: words, minimum, maximum, ...others } = schema as Shape;
  const { required, format, additionalProperties: values } = others;
  const isDuration = 'x-max-duration-ms' in others;
  return {
    type: isDuration ? 'string' : [type].flat()[0],
    ...(description && { description: isDuration ? `${description} A duration, such as "2 hours".` : description }),
    ...(format ? { format } : {}),
    ...(words && { enum: words.filter((word) => word !== null) }),
    ...(!isDuration && minimum !== undefined && { minimum }),
    ...(!isDuration && maximum !== undefined && { maximum }),
    ...(items && { items: plainSchema(items) }),
    ...(properties && { properties: plainProperties(properties) }),
    ...(required ? { required } : {}),
    ...(typeof values === 'object' && values !== null && { additionalProperties: plainSchema(values as JsonSchema) }),
  };
}

function plainProperties(properties: Properties): Properties {
  return Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, plainSchema(schema)]));
}
