/**
 * Checks what callers of `agentJob` send: the input, follow-ups, and decisions about writes in doubt. Also the hashes
 * that show whether a key or a follow-up's id was used before for something else. The workflow, which trusts no caller,
 * and our own client use it. Pure and safe in workflow code.
 */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import type { AgentJobInput, AgentJobOptions, PromptHashes, ResolveUnknownInput } from '../contract.js';
import { checkObject, ID, isGiven, type Parsed, parseFields } from '../contract/kinds.js';
import { InvalidInputError } from '../contract/errors.js';
import { ADOPT, ATTACH_JOB, ATTRIBUTION, CREATE_JOB, DECISION_ACTION, FOLLOW_UP, OTHER_DECISION } from './fields.js';
import type { JOB_OPTIONS } from './fields.js';

/** A valid input of `agentJob`, defaults filled in: for a job to be created, or for one that exists. */
export type JobSpec = { projectId: string; usedFollowUpIds: string[]; promptHashes: PromptHashes } & JobOptions &
  ({ prompt: string; jobId: null } | { prompt: null; jobId: string });

type Options = Parsed<typeof JOB_OPTIONS>;
/** Null: for ever. */
type DurationField = 'deadline' | 'startWithin' | 'decideWithin' | 'settle';

/** Times in milliseconds, by names that say so. */
type JobOptions = Omit<Options, DurationField> & { [Name in DurationField as `${Name}Ms`]: Options[Name] };

/** Checks the input of `agentJob`; unknown fields are ignored, null means absent. */
export function parseJobInput(input: unknown): JobSpec {
  const fields = checkObject(input, 'input');
  ID.check(fields.projectId, 'projectId');
  const hasPrompt = isGiven(fields.prompt);
  if (hasPrompt === isGiven(fields.jobId)) {
    throw new InvalidInputError(
      hasPrompt ? 'prompt and jobId' : 'prompt or jobId',
      `must be given, exactly one of the two: a prompt creates a job, a jobId attaches to one`,
    );
  }
  return toSpec(hasPrompt ? parseFields(CREATE_JOB, fields) : parseFields(ATTACH_JOB, fields));
}

/** The same check of what another kind of caller wrote. */
export function checkJobInput(input: object): asserts input is AgentJobInput {
  parseJobInput(input);
}

type GivenJob = Parsed<typeof CREATE_JOB> | Parsed<typeof ATTACH_JOB>;

function toSpec({ deadline, startWithin, decideWithin, settle, ...others }: GivenJob): JobSpec {
  return {
    ...others,
    deadlineMs: deadline,
    startWithinMs: startWithin,
    decideWithinMs: decideWithin,
    settleMs: settle,
  };
}

/** A follow-up as a caller gave it; `id` and `priority` are null if it has none. */
export type GivenFollowUp = Parsed<typeof FOLLOW_UP>;

/** Checks the argument of `followUp` and `sendFollowUp`. */
export function parseFollowUp(input: unknown): GivenFollowUp {
  return parseFields(FOLLOW_UP, checkObject(input, 'follow-up'));
}

/** What says which job an input is about. */
const ABOUT_THE_JOB: readonly string[] = [
  'projectId',
  'prompt',
  'jobId',
  'usedFollowUpIds',
  'promptHashes',
  'continued',
];

/** The caller's own options in an input that a run was started with, those of a newer release among them. */
export function givenOptions(input: unknown): AgentJobOptions {
  const given = Object.entries(checkObject(input, 'input'));
  return Object.fromEntries(given.filter(([name, value]) => isGiven(value) && !ABOUT_THE_JOB.includes(name)));
}

/** Lower-case hex of the SHA-256 of a text's UTF-8. */
export let sha256Hex = (text: string): string => bytesToHex(sha256(new TextEncoder().encode(text)));

/** Hashes by the runtime's own SHA-256 from now on. Workflow code has none; ours is ten times as slow. */
export function hashNatively(native: (text: string) => string): void {
  sha256Hex = native;
}

/** Shows whether a repeated follow-up id names the same prompt; see `PromptHashes`. Safe in workflow code. */
export function promptHash(prompt: string): string {
  return sha256Hex(prompt).slice(0, 8);
}

/** Whether a follow-up id was taken before with another prompt, as far as the hash of that is known. */
export function isOtherPrompt(known: string | undefined, prompt: string): boolean {
  return known !== undefined && known !== promptHash(prompt);
}

/** The hash of an id; undefined if none is known. An id may have any name, such as `constructor`. */
export function hashOf(hashes: PromptHashes | undefined, id: string): string | undefined {
  return hashes && Object.hasOwn(hashes, id) ? hashes[id] : undefined;
}

/** What is wrong with a follow-up that a job has no room for. */
export const FULL_QUEUE = 'meets a full queue: at most 1 MiB of prompts wait, 1,000 are taken per job';

/** The words for a follow-up whose id was taken with another prompt. */
export function followUpConflictText(id: string): string {
  return `follow-up ${JSON.stringify(id)} was taken before with another prompt: choose another id`;
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
  return sha256Hex(`${input.projectId}\0${field}\0${value}`);
}

/** Checks the argument of `resolveUnknown`, not yet whether it fits the write in doubt. */
export function parseResolution(input: unknown): ResolveUnknownInput {
  return { ...parseDecision(input), ...parseAttribution(input) };
}

/** Checks who decides, and why; what is not given is left out. */
export function parseAttribution(input: unknown): { by?: string; note?: string } {
  const { by, note } = parseFields(ATTRIBUTION, checkObject(input, 'argument'));
  return { ...(by !== null && { by }), ...(note !== null && { note }) };
}

function parseDecision(input: unknown): ResolveUnknownInput {
  const fields = checkObject(input, 'resolution');
  const action = DECISION_ACTION.check(fields.action, 'action');
  return action === 'adopt' ? parseFields(ADOPT, fields) : parseFields(OTHER_DECISION, fields);
}
