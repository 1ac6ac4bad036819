/** The types of the Python example, written from the schemas of what a caller of `agentJob` sends and reads. */
import type { JsonSchema } from '../../src/contract/kinds.js';

/** Where they are, from the root of the repository. */
export const PYTHON_TYPES = 'examples/python/agent_job_types.py';

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
const ORIGIN = 'Written from docs/contract/agent-jobs.schema.json by npm run docs:contract.';
const IMPORTS = 'from typing import Literal\n\nfrom typing_extensions import NotRequired, TypedDict\n';
/** What the sign of a comment leaves of 120 columns. */
const COMMENT_COLUMNS = 112;
const MAX_LINE = 120;

interface Field {
  name: string;
  type: string;
  /** The words that are known, which take the place of the type. */
  words: string[];
  isNullable: boolean;
  isRequired: boolean;
}

/** The text of the file: each shape after those that it is made of, which Python wants first. */
export function pythonTypes({ $defs }: { readonly $defs: Readonly<Record<string, JsonSchema>> }): string {
  const declarations = new Map<string, string>();
  const declare: Declare = (name, schema = $defs[name]!) => {
    if (declarations.has(name)) return;
    const fields = readFields(alternatives(schema, $defs), declare);
    declarations.set(name, declaration(name, (schema['description'] as string | undefined) ?? '', fields));
  };
  for (const name of SHAPES) declare(name);
  return `"""${ORIGIN}"""\n\n${IMPORTS}\n${[...declarations.values()].join('\n')}`;
}

type Declare = (name: string, schema?: JsonSchema) => void;

/** The objects that a shape may be: one, or several that share their fields. */
function alternatives(schema: JsonSchema, definitions: Readonly<Record<string, JsonSchema>>): JsonSchema[] {
  const anyOf = schema['anyOf'] as JsonSchema[] | undefined;
  return anyOf?.map((alternative) => definitions[referenced(alternative)!]!) ?? [schema];
}

function readFields(objects: JsonSchema[], declare: Declare): Field[] {
  const [first, ...others] = objects.map((object) =>
    Object.entries(object['properties'] as Record<string, JsonSchema>)
      .filter(([, property]) => isForCallers(property))
      .map(([name, property]) => ({
        ...readField(name, property, declare),
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

function readField(name: string, schema: JsonSchema, declare: Declare): Omit<Field, 'isRequired'> {
  const union = schema['anyOf'] as JsonSchema[] | undefined;
  const isNull = (one: JsonSchema) => one['type'] === 'null';
  const content = union?.find((one) => !isNull(one)) ?? schema;
  const isNullable = union?.some(isNull) || typesOf(content).includes('null');
  const words = ((content['enum'] ?? []) as (string | null)[]).filter((word) => word !== null);
  return { name, type: readType(name, content, declare), words, isNullable };
}

function typesOf(schema: JsonSchema): string[] {
  return [schema['type'] ?? []].flat() as string[];
}

function readType(name: string, schema: JsonSchema, declare: Declare): string {
  const shape = referenced(schema);
  if (shape !== undefined) {
    declare(shape);
    return shape;
  }
  const [type, ...others] = typesOf(schema).filter((one) => one !== 'null');
  if (type === undefined || others.length > 0) return 'float | str'; // A duration.
  if (type === 'array') return `list[${readType(name, schema['items'] as JsonSchema, declare)}]`;
  const values = schema['additionalProperties'] as JsonSchema | undefined;
  if (type === 'object' && values) return `dict[str, ${readType(name, values, declare)}]`;
  if (type === 'object') {
    const own = name[0]!.toUpperCase() + name.slice(1);
    declare(own, schema);
    return own;
  }
  return { string: 'str', integer: 'int', number: 'float', boolean: 'bool' }[type]!;
}

function referenced(schema: JsonSchema): string | undefined {
  return (schema['$ref'] as string | undefined)?.slice('#/$defs/'.length);
}

function declaration(name: string, description: string, fields: Field[]): string {
  const lines = fields.map((field) => brokenLine(`        "${field.name}": ${fieldType(field)},\n`)).join('');
  return `${comment(description)}${name} = TypedDict(\n    "${name}",\n    {\n${lines}    },\n)\n`;
}

function fieldType({ type, words, isNullable, isRequired }: Field): string {
  const literal = `Literal[${words.map((word) => `"${word}"`).join(', ')}]`;
  const known = words.length > 0 ? literal : type;
  const full = isNullable ? `${known} | None` : known;
  return isRequired ? full : `NotRequired[${full}]`;
}

function comment(text: string): string {
  if (text === '') return '';
  const lines = text.split(' ').reduce<string[]>((done, word) => {
    const longer = `${done.at(-1)} ${word}`;
    return done.length > 0 && longer.length <= COMMENT_COLUMNS ? done.with(-1, longer) : [...done, word];
  }, []);
  return lines.map((line) => `# ${line}\n`).join('');
}

/** The words of a line that is too long stand below each other. */
function brokenLine(line: string): string {
  if (line.length <= MAX_LINE) return line;
  const indent = ' '.repeat(8);
  return line
    .replace(
      /\[(.*)\]/,
      (_, words: string) => `[\n${words.replace(/^|, /g, `$&${indent}    `).replace(/, /g, ',\n')},\n${indent}]`,
    )
    .replace(' | None', `\n${indent}| None`);
}
