/**
 * The fields that callers of `agentJob` may send, of the input, follow-ups and decisions. The parsers check with
 * these tables, and the published schemas are made of them. Pure and safe in workflow code.
 */
import ms from 'ms';
import {
  DEFAULT_PRIORITY,
  LIMIT,
  type AgentJobOptions,
  type AttachJobInput,
  type Attribution,
  type CreateJobInput,
  type FollowUpInput,
  type PollingInput,
  type ResolveUnknownInput,
} from '../contract.js';
import { checkString, InvalidInputError, jsonBytes, utf8Bytes } from '../contract/input-checks.js';
import {
  duration,
  FLAG,
  ID,
  label,
  NOTHING,
  object,
  oneOf,
  optional,
  PRIORITY,
  TEXT,
  type Kind,
  type Kinds,
  type Parsed,
} from '../contract/kinds.js';
import { METADATA, TAGS } from './labels.js';
import type { PollPlan } from './poll-plan.js';

const DEFAULT = { pollMin: '2 seconds', pollMax: '60 seconds', pollRatio: 0.1 } as const;
/** Timers of a Temporal server do not fire sooner. */
const MIN_POLL_MS = 1_000;

/** An instruction: well-formed, 1 byte to 512 KiB of UTF-8, at most 1 MiB as JSON. */
const PROMPT: Kind<string> = {
  check: checkPrompt,
  schema: () => ({
    type: 'string',
    minLength: 1,
    maxLength: LIMIT.promptBytes,
    'x-well-formed': true,
    'x-max-utf8-bytes': LIMIT.promptBytes,
    'x-max-json-bytes': LIMIT.promptJsonBytes,
  }),
};

function checkPrompt(value: unknown, field: string): string {
  const prompt = checkString(value, field);
  if (!prompt.isWellFormed()) {
    throw new InvalidInputError(field, 'must be well-formed Unicode; it holds half of a surrogate pair');
  }
  const bytes = utf8Bytes(prompt);
  if (bytes < 1 || bytes > LIMIT.promptBytes) {
    throw new InvalidInputError(field, `must be 1 byte to ${LIMIT.promptBytes} bytes of UTF-8; it is ${bytes}`);
  }
  if (jsonBytes(prompt) > LIMIT.promptJsonBytes) {
    throw new InvalidInputError(field, `must be at most ${LIMIT.promptJsonBytes} bytes as JSON`);
  }
  return prompt;
}

/** The id of a follow-up: a string of 1 to 256 bytes. */
export const FOLLOW_UP_ID: Kind<string> = {
  check: checkFollowUpId,
  schema: () => ({
    type: 'string',
    minLength: 1,
    maxLength: LIMIT.followUpIdBytes,
    'x-max-utf8-bytes': LIMIT.followUpIdBytes,
  }),
};

function checkFollowUpId(value: unknown, field: string): string {
  const id = checkString(value, field);
  const bytes = utf8Bytes(id);
  if (bytes < 1 || bytes > LIMIT.followUpIdBytes) {
    throw new InvalidInputError(field, `must be 1 to ${LIMIT.followUpIdBytes} bytes of UTF-8; it is ${bytes}`);
  }
  return id;
}

const USED_IDS: Kind<string[]> = {
  check: (value, field) => {
    const ids = checkIdList(value, field);
    if (ids.length > LIMIT.followUpsPerJob) {
      throw new InvalidInputError(field, `must hold at most ${LIMIT.followUpsPerJob} ids`);
    }
    return [...new Set(ids.map((id, i) => checkFollowUpId(id, `${field}[${i}]`)))];
  },
  schema: () => ({ type: 'array', items: FOLLOW_UP_ID.schema(), maxItems: LIMIT.followUpsPerJob }),
};

const NO_USED_IDS: Kind<never[]> = {
  check: (value, field) => {
    if (checkIdList(value, field).length > 0) {
      throw new InvalidInputError(field, 'goes with jobId: a new job has used no ids');
    }
    return [];
  },
  schema: () => ({ type: 'array', maxItems: 0 }),
};

function checkIdList(value: unknown, field: string): unknown[] {
  if (!Array.isArray(value)) throw new InvalidInputError(field, 'must be an array of strings');
  return value as unknown[];
}

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

/** All options of a job. */
export const JOB_OPTIONS = {
  priority: optional(PRIORITY, DEFAULT_PRIORITY),
  batch: optional(label(LIMIT.batchBytes)),
  tags: optional(TAGS, []),
  metadata: optional(METADATA, {}),
  deadline: optional(duration(), '24 hours'),
  startWithin: optional(duration()),
  polling: optional(POLLING, {}),
  onUnknownOutcome: optional(oneOf('ask', 'fail', 'retry'), 'ask'),
  decideWithin: optional(duration()),
  settle: optional(duration(), '5 seconds'),
  linger: optional(duration(), 0),
} satisfies Kinds<AgentJobOptions>;

/** What only a job that exists upstream has. */
const NONE_YET = { jobId: NOTHING, usedFollowUpIds: optional(NO_USED_IDS, []) };

/** The input of `agentJob` that creates a job. */
export const CREATE_JOB = {
  projectId: ID,
  prompt: PROMPT,
  ...NONE_YET,
  ...JOB_OPTIONS,
} satisfies Kinds<CreateJobInput>;

/** The input of `agentJob` that attaches to a job. */
export const ATTACH_JOB = {
  projectId: ID,
  prompt: NOTHING,
  jobId: ID,
  usedFollowUpIds: optional(USED_IDS, []),
  ...JOB_OPTIONS,
} satisfies Kinds<AttachJobInput>;

/** The argument of `followUp` and `sendFollowUp`. */
export const FOLLOW_UP = {
  prompt: PROMPT,
  id: optional(FOLLOW_UP_ID),
  priority: optional(PRIORITY),
} satisfies Kinds<FollowUpInput>;

/** A note may have several lines. */
const NO_CONTROL_BUT_LINES = '^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]*$';

const NOTE: Kind<string> = {
  check: (value, field) => {
    const text = checkString(value, field);
    if (!text.isWellFormed() || !new RegExp(NO_CONTROL_BUT_LINES, 'u').test(text)) {
      throw new InvalidInputError(
        field,
        'must be well-formed Unicode without control characters but line breaks and tabs',
      );
    }
    const bytes = utf8Bytes(text);
    if (bytes >= 1 && bytes <= LIMIT.decisionNoteBytes) return text;
    throw new InvalidInputError(field, `must be 1 to ${LIMIT.decisionNoteBytes} bytes of UTF-8; it is ${bytes}`);
  },
  schema: () => ({ ...label(LIMIT.decisionNoteBytes).schema(), pattern: NO_CONTROL_BUT_LINES }),
};

/** Who decides, and why. */
export const ATTRIBUTION = {
  by: optional(label(LIMIT.decisionByBytes)),
  note: optional(NOTE),
} satisfies Kinds<Attribution>;

const ABOUT = { since: optional(TEXT), followUpId: optional(TEXT) };

/** What settles a write in doubt with the job that it made. */
export const ADOPT = {
  ...ABOUT,
  action: oneOf('adopt'),
  jobId: ID,
  force: optional(FLAG, false),
} satisfies Kinds<Omit<Extract<ResolveUnknownInput, { action: 'adopt' }>, keyof Attribution>>;

/** What settles it otherwise. */
export const SETTLE = {
  ...ABOUT,
  action: oneOf('delivered', 'retry', 'abandon'),
} satisfies Kinds<Omit<Exclude<ResolveUnknownInput, { action: 'adopt' }>, keyof Attribution | 'jobId'>>;
