/**
 * Checks the input of `recurringJob` and tells the job of a scheduled time, whose prompt may name that time. The
 * workflow, which trusts no caller, and our own client use it. Pure and safe in workflow code.
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
import { localDate, localTime } from '../contract/time-zones.js';
import { NEW_JOB_OPTIONS } from './fields.js';
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

/** What a placeholder stands for, of a scheduled time in milliseconds since 1970 and the Schedule's time zone. */
const PLACEHOLDERS: Record<string, (time: number, timeZone: string) => string> = {
  date: localDate,
  time: localTime,
  timeZone: (_, timeZone) => timeZone,
  scheduledAt: (time) => new Date(time).toISOString(),
};

/** A doubled brace, a placeholder, or a lone brace, which is wrong. */
const PARTS = /\{\{|\}\}|\{([A-Za-z]+)\}|[{}]/g;
const RULE = 'write {{ and }} for a brace of your own';

/** The prompt of a scheduled time; throws InvalidInputError where a brace is no placeholder's. */
export function renderPrompt(template: string, time: number, timeZone: string): string {
  return template.replace(PARTS, (part: string, name: string | undefined, offset: number) => {
    if (part === '{{' || part === '}}') return part.charAt(0);
    if (name !== undefined && Object.hasOwn(PLACEHOLDERS, name)) return PLACEHOLDERS[name]!(time, timeZone);
    throw new InvalidInputError('prompt', problemOf(name, offset));
  });
}

/** Tells the place and not the text around it: a prompt may be confidential. */
function problemOf(name: string | undefined, offset: number): string {
  const place = `at character ${offset + 1}`;
  if (name === undefined) return `has a lone brace ${place}: ${RULE}`;
  const known = Object.keys(PLACEHOLDERS).map((placeholder) => `{${placeholder}}`);
  return `has an unknown placeholder ${place}; there are ${known.join(', ')}; ${RULE}`;
}
