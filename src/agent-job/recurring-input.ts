/**
 * Checks the input of `recurringJob` and tells the job of a scheduled time. The workflow, which trusts no caller, and
 * our own client use it. Pure and safe in workflow code.
 */
import { defineSearchAttributeKey, SearchAttributeType, TypedSearchAttributes } from '@temporalio/common';
import {
  encodeId,
  LIMIT,
  recurringJobKey,
  recurringJobScheduleId,
  SEARCH_ATTRIBUTE,
  type AgentJobOptions,
  type CreateJobInput,
  type OverlapPolicy,
} from '../contract.js';
import {
  checkDuration,
  checkId,
  checkObject,
  checkString,
  checkTimeZone,
  InvalidInputError,
  isGiven,
} from '../contract/input-checks.js';
import { parseJobInput } from './input.js';
import { renderPrompt } from './prompt-template.js';
import { agentJobStartOptions, checkKey, type AgentJobStartOptions } from './start-options.js';

/** A valid input of `recurringJob`, defaults filled in. */
export interface RecurringJobSpec {
  projectId: string;
  name: string;
  prompt: string;
  timeZone: string;
  overlap: OverlapPolicy;
  queueForMs: number;
  options: AgentJobOptions;
}

const PROJECT = defineSearchAttributeKey(SEARCH_ATTRIBUTE.project, SearchAttributeType.KEYWORD);
const DEFAULT = { overlap: 'skip', queueFor: '24 hours' } as const;
/** Bounds how many runs of a frequent Schedule wait at the same time. */
const MAX_QUEUE_MS = 7 * 24 * 3_600_000;
const MAX_NAME_BYTES = 100;
/** A Temporal server puts its own prefix before a Schedule's id, to make the id of a workflow: the longest is 23. */
const MAX_SCHEDULE_ID_CHARACTERS = LIMIT.workflowIdCharacters - 23;
/** All scheduled times make a prompt and a key of the same length. */
const SOME_TIME = new Date('2026-01-01T00:00:00Z');

/** Checks the input of `recurringJob`; unknown fields are ignored, null means absent. Throws InvalidInputError. */
export function parseRecurringJob(input: unknown): RecurringJobSpec {
  const fields = checkObject(input, 'input');
  const projectId = checkId(fields['projectId'], 'projectId');
  const options = isGiven(fields['options']) ? checkObject(fields['options'], 'options') : {};
  const spec: RecurringJobSpec = {
    projectId,
    name: checkRecurringName(projectId, fields['name']),
    prompt: checkString(fields['prompt'], 'prompt'),
    timeZone: checkTimeZone(fields['timeZone'], 'timeZone'),
    overlap: checkOverlap(fields['overlap'] ?? DEFAULT.overlap),
    queueForMs: checkQueueFor(fields['queueFor'] ?? DEFAULT.queueFor),
    options,
  };
  parseJobInput(jobOf(spec, SOME_TIME));
  return spec;
}

/** Checks the name of a recurring job: it becomes part of the ids of its Schedule, its runs and its jobs. */
export function checkRecurringName(projectId: string, value: unknown): string {
  const name = checkName(value);
  const { length } = recurringJobScheduleId(projectId, name);
  if (length > MAX_SCHEDULE_ID_CHARACTERS) {
    const excess = length - MAX_SCHEDULE_ID_CHARACTERS;
    throw new InvalidInputError('name', `must be shorter by ${excess} characters: with the project it makes ids`);
  }
  return name;
}

function checkName(value: unknown): string {
  try {
    const name = checkKey(value);
    if (encodeId(name).length <= MAX_NAME_BYTES) return name;
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
  }
  const shouldBe = `must be well-formed text without control characters, 1 to ${MAX_NAME_BYTES} bytes`;
  throw new InvalidInputError('name', `${shouldBe} when percent-encoded`);
}

function checkOverlap(value: unknown): OverlapPolicy {
  if (value !== 'skip' && value !== 'queue') throw new InvalidInputError('overlap', 'must be skip or queue');
  return value;
}

function checkQueueFor(value: unknown): number {
  const millis = checkDuration(value, 'queueFor');
  if (millis > MAX_QUEUE_MS) throw new InvalidInputError('queueFor', 'must be at most 7 days');
  return millis;
}

/** The job of a scheduled time, as a start call takes it. Throws InvalidInputError. */
export function recurringJobStart(spec: RecurringJobSpec, scheduledAt: Date, taskQueue: string): AgentJobStartOptions {
  return agentJobStartOptions(jobOf(spec, scheduledAt), { key: recurringJobKey(spec.name, scheduledAt), taskQueue });
}

function jobOf({ projectId, prompt, timeZone, options }: RecurringJobSpec, scheduledAt: Date): CreateJobInput {
  return { ...options, projectId, prompt: renderPrompt(prompt, scheduledAt.getTime(), timeZone) };
}

/** What a Schedule, its runs and their lock are found by. */
export function projectAttributes(projectId: string): TypedSearchAttributes {
  return new TypedSearchAttributes([{ key: PROJECT, value: projectId }]);
}
