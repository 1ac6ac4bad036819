/** `llms.txt`: the contract in one page, for a language model that writes a caller. */
import { DEFAULT_TASK_QUEUE, MEMO, SEARCH_ATTRIBUTE } from '../../src/contract.js';
import type { JsonSchema } from '../../src/contract/kinds.js';
import type { Contract } from './artefacts.js';
import type { Message } from './async-api.js';
import { WORKFLOWS, type WorkflowShape } from './shapes.js';

/** The text of the file. */
export function llmsText({ version, schema, messages }: Contract): string {
  const workflows = WORKFLOWS.map((shape) =>
    section(
      shape,
      messages.filter(({ workflow }) => workflow === shape.type),
    ),
  );
  return `# agent-jobs ${version}

> Durable agent jobs and visitor exports on Temporal. Any Temporal client, in any language, starts the workflows by name
> and steers them. Each takes one JSON object (encoding json/plain) as its only argument.

- Task queue: \`${DEFAULT_TASK_QUEUE}\`, unless the worker has \`AGENT_JOBS_TASK_QUEUE\`.
- Workflow id of a job: \`agent-job/<projectId>/<key>\`, both parts percent-encoded (unreserved characters of RFC 3986
  stay). Start with the reuse policy REJECT_DUPLICATE and the conflict policy USE_EXISTING: the same key is one job.
- Give no retry policy, no cron schedule, no run time-out and no execution time-out.
- Unknown fields of an input are ignored. In inputs null means the same as a missing field.
- Outputs may get new fields, and new words where a word is expected: ignore what you do not know.
- Durations are milliseconds or texts such as \`30 seconds\`. Times are ISO 8601 in UTC.
- Search attributes of a job: ${list(Object.values(SEARCH_ATTRIBUTE))}.
  All are Keyword, but \`${SEARCH_ATTRIBUTE.tags}\` is a KeywordList.
- Memo of a job: ${list(Object.values(MEMO))}.

## Files

- [agent-jobs.schema.json](agent-jobs.schema.json): JSON Schema 2020-12 of every shape below, each under \`$defs\`.
- [asyncapi.json](asyncapi.json): AsyncAPI 3 of the workflows, signals, updates and queries.
- [The contract](../contract.md): what each field means, follow-ups, writes in doubt.
- [One key, one job](../keys.md): starts that are repeated, and follow-ups to a job that has ended.

What JSON Schema can not say is told by keywords of its own. Another validator ignores them, and accepts a little more:

- \`x-max-utf8-bytes\`, \`x-max-json-bytes\`, \`x-max-encoded-bytes\`: the size as UTF-8, as JSON, percent-encoded.
- \`x-well-formed\`: no half of a surrogate pair.
- \`x-max-duration-ms\`: also of a duration that is a text. \`x-format\`: \`iana-time-zone\`.
- \`x-rule\`: a rule between fields, in words.

${workflows.join('\n\n')}

## Shapes

${Object.entries(schema.$defs).map(shape).join('\n')}
`;
}

function section(shape: WorkflowShape, messages: readonly Message[]): string {
  const { type, kind, description, input, result, failures } = shape;
  const told = Object.entries(failures).map(([failure, details]) =>
    details.length === 0 ? `\`${failure}\`` : `\`${failure}\` (${details.join(' | ')})`,
  );
  return [
    `## ${kind === 'activity' ? 'Activity' : 'Workflow'} ${type}\n\n${description}\n`,
    ...(input === null ? [] : [`- ${kind === 'activity' ? 'execute' : 'start'}: ${input} → ${result}`]),
    ...(told.length === 0 ? [] : [`- fails as: ${told.join(', ')}`]),
    ...messages.map(({ kind, name, argument, isArgumentOptional, answer, description: text }) => {
      const [takes, answers] = [argument, answer].map((schema) => (schema ? brief(schema) : 'nothing'));
      return `- ${kind} \`${name}\`: ${takes}${isArgumentOptional ? ' or nothing' : ''} → ${answers}. ${text}`;
    }),
  ].join('\n');
}

function shape([name, schema]: [string, JsonSchema]): string {
  const text = schema['description'] === undefined ? '' : `. ${schema['description'] as string}`;
  return `- ${name}: ${brief({ ...schema, title: undefined })}${text}`;
}

/** A schema in a few characters, much like a type of TypeScript. */
function brief(schema: JsonSchema): string {
  const { $ref, enum: words, type, items, properties, additionalProperties: values, required = [] } = schema as Brief;
  const forms = (schema['oneOf'] ?? schema['anyOf']) as JsonSchema[] | undefined;
  if ($ref) return $ref.slice($ref.lastIndexOf('/') + 1);
  if (forms) return forms.map(brief).join(' | ');
  if (words) return words.map((word) => JSON.stringify(word)).join(' | ');
  const types = ([type].flat() as (string | undefined)[]).map((one) => one ?? 'unknown');
  if (items) return [`${brief(items)}[]`, ...types.filter((one) => one !== 'array')].join(' | ');
  if (values) return [`{[name]: ${brief(values)}}`, ...types.filter((one) => one !== 'object')].join(' | ');
  if (!properties) return types.join(' | ');
  const fields = Object.entries(properties).map(
    ([field, value]) => `${field}${required.includes(field) ? '' : '?'}: ${brief(value)}`,
  );
  return [`{${fields.join(', ')}}`, ...types.filter((one) => one !== 'object')].join(' | ');
}

interface Brief {
  $ref?: string;
  enum?: unknown[];
  type?: string | string[];
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  additionalProperties?: JsonSchema;
  required?: string[];
}

function list(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(', ');
}
