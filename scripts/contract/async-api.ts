/** The AsyncAPI 3 document: workflows as channels; starts, signals, updates and queries as operations. */
import { DEFAULT_TASK_QUEUE, exportTaskQueue } from '../../src/contract.js';
import type { JsonSchema } from '../../src/contract/kinds.js';
import type { Contract } from './artefacts.js';
import { WORKFLOWS, type WorkflowShape } from './shapes.js';

/** A signal, an update or a query of a workflow. */
export interface Message {
  readonly workflow: string;
  readonly kind: 'signal' | 'update' | 'query';
  readonly name: string;
  readonly description: string;
  readonly argument: JsonSchema | null;
  readonly isArgumentOptional: boolean;
  readonly answer: JsonSchema | null;
}

type Json = Readonly<Record<string, unknown>>;

/** The document, beside `agent-jobs.schema.json`. */
export function asyncApi({ version, messages }: Contract): Json {
  const of = ({ type }: WorkflowShape): Message[] => messages.filter(({ workflow }) => workflow === type);
  return {
    asyncapi: '3.0.0',
    info: {
      title: 'agent-jobs',
      version,
      description:
        'Workflows that any Temporal client starts and steers. Every payload is one JSON object (json/plain). ' +
        `Task queue: ${DEFAULT_TASK_QUEUE}; workers of exports poll ${exportTaskQueue(DEFAULT_TASK_QUEUE)} besides.`,
      license: { name: 'MIT' },
    },
    defaultContentType: 'application/json',
    servers: {
      temporal: { host: 'localhost:7233', protocol: 'temporal', description: 'A Temporal frontend, over gRPC.' },
    },
    channels: Object.fromEntries(WORKFLOWS.map((shape) => [shape.type, channel(shape, of(shape))])),
    operations: Object.fromEntries(WORKFLOWS.flatMap((shape) => operations(shape, of(shape)))),
  };
}

function channel(shape: WorkflowShape, messages: readonly Message[]): Json {
  const named: [string, Json | null][] = [
    ['start', shape.input === null ? null : message(shape.type, ref(shape.input))],
    ['result', shape.result === null ? null : message(`${shape.type}.result`, ref(shape.result))],
    ...Object.entries(shape.failures).map(([type, details]): [string, Json] => [
      `failure.${type}`,
      message(type, detailsOf(details)),
    ]),
    ...messages.flatMap(({ name, argument, answer }): [string, Json | null][] => [
      [name, message(name, outside(argument ?? {}))],
      [`${name}.response`, answer && message(`${name}.response`, outside(answer))],
    ]),
  ];
  return {
    address: shape.type,
    title: shape.type,
    description: shape.description,
    messages: Object.fromEntries(named.filter(([, value]) => value !== null)),
  };
}

/** A failure without details holds none. */
function detailsOf(details: readonly string[]): JsonSchema {
  if (details.length === 0) return { type: 'null' };
  return details.length === 1 ? ref(details[0]!) : { anyOf: details.map(ref) };
}

function message(name: string, schema: JsonSchema): Json {
  return { name, payload: { schemaFormat: 'application/schema+json;version=draft-2020-12', schema } };
}

/** Seen from the workers: they receive, and reply. */
function operations(shape: WorkflowShape, messages: readonly Message[]): [string, Json][] {
  const { type, kind: role = 'workflow', description, input, failures } = shape;
  const ends = ['result', ...Object.keys(failures).map((failure) => `failure.${failure}`)];
  const start = operation(type, 'start', description, ends, { kind: role, name: type });
  return [
    ...(input === null ? [] : [[`${type}.start`, start] as [string, Json]]),
    ...messages.map(({ name, kind, description: text, answer }): [string, Json] => [
      `${type}.${name}`,
      operation(type, name, text, answer ? [`${name}.response`] : [], { kind, name }),
    ]),
  ];
}

function operation(type: string, name: string, description: string, replies: readonly string[], temporal: Json): Json {
  const channelRef = { $ref: `#/channels/${type}` };
  const messageRef = (key: string): Json => ({ $ref: `#/channels/${type}/messages/${key}` });
  return {
    action: 'receive',
    channel: channelRef,
    description,
    messages: [messageRef(name)],
    ...(replies.length > 0 && { reply: { channel: channelRef, messages: replies.map(messageRef) } }),
    'x-temporal': temporal,
  };
}

function ref(name: string): JsonSchema {
  return { $ref: `./agent-jobs.schema.json#/$defs/${name}` };
}

/** A schema whose references lead into the file of the schemas. */
function outside(schema: JsonSchema): JsonSchema {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', '"./agent-jobs.schema.json#/$defs/')) as JsonSchema;
}
