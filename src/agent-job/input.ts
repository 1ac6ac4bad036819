/**
 * Checks what callers of `agentJob` send: the input and follow-ups; decisions are checked in resolution.ts. The
 * workflow, which trusts no caller, and our own client use it. Pure and safe in workflow code.
 */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import ms from 'ms';
import { DEFAULT_PRIORITY, LIMIT, type Priority, type UnknownOutcomePolicy } from '../contract.js';
import {
  checkDuration,
  checkId,
  checkLabel,
  checkObject,
  checkString,
  checkPriority,
  InvalidInputError,
  isGiven,
  jsonBytes,
  utf8Bytes,
} from '../contract/input-checks.js';
import type { PollPlan } from './poll-plan.js';

/** A valid input of `agentJob`, defaults filled in: for a job to be created, or for one that exists. */
export type JobSpec = { projectId: string; usedFollowUpIds: string[] } & JobOptions &
  ({ prompt: string; jobId: null } | { prompt: null; jobId: string });

/** Times in milliseconds. */
interface JobOptions {
  priority: Priority;
  /** A label to find the job by. */
  batch: string | null;
  deadlineMs: number;
  /** Null: the create may wait for its first turn for ever. */
  startWithinMs: number | null;
  polling: PollPlan;
  onUnknownOutcome: UnknownOutcomePolicy;
  /** Null: a person may take for ever. */
  decideWithinMs: number | null;
  settleMs: number;
  lingerMs: number;
}

const DEFAULT = {
  deadline: '24 hours',
  pollMin: '2 seconds',
  pollMax: '60 seconds',
  pollRatio: 0.1,
  settle: '5 seconds',
  linger: 0,
} as const;
/** Timers of a Temporal server do not fire sooner. */
const MIN_POLL_MS = 1_000;
const POLICIES: readonly string[] = ['ask', 'fail', 'retry'] satisfies UnknownOutcomePolicy[];

/** Checks the input of `agentJob`; unknown fields are ignored, null means absent. */
export function parseJobInput(input: unknown): JobSpec {
  const fields = checkObject(input, 'input');
  const projectId = checkId(fields.projectId, 'projectId');
  const hasPrompt = isGiven(fields.prompt);
  const hasJobId = isGiven(fields.jobId);
  if (hasPrompt === hasJobId) {
    throw new InvalidInputError(
      hasPrompt ? 'prompt and jobId' : 'prompt or jobId',
      `must be given, exactly one of the two: a prompt creates a job, a jobId attaches to one`,
    );
  }
  const source = hasPrompt
    ? { prompt: checkPrompt(fields.prompt, 'prompt'), jobId: null }
    : { prompt: null, jobId: checkId(fields.jobId, 'jobId') };
  return {
    projectId,
    ...source,
    usedFollowUpIds: checkUsedIds(fields.usedFollowUpIds, hasJobId),
    ...parseJobOptions(fields),
  };
}

function parseJobOptions(fields: Record<string, unknown>): JobOptions {
  return {
    priority: checkPriority(fields.priority ?? DEFAULT_PRIORITY),
    batch: isGiven(fields.batch) ? checkLabel(fields.batch, 'batch', LIMIT.batchBytes) : null,
    deadlineMs: checkDuration(fields.deadline ?? DEFAULT.deadline, 'deadline'),
    startWithinMs: isGiven(fields.startWithin) ? checkDuration(fields.startWithin, 'startWithin') : null,
    polling: checkPolling(fields.polling),
    onUnknownOutcome: checkPolicy(fields.onUnknownOutcome ?? 'ask'),
    decideWithinMs: isGiven(fields.decideWithin) ? checkDuration(fields.decideWithin, 'decideWithin') : null,
    settleMs: checkDuration(fields.settle ?? DEFAULT.settle, 'settle'),
    lingerMs: checkDuration(fields.linger ?? DEFAULT.linger, 'linger'),
  };
}

/** A follow-up as a caller gave it; `id` and `priority` are null where it has none. */
export interface GivenFollowUp {
  prompt: string;
  id: string | null;
  priority: Priority | null;
}

/** Checks the argument of `followUp` and `sendFollowUp`. */
export function parseFollowUp(input: unknown): GivenFollowUp {
  const fields = checkObject(input, 'follow-up');
  return {
    prompt: checkPrompt(fields.prompt, 'prompt'),
    id: isGiven(fields.id) ? checkFollowUpId(fields.id, 'id') : null,
    priority: isGiven(fields.priority) ? checkPriority(fields.priority) : null,
  };
}

/** Checks an instruction: well-formed, 1 byte to 512 KiB of UTF-8, at most 1 MiB as JSON. */
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

function checkPolling(value: unknown): PollPlan {
  if (!isGiven(value)) value = {};
  const fields = checkObject(value, 'polling');
  const min = isGiven(fields.min) ? checkDuration(fields.min, 'polling.min') : undefined;
  const max = isGiven(fields.max) ? checkDuration(fields.max, 'polling.max') : undefined;
  if (min !== undefined && max !== undefined && min > max) {
    throw new InvalidInputError('polling.min', `must not be above polling.max (${min} ms is above ${max} ms)`);
  }
  const minMs = Math.max(MIN_POLL_MS, min ?? Math.min(ms(DEFAULT.pollMin), max ?? Infinity));
  const maxMs = Math.max(MIN_POLL_MS, max ?? Math.max(ms(DEFAULT.pollMax), minMs));
  return { minMs, maxMs, ratio: checkRatio(fields.ratio ?? DEFAULT.pollRatio) };
}

function checkRatio(value: unknown): number {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) {
    throw new InvalidInputError('polling.ratio', 'must be a number, 0 or more');
  }
  return value;
}

function checkPolicy(value: unknown): UnknownOutcomePolicy {
  if (typeof value !== 'string' || !POLICIES.includes(value)) {
    throw new InvalidInputError('onUnknownOutcome', 'must be one of ask, fail, retry');
  }
  return value as UnknownOutcomePolicy;
}

function checkUsedIds(value: unknown, hasJobId: boolean): string[] {
  if (!isGiven(value)) return [];
  if (!Array.isArray(value)) throw new InvalidInputError('usedFollowUpIds', 'must be an array of strings');
  if (value.length > 0 && !hasJobId) {
    throw new InvalidInputError('usedFollowUpIds', 'goes with jobId: a new job has used no ids');
  }
  if (value.length > LIMIT.followUpsPerJob) {
    throw new InvalidInputError('usedFollowUpIds', `must hold at most ${LIMIT.followUpsPerJob} ids`);
  }
  return [...new Set(value.map((id, i) => checkFollowUpId(id, `usedFollowUpIds[${i}]`)))];
}

/** Checks the id of a follow-up: a string of 1 to 256 bytes. */
export function checkFollowUpId(value: unknown, field: string): string {
  const id = checkString(value, field);
  const bytes = utf8Bytes(id);
  if (bytes < 1 || bytes > LIMIT.followUpIdBytes) {
    throw new InvalidInputError(field, `must be 1 to ${LIMIT.followUpIdBytes} bytes of UTF-8; it is ${bytes}`);
  }
  return id;
}

/** What makes two starts the same job: the project, and its prompt or the job it attaches to; options do not count. */
interface HashedInput {
  projectId: string;
  prompt?: string | null | undefined;
  jobId?: string | null | undefined;
}

/**
 * The memo `inputHash`: lower-case hex SHA-256 of the UTF-8 bytes of projectId, NUL, `prompt` or `jobId`, NUL, and its
 * value. A project id has no control characters, so no two inputs share these bytes. Safe in workflow code.
 */
export function inputHash(input: HashedInput): string {
  const [field, value] = typeof input.prompt === 'string' ? ['prompt', input.prompt] : ['jobId', input.jobId ?? ''];
  return bytesToHex(sha256(new TextEncoder().encode(`${input.projectId}\0${field}\0${value}`)));
}
