/** Decides what a start says of a job, for a Temporal client and a parent workflow alike. Safe in workflow code. */
import { defineSearchAttributeKey, type Priority, TypedSearchAttributes } from '@temporalio/common';
import {
  agentJobOf,
  agentJobWorkflowId,
  attachedJobWorkflowId,
  DEFAULT_TASK_QUEUE,
  LIMIT,
  MEMO,
  SEARCH_ATTRIBUTE,
  type AgentJobInput,
  type Phase,
} from '../contract.js';
import { inputHash, parseJobInput, sha256Hex } from './input.js';
import { hasEntries } from './fields.js';
import { TEXT, text } from '../contract/kinds.js';
import { cutToBytes, jsonBytes, utf8Bytes } from '../contract/shared.js';
import { InvalidInputError } from '../contract/errors.js';
import { jobTitle, staticDetails, titleSummary } from './web-ui-text.js';

/** The key of the tags. */
export const TAGS_KEY = defineSearchAttributeKey(SEARCH_ATTRIBUTE.tags, 'KEYWORD_LIST');

/** The key of any other search attribute. */
export function keyOf(name: Exclude<keyof typeof SEARCH_ATTRIBUTE, 'tags'>) {
  return defineSearchAttributeKey(SEARCH_ATTRIBUTE[name], 'KEYWORD');
}

/** Under which id and on which task queue a job runs, and how it is shown. */
export interface AgentJobPlace {
  /** The caller's name for the job, unique in its project; becomes the workflow id. */
  key?: string | null | undefined;
  /** A workflow id of the caller's own choice, in place of `key`. */
  workflowId?: string | null | undefined;
  /** The task queue of the jobs' workers; default `agent-jobs`. */
  taskQueue?: string | null | undefined;
  /** The hash of the job that this run goes on with; default: that of the input. */
  inputHash?: string | null | undefined;
  /** The title of the job that this run goes on with; default: the project and the prompt's first line. */
  title?: string | null | undefined;
  /** Titles and details name the job by its key; nothing of the prompt or of the upstream's own words is shown. */
  hidePrompts?: boolean | null | undefined;
}

/** What `client.workflow.start` and `startChild` take alike. */
export interface AgentJobStartOptions {
  workflowId: string;
  taskQueue: string;
  args: [AgentJobInput];
  memo: Record<string, unknown>;
  typedSearchAttributes: TypedSearchAttributes;
  staticSummary: string;
  staticDetails: string;
  /** Its activities and continue-as-new inherit it. */
  priority: Priority;
  workflowIdReusePolicy: 'REJECT_DUPLICATE';
}

/**
 * Checks the input and says in the start call all that a job can say about itself, which costs nothing there.
 * Throws InvalidInputError, which names the wrong field.
 */
export function agentJobStartOptions(input: AgentJobInput, place: AgentJobPlace): AgentJobStartOptions {
  const { projectId, prompt, jobId, priority, batch, tags, metadata } = parseJobInput(input);
  checkSize(input);
  const phase: Phase = jobId === null ? 'creating' : 'watching';
  const workflowId = workflowIdFor(projectId, jobId, place);
  const title = place.title ?? jobTitle({ projectId, prompt, jobId }, place.hidePrompts ? workflowId : null);
  const shown = place.hidePrompts ? null : prompt;
  const hash = place.inputHash ?? inputHash({ projectId, prompt, jobId });
  return {
    workflowId,
    taskQueue: place.taskQueue ?? DEFAULT_TASK_QUEUE,
    args: [input],
    memo: {
      [MEMO.inputHash]: hash,
      [MEMO.title]: title,
      ...(hasEntries(metadata) && { [MEMO.metadata]: metadata }),
      ...(place.hidePrompts && { [MEMO.hidePrompts]: true }),
    },
    typedSearchAttributes: new TypedSearchAttributes([
      { key: keyOf('project'), value: projectId },
      { key: keyOf('phase'), value: phase },
      ...(jobId === null ? [] : [{ key: keyOf('jobId'), value: jobId }]),
      // A namespace that lacks these attributes still takes jobs without a batch and tags.
      ...(batch === null ? [] : [{ key: keyOf('batch'), value: batch }]),
      ...(tags.length === 0 ? [] : [{ key: TAGS_KEY, value: tags }]),
    ]),
    staticSummary: titleSummary(title),
    staticDetails: staticDetails({ projectId, prompt: shown, jobId, key: agentJobOf(workflowId)?.key }),
    priority: { priorityKey: priority, fairnessKey: fairnessKey(projectId) },
    workflowIdReusePolicy: 'REJECT_DUPLICATE',
  };
}

/** Temporal's own limit. */
const FAIRNESS_KEY_BYTES = 64;
const HASH_DIGITS = 16;

/** By which Temporal shares its workers among projects: the project's id, or its beginning and a hash of it. */
function fairnessKey(projectId: string): string {
  if (utf8Bytes(projectId) <= FAIRNESS_KEY_BYTES) return projectId;
  const hash = sha256Hex(projectId).slice(0, HASH_DIGITS);
  return `${cutToBytes(projectId, FAIRNESS_KEY_BYTES - HASH_DIGITS - 1)}~${hash}`;
}

/** Temporal takes 2 MiB; fields that the contract does not know count as well. */
const MAX_INPUT_BYTES = 1_900_000;

function checkSize(input: AgentJobInput): void {
  const bytes = jsonBytes(input);
  if (bytes <= MAX_INPUT_BYTES) return;
  throw new InvalidInputError('input', `must be at most ${MAX_INPUT_BYTES} bytes as JSON; it is ${bytes}`);
}

function workflowIdFor(projectId: string, jobId: string | null, { key, workflowId }: AgentJobPlace): string {
  if (workflowId != null) return checkLength(TEXT.check(workflowId, 'workflowId'), 'workflowId');
  if (key != null) return checkLength(agentJobWorkflowId(projectId, checkKey(key)), 'key');
  if (jobId !== null) return checkLength(attachedJobWorkflowId(projectId, jobId), 'jobId', '; give a key in its place');
  throw new InvalidInputError('key', 'must be given: it makes a repeated start answer with the same job');
}

/** What some servers would answer with an error of their database is invalid on all of them. */
function checkLength(workflowId: string, field: string, remedy = ''): string {
  const characters = Array.from(workflowId).length;
  const most = LIMIT.workflowIdCharacters;
  if (characters >= 1 && characters <= most) return workflowId;
  const limit = `must make a workflow id of 1 to ${most} characters, the most that every Temporal server keeps`;
  throw new InvalidInputError(field, `${limit}; it has ${characters}${remedy}`);
}

const KEY = text({ maxBytes: LIMIT.workflowIdBytes });

/** Checks a key: it becomes part of a workflow id. */
export function checkKey(key: unknown, field = 'key'): string {
  return KEY.check(key, field);
}
