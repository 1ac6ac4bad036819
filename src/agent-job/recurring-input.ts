/**
 * Checks the input of `recurringJob` and tells the job of a scheduled time. The workflow, which trusts no caller, and
 * our own client use it. Pure and safe in workflow code.
 */
import {
  encodeId,
  LIMIT,
  recurringJobKey,
  recurringJobScheduleId,
  type AgentJobOptions,
  type CreateJobInput,
  type RecurringJobInput,
} from '../contract.js';
import { checkObject, InvalidInputError } from '../contract/input-checks.js';
import {
  ID,
  NO_CONTROL_CHARACTERS,
  optional,
  parseFields,
  schemaOf,
  TEXT,
  TIME_ZONE,
  type Kind,
  type Kinds,
} from '../contract/kinds.js';
import { NEW_JOB_OPTIONS } from './fields.js';
import { renderPrompt } from './prompt-template.js';
import { agentJobStartOptions, checkKey, type AgentJobPlace, type AgentJobStartOptions } from './start-options.js';

/** A valid input of `recurringJob`, defaults filled in. */
export interface RecurringJobSpec {
  projectId: string;
  name: string;
  prompt: string;
  timeZone: string;
  options: AgentJobOptions;
}

const MAX_NAME_BYTES = 100;
/** A Temporal server puts its own prefix before a Schedule's id, to make the id of a workflow: the longest is 23. */
const MAX_SCHEDULE_ID_CHARACTERS = LIMIT.workflowIdCharacters - 23;
/** All scheduled times make a prompt and a key of the same length. */
const SOME_TIME = new Date('2026-01-01T00:00:00Z');

const NAME: Kind<string> = {
  check: checkName,
  schema: () => ({
    type: 'string',
    minLength: 1,
    maxLength: MAX_NAME_BYTES,
    pattern: NO_CONTROL_CHARACTERS,
    'x-well-formed': true,
    'x-max-encoded-bytes': MAX_NAME_BYTES,
  }),
};

/** What the options are is checked with the job that they make. */
const OPTIONS: Kind<AgentJobOptions> = { check: checkObject, schema: () => schemaOf(NEW_JOB_OPTIONS) };

/** The input of `recurringJob`. */
export const RECURRING_JOB = {
  projectId: ID,
  options: optional(OPTIONS, {}),
  name: NAME,
  prompt: {
    check: TEXT.check,
    schema: () => ({ type: 'string', minLength: 1, 'x-rule': 'rendered, it is a prompt of agentJob' }),
  } as Kind<string>,
  timeZone: TIME_ZONE,
} satisfies Kinds<RecurringJobInput>;

/** Checks the input of `recurringJob`; unknown fields are ignored, null means absent. Throws InvalidInputError. */
export function parseRecurringJob(input: unknown): RecurringJobSpec {
  const spec = parseFields(RECURRING_JOB, checkObject(input, 'input'));
  checkRecurringName(spec.projectId, spec.name);
  recurringJobStart(spec, SOME_TIME, {});
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

/** The job of a scheduled time, as a start call takes it. Throws InvalidInputError. */
export function recurringJobStart(
  spec: RecurringJobSpec,
  scheduledAt: Date,
  place: Pick<AgentJobPlace, 'taskQueue' | 'hidePrompts'>,
): AgentJobStartOptions {
  return agentJobStartOptions(jobOf(spec, scheduledAt), { ...place, key: recurringJobKey(spec.name, scheduledAt) });
}

function jobOf({ projectId, prompt, timeZone, options }: RecurringJobSpec, scheduledAt: Date): CreateJobInput {
  return { ...options, projectId, prompt: renderPrompt(prompt, scheduledAt.getTime(), timeZone) };
}
