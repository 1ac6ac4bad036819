/** Tags and metadata: how they are checked, and what of them is shown. Pure and safe in workflow code. */
import { LIMIT, type JobMetadata } from '../contract.js';
import { checkObject, checkString, CONTROLS, InvalidInputError, jsonBytes } from '../contract/input-checks.js';
import { setOf, text, type Kind } from '../contract/kinds.js';

const LABEL = text({ maxBytes: LIMIT.tagBytes });

/** Temporal on SQLite keeps a list of keywords as one text, divided by this sign. */
const DIVIDER = '\u2661';

const TAG: Kind<string> = {
  check: (value, field) => {
    const tag = LABEL.check(value, field);
    if (!tag.includes(DIVIDER)) return tag;
    throw new InvalidInputError(field, 'must not hold the sign U+2661: a dev server divides tags by it');
  },
  schema: () => ({ ...LABEL.schema(), pattern: CONTROLS.none.pattern.replace(']*$', `${DIVIDER}]*$`) }),
};

/** Labels of a job, each once. */
export const TAGS = setOf(TAG, LIMIT.tags, 'tags');

const READABLE = { pattern: '^[^\u0000]*$', 'x-well-formed': true };

/** What a caller says of a job for its own use: texts by name. */
export const METADATA: Kind<JobMetadata> = {
  check: (value, field) => {
    // A caller in TypeScript may give undefined values, which JSON leaves out.
    const given = Object.entries(checkObject(value, field)).filter(([, text]) => text !== undefined);
    for (const text of given.flat()) checkReadable(text, field);
    const metadata = Object.fromEntries(given.map(([name, text]) => [name, checkString(text, `${field}.${name}`)]));
    const bytes = jsonBytes(metadata);
    if (bytes <= LIMIT.metadataJsonBytes) return metadata;
    throw new InvalidInputError(field, `must be at most ${LIMIT.metadataJsonBytes} bytes as JSON; it is ${bytes}`);
  },
  schema: () => ({
    type: 'object',
    propertyNames: READABLE,
    additionalProperties: { type: 'string', ...READABLE },
    'x-max-json-bytes': LIMIT.metadataJsonBytes,
  }),
};

/** Many readers of JSON refuse half a surrogate pair and NUL, and receivers of webhooks have such readers. */
function checkReadable(text: unknown, field: string): void {
  if (typeof text !== 'string' || (text.isWellFormed() && !text.includes('\0'))) return;
  throw new InvalidInputError(field, 'must be well-formed Unicode without NUL');
}

/** The labels of an input that was refused, without those that are wrong. */
export function labelsOf(input: unknown): { tags: string[]; metadata: JobMetadata } {
  const { tags, metadata } = (input ?? {}) as { tags?: unknown; metadata?: unknown };
  return { tags: whereRight(TAGS, tags) ?? [], metadata: whereRight(METADATA, metadata) ?? {} };
}

function whereRight<Value>(kind: Pick<Kind<unknown, Value>, 'check'>, value: unknown): Value | null {
  try {
    return kind.check(value, 'label');
  } catch (error) {
    if (error instanceof InvalidInputError) return null;
    throw error;
  }
}

/** Whether a caller gave any metadata. */
export function hasEntries(metadata: object): boolean {
  return Object.keys(metadata).length > 0;
}

/** The metadata as a field of a log line; no field without metadata. */
export function loggedMetadata(metadata: JobMetadata): { metadata?: JobMetadata } {
  return hasEntries(metadata) ? { metadata } : {};
}
