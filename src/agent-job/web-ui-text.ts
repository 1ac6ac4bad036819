/**
 * What Temporal's web UI shows of jobs and queues, as Markdown. Its renderer takes HTML, links of any scheme and bare
 * addresses as they come: text from outside must act as none of these. Pure and safe in workflow code.
 */
import { agentJobOf, type QueueName } from '../contract.js';
import { cutToBytes, utf8Bytes } from '../contract/shared.js';

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
  else if (jobId) names.push(`**Attached to job** ${plainMarkdown(jobId)}`);
  return names.join('\n\n');
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

/** What the web UI replaces by values of the page: a workflow id may hold anything. */
const PLACEHOLDER = /\{(?=(?:namespace|workflowId|runId)\})/g;
/** Characters that change the direction of text, so that it reads as what it is not. */
const DIRECTION = /[\u202a-\u202e\u2066-\u2069]/g;

/**
 * What acts as Markdown, each with its place: the rest stays as it is, so that people can read it unrendered, too.
 * First what acts at a line's start; `1/2`, `--` and `(c)` would become other characters.
 */
const MARKDOWN_PARTS = [
  /^[#+\-:>]|^\d+[.)](?=\s|$)/iu,
  /[\\`*{}[<|~$]|&(?=#?\w+;)|:(?=\S)/iu,
  /(?<=www)\.|(?<=\d)\/(?=\d)|-(?=-)|(?<=-)-|\((?=\w{1,2}\))/iu,
  /(?<![^\W_])_|_(?![^\W_])/iu,
];
const MARKDOWN = new RegExp(MARKDOWN_PARTS.map(({ source }) => source).join('|'), 'giu');
const MARKDOWN_OR_CHARACTER = new RegExp(`(${MARKDOWN.source})|[^]`, 'giu');

/** One line that reads as the text and acts as nothing; shortened to `mostBytes` bytes of UTF-8. */
export function plainMarkdown(text: string, mostBytes = Infinity): string {
  const line = oneLine(text);
  const whole = line.replace(MARKDOWN, escaped);
  if (mostBytes === Infinity || utf8Bytes(whole) <= mostBytes) return whole;
  const parts = [...line.matchAll(MARKDOWN_OR_CHARACTER)];
  const pieces = parts.map(([piece, active]) => (active ? escaped(active) : piece));
  const room = mostBytes - utf8Bytes('…');
  let size = 0;
  const end = pieces.findIndex((piece) => (size += utf8Bytes(piece)) > room);
  return `${pieces.slice(0, end).join('')}…`;
}

/** An indented block, line breaks kept: nothing in the text can close it, as it could a fence. */
export function codeBlock(text: string): string {
  return text
    .replace(DIRECTION, '')
    .replace(PLACEHOLDER, '{ ')
    .split(/\r\n|[\r\n\v\f\u0085\u2028\u2029]/)
    .map((line) => `    ${line}`)
    .join('\n');
}

/** A link that shows where it leads; plain text if the address is anything but a simple one of the web. */
export function linkMarkdown(address: string): string {
  return /^https?:\/\/[a-z0-9.-]+(:\d+)?(\/[a-z0-9./-]*)?$/i.test(address) ? `<${address}>` : plainMarkdown(address);
}

function oneLine(text: string): string {
  const spaced = text.replace(DIRECTION, '').replace(/[\p{Cc}\u2028\u2029]+/gu, ' ');
  return spaced.trim().toWellFormed();
}

// A slash can't be escaped as the others are.
function escaped(active: string): string {
  return active === '/' ? '&#47;' : `${active.slice(0, -1)}\\${active.at(-1)}`;
}
