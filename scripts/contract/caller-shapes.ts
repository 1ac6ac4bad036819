/** The shapes that a caller of `agentJob` sends and reads, as a language with records would say them. */
import type { JsonSchema } from '../../src/contract/kinds.js';

const SHAPES = [
  'CreateJobInput',
  'AttachJobInput',
  'FollowUpInput',
  'FollowUpAnswer',
  'JobState',
  'AgentJobResult',
  'InvalidInputDetails',
  'CreateRejectedDetails',
  'UnknownOutcomeDetails',
];

export type Base =
  'text' | 'whole' | 'number' | 'truth' | 'any' | { shape: string } | { listOf: Base } | { recordOf: Base };

export interface Field {
  name: string;
  base: Base;
  /** The words that are known. */
  words: string[];
  isNullable: boolean;
  isRequired: boolean;
}

export interface Shape {
  name: string;
  description: string;
  fields: Field[];
}

/** The shapes of the examples, each after those that it is made of. */
export function readShapes(definitions: Readonly<Record<string, JsonSchema>>): Shape[] {
  const shapes = new Map<string, Shape>();
  const read = (name: string, schema: JsonSchema): void => {
    if (shapes.has(name)) return;
    const fields = readFields(alternatives(schema, definitions), (inner, own) =>
      read(inner, own ?? definitions[inner]!),
    );
    // After those that it is made of: Python wants them first.
    shapes.set(name, { name, description: (schema['description'] as string | undefined) ?? '', fields });
  };
  for (const name of SHAPES) read(name, definitions[name]!);
  return [...shapes.values()];
}

/** The objects that a shape may be: one, or several that share their fields. */
function alternatives(schema: JsonSchema, definitions: Readonly<Record<string, JsonSchema>>): JsonSchema[] {
  const anyOf = schema['anyOf'] as JsonSchema[] | undefined;
  return anyOf?.map((alternative) => definitions[referenced(alternative)!]!) ?? [schema];
}

type Read = (name: string, schema?: JsonSchema) => void;

function readFields(objects: JsonSchema[], read: Read): Field[] {
  const [first, ...others] = objects.map((object) =>
    Object.entries(object['properties'] as Record<string, JsonSchema>)
      .filter(([, property]) => isForCallers(property))
      .map(([name, property]) => ({
        ...readField(name, property, read),
        isRequired: (object['required'] as string[] | undefined)?.includes(name) ?? false,
      })),
  );
  return first!.map((field) => others.reduce((merged, fields) => merge(merged, fields), field));
}

/** A field that may only be null, or empty, says that another shape has it. */
function isForCallers(property: JsonSchema): boolean {
  return property['type'] !== 'null' && property['maxItems'] !== 0;
}

function merge(field: Field, others: Field[]): Field {
  const other = others.find(({ name }) => name === field.name)!;
  return {
    ...field,
    words: [...new Set([...field.words, ...other.words])].toSorted(),
    isNullable: field.isNullable || other.isNullable,
    isRequired: field.isRequired && other.isRequired,
  };
}

function readField(name: string, schema: JsonSchema, read: Read): Omit<Field, 'isRequired'> {
  const union = schema['anyOf'] as JsonSchema[] | undefined;
  const isNull = (one: JsonSchema) => one['type'] === 'null';
  const content = union?.find((one) => !isNull(one)) ?? schema;
  const types = [content['type'] ?? []].flat() as string[];
  const isNullable = union?.some(isNull) || types.includes('null');
  const words = ((content['enum'] ?? []) as (string | null)[]).filter((word) => word !== null);
  return { name, base: readBase(name, content, types, read), words, isNullable };
}

function readBase(name: string, schema: JsonSchema, types: string[], read: Read): Base {
  const shape = referenced(schema);
  if (shape !== undefined) {
    read(shape);
    return { shape };
  }
  const [type, ...others] = types.filter((one) => one !== 'null');
  if (type === undefined || others.length > 0) return 'any'; // A duration is a number or a text.
  const values = schema['additionalProperties'] as JsonSchema | undefined;
  if (type === 'object' && values)
    return { recordOf: readBase(name, values, [values['type']].flat() as string[], read) };
  if (type === 'object') {
    const own = name[0]!.toUpperCase() + name.slice(1);
    read(own, schema);
    return { shape: own };
  }
  if (type === 'array') return { listOf: listed(name, schema, read) };
  return ({ string: 'text', integer: 'whole', number: 'number', boolean: 'truth' } as const)[type] ?? 'any';
}

function listed(name: string, schema: JsonSchema, read: Read): Base {
  const items = schema['items'] as JsonSchema | undefined;
  return items === undefined ? 'any' : readBase(name, items, [items['type'] ?? []].flat() as string[], read);
}

function referenced(schema: JsonSchema): string | undefined {
  return (schema['$ref'] as string | undefined)?.slice('#/$defs/'.length);
}
