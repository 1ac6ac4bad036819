/**
 * The fields that callers of `agentJob` may send, of the input, follow-ups and decisions. The parsers check with
 * these tables, and the published schemas are made of them. Pure and safe in workflow code.
 */
import ms from 'ms';
import {
  DEFAULT_PRIORITY,
  LIMIT,
  type AdoptDecision,
  type AgentJobOptions,
  type AttachJobInput,
  type Attribution,
  type CreateJobInput,
  type FollowUpInput,
  type JobMetadata,
  type OtherDecision,
  type PollingInput,
  type PromptHashes,
} from '../contract.js';
import { InvalidInputError } from '../contract/errors.js';
import { jsonBytes } from '../contract/shared.js';
import {
  checkObject,
  CONTROLS,
  duration,
  FLAG,
  ID,
  NOTHING,
  object,
  oneOf,
  optional,
  PRIORITY,
  setOf,
  text,
  TEXT,
  type Kind,
  type Kinds,
  type Parsed,
} from '../contract/kinds.js';
import type { PollPlan } from './poll-waits.js';

const DEFAULT = { pollMin: '2 seconds', pollMax: '60 seconds', pollRatio: 0.1 } as const;
/** Timers of a Temporal server do not fire sooner. */
const MIN_POLL_MS = 1_000;

const PROMPT = text({ maxBytes: LIMIT.promptBytes, controls: 'all', maxJsonBytes: LIMIT.promptJsonBytes });
/** The id of a follow-up. */
export const FOLLOW_UP_ID = text({ maxBytes: LIMIT.followUpIdBytes, controls: 'all' });
const usedIds = (maxItems: number) => setOf(FOLLOW_UP_ID, maxItems, 'ids');

const HASH = '^[0-9a-f]{8}$';

/** Whether a value has the form of a prompt's hash. */
export function isPromptHash(value: unknown): value is string {
  return typeof value === 'string' && new RegExp(HASH).test(value);
}

/** Hashes of prompts by the ids of their follow-ups. */
const promptHashes = (maxItems: number): Kind<PromptHashes> => ({
  check: (value, field) => {
    const given = Object.entries(checkObject(value, field));
    if (given.length > maxItems) throw new InvalidInputError(field, `must hold at most ${maxItems} ids`);
    const [id] = given.find(([, hash]) => !isPromptHash(hash)) ?? [];
    if (id !== undefined) throw new InvalidInputError(`${field}.${id}`, 'must be 8 lower-case hex digits');
    return Object.fromEntries(given) as PromptHashes;
  },
  schema: () => ({ type: 'object', additionalProperties: { type: 'string', pattern: HASH }, maxProperties: maxItems }),
});

const RATIO: Kind<number> = {
  check: (value, field) => {
    if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value;
    throw new InvalidInputError(field, 'must be a number, 0 or more');
  },
  schema: () => ({ type: 'number', minimum: 0 }),
};

const POLLING_FIELDS = {
  min: optional(duration()),
  max: optional(duration()),
  ratio: optional(RATIO, DEFAULT.pollRatio),
} satisfies Kinds<PollingInput>;

const BOUNDS = object<PollingInput, typeof POLLING_FIELDS>(POLLING_FIELDS);

const POLLING: Kind<PollingInput, PollPlan> = {
  check: (value, field) => toPollPlan(BOUNDS.check(value, field)),
  schema: () => ({ ...BOUNDS.schema(), 'x-rule': 'min is not above max' }),
};

/** With only one bound given, the other one gives way. */
function toPollPlan({ min, max, ratio }: Parsed<typeof POLLING_FIELDS>): PollPlan {
  if (min !== null && max !== null && min > max) {
    throw new InvalidInputError('polling.min', `must not be above polling.max (${min} ms is above ${max} ms)`);
  }
  const minMs = Math.max(MIN_POLL_MS, min ?? Math.min(ms(DEFAULT.pollMin), max ?? Infinity));
  const maxMs = Math.max(MIN_POLL_MS, max ?? Math.max(ms(DEFAULT.pollMax), minMs));
  return { minMs, maxMs, ratio };
}

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
    const metadata = Object.fromEntries(given.map(([name, text]) => [name, TEXT.check(text, `${field}.${name}`)]));
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

/** Many readers of JSON, as receivers of webhooks have them, can't read half a surrogate pair or NUL. */
function checkReadable(text: unknown, field: string): void {
  if (typeof text !== 'string' || (text.isWellFormed() && !text.includes('\0'))) return;
  throw new InvalidInputError(field, 'must be well-formed Unicode without NUL');
}

/** All options of a job. */
export const JOB_OPTIONS = {
  priority: optional(PRIORITY, DEFAULT_PRIORITY),
  batch: optional(text({ maxBytes: LIMIT.batchBytes })),
  tags: optional(TAGS, []),
  metadata: optional(METADATA, {}),
  deadline: optional(duration(), '24 hours'),
  startWithin: optional(duration()),
  polling: optional(POLLING, {}),
  onUnknownOutcome: optional(oneOf('ask', 'fail', 'retry'), 'ask'),
  decideWithin: optional(duration()),
  settle: optional(duration(), '30 seconds'),
} satisfies Kinds<AgentJobOptions>;

/** The input of `agentJob` that creates a job. */
export const CREATE_JOB = {
  projectId: ID,
  prompt: PROMPT,
  // A new job has used no ids.
  jobId: NOTHING,
  usedFollowUpIds: optional(usedIds(0), []),
  promptHashes: optional(promptHashes(0), {}),
  ...JOB_OPTIONS,
} satisfies Kinds<CreateJobInput & Pick<AttachJobInput, 'usedFollowUpIds' | 'promptHashes'>>;

/** The input of `agentJob` that attaches to a job. */
export const ATTACH_JOB = {
  projectId: ID,
  prompt: NOTHING,
  jobId: ID,
  usedFollowUpIds: optional(usedIds(LIMIT.followUpsPerJob), []),
  promptHashes: optional(promptHashes(LIMIT.followUpsPerJob), {}),
  ...JOB_OPTIONS,
} satisfies Kinds<AttachJobInput>;

/** The argument of `followUp` and `sendFollowUp`. */
export const FOLLOW_UP = {
  prompt: PROMPT,
  id: optional(FOLLOW_UP_ID),
  priority: optional(PRIORITY),
} satisfies Kinds<FollowUpInput>;

/** Who decides, and why. */
export const ATTRIBUTION = {
  by: optional(text({ maxBytes: LIMIT.decisionByBytes })),
  note: optional(text({ maxBytes: LIMIT.decisionNoteBytes, controls: 'lines' })),
} satisfies Kinds<Attribution>;

const ABOUT = { since: optional(TEXT), followUpId: optional(TEXT) };

/** What a person may decide. */
export const DECISION_ACTION = oneOf('adopt', 'delivered', 'retry', 'abandon');

/** What resolves a write in doubt with the job that it made. */
export const ADOPT = {
  ...ABOUT,
  action: oneOf('adopt'),
  jobId: ID,
  force: optional(FLAG, false),
} satisfies Kinds<Omit<AdoptDecision, keyof Attribution>>;

/** What resolves it otherwise. */
export const OTHER_DECISION = {
  ...ABOUT,
  action: oneOf('delivered', 'retry', 'abandon'),
} satisfies Kinds<Omit<OtherDecision, keyof Attribution | 'jobId'>>;

/** The labels of an invalid input, without those that are wrong. */
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
