/** The texts by which lists and pages of the web UI name a job, a queue and what a job was asked. */
import { agentJobOf, type QueueName } from '../contract.js';
import { cutToBytes, utf8Bytes } from '../contract/input-checks.js';
import { codeBlock, plainMarkdown } from './markdown.js';

/** Temporal shows at most this much of a summary, in bytes of UTF-8. */
const SUMMARY_BYTES = 200;
const DETAILS_PROMPT_BYTES = 4_000;

interface TitledInput {
  projectId: string;
  prompt?: string | null;
  jobId?: string | null;
  /** The workflow id holds it encoded. */
  key?: string | null | undefined;
}

/**
 * One line that names a job: the project and the prompt's first line, at most 200 bytes. If prompts are hidden, the
 * key stands for the prompt; a workflow id without a key stands for both.
 */
export function jobTitle({ projectId, prompt, jobId }: TitledInput, hiddenBehind: string | null = null): string {
  const shown = prompt && hiddenBehind !== null ? (agentJobOf(hiddenBehind)?.key ?? hiddenBehind) : prompt;
  const subject = shown ? firstLine(shown) : `job ${jobId ?? ''}`;
  return shorten(`${projectId}: ${subject}`, SUMMARY_BYTES);
}

/** A title as Markdown of at most 200 bytes. */
export function titleSummary(title: string): string {
  return plainMarkdown(title, SUMMARY_BYTES);
}

/** Markdown for a job's page in the Temporal web UI: what was asked for, as known before the workflow runs. */
export function staticDetails({ projectId, prompt, jobId, key }: TitledInput): string {
  const names = [`**Project** ${plainMarkdown(projectId)}`, ...(key ? [`**Key** ${plainMarkdown(key)}`] : [])];
  if (prompt) names.push(`**Prompt**\n\n${codeBlock(shorten(prompt, DETAILS_PROMPT_BYTES))}`);
  else if (jobId) names.push(attachedTo(jobId));
  return names.join('\n\n');
}

/** The details of a run that goes on with an ended run's job: the ended run's details, and the job's id. */
export function attachedDetails(details: string, jobId: string): string {
  const asked = details.split(ATTACHED, 1)[0]!.trimEnd();
  return `${asked}\n\n${attachedTo(jobId)}`;
}

const ATTACHED = '\n\n**Attached to job** ';

function attachedTo(jobId: string): string {
  return `${ATTACHED.trimStart()}${plainMarkdown(jobId)}`;
}

/** One line that names a queue of requests wherever Temporal lists it, as Markdown of at most 200 bytes. */
export function queueSummary({ operation, projectId }: QueueName): string {
  if (projectId === null) return 'Queue of the requests of all exports';
  return plainMarkdown(`${projectId}: queue of ${operation}s`, SUMMARY_BYTES);
}

function firstLine(text: string): string {
  return text.trimStart().split(/[\r\n]/, 1)[0] ?? '';
}

function shorten(text: string, bytes: number): string {
  return utf8Bytes(text) <= bytes ? text : `${cutToBytes(text, bytes - utf8Bytes('…'))}…`;
}
