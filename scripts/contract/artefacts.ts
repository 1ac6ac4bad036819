/** The contract as data, read out of the source: the published schemas, and what a later contract is compared with. */
import { format } from 'prettier';
import * as contract from '../../src/contract.js';
import type { JsonSchema } from '../../src/contract/kinds.js';
import { type Calls, readCalls } from './calls.js';
import { CHECKED_OUTPUTS, INPUTS, OUTPUTS, WORKFLOWS, type WorkflowShape } from './shapes.js';
import { type MessageTypes, TypeSchemas } from './type-schemas.js';
import { readWords, type Words } from './words.js';

const ABOUT =
  'All shapes that callers of agent-jobs send and read. Fields that are not listed are ignored in inputs, and may ' +
  'come in outputs; so may new words of an enum there. In inputs null means the same as a missing field. Keywords ' +
  'that begin with x- tell what the standard can not: see docs/contract.md.';

/** A signal, an update or a query of a workflow. */
interface Message extends MessageTypes {
  readonly workflow: string;
  readonly kind: 'signal' | 'update' | 'query';
  readonly name: string;
}

/** What callers rely on, as data. */
export interface Contract {
  /** The version of the package. */
  readonly version: string;
  /** Names of the shapes that callers send; they read the others. */
  readonly inputs: readonly string[];
  readonly schema: { readonly $defs: Readonly<Record<string, JsonSchema>> } & JsonSchema;
  readonly workflows: readonly WorkflowShape[];
  readonly messages: readonly Message[];
  readonly calls: Calls;
  readonly words: Words;
}

/** Reads the contract out of a source tree. */
export function readContract(root: string, version: string): Contract {
  const types = new TypeSchemas(root);
  try {
    const inputs = Object.entries(INPUTS).map(([name, schema]) => [name, types.withDescriptions(schema, name)]);
    const outputs = Object.entries(types.definitions(OUTPUTS)).map(([name, type]) => [name, withBounds(type, name)]);
    const $defs = Object.fromEntries([...inputs, ...outputs]) as Record<string, JsonSchema>;
    const schema = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      $id: 'urn:agent-jobs:contract',
      title: 'agent-jobs',
      description: ABOUT,
      $defs,
    };
    const messages = readMessages(types);
    const [calls, words] = [readCalls(), readWords(root)];
    return { version, inputs: Object.keys(INPUTS), schema, workflows: WORKFLOWS, messages, calls, words };
  } finally {
    types.close();
  }
}

/** A type's schema with the bounds of the fields that a reader checks. */
function withBounds(type: JsonSchema, name: string): JsonSchema {
  const bounds = Object.entries((CHECKED_OUTPUTS[name]?.['properties'] ?? {}) as Record<string, JsonSchema>);
  if (bounds.length === 0) return type;
  const properties = type['properties'] as Readonly<Record<string, JsonSchema>>;
  const bounded = bounds.map(([field, schema]): [string, JsonSchema] => {
    const { description } = properties[field]!;
    return [field, { ...(description !== undefined && { description }), ...schema }];
  });
  return { ...type, properties: { ...properties, ...Object.fromEntries(bounded) } };
}

const DEFINITIONS: Readonly<Record<string, unknown>> = { ...contract };

function readMessages(types: TypeSchemas): Message[] {
  return WORKFLOWS.flatMap(({ type, messages }) =>
    messages.map((name) => {
      const { type: kind, name: wireName } = DEFINITIONS[name] as { type: Message['kind']; name: string };
      return { workflow: type, kind, name: wireName, ...types.message(name) };
    }),
  );
}

/** JSON as the formatter of this repository leaves it. */
export function formatJson(value: unknown): Promise<string> {
  return format(JSON.stringify(value), { parser: 'json', printWidth: 120 });
}
