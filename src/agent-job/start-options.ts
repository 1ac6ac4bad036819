/** The options of a start call, the same for a Temporal client and for a parent workflow. Safe in workflow code. */
import { defineSearchAttributeKey, SearchAttributeType, TypedSearchAttributes } from '@temporalio/common';
import {
  agentJobWorkflowId,
  attachedJobWorkflowId,
  DEFAULT_TASK_QUEUE,
  LIMIT,
  MEMO,
  SEARCH_ATTRIBUTE,
  type AgentJobInput,
  type Phase,
} from '../contract.js';
import { inputHash } from './input.js';
import { parseJobInput } from './input.js';
import { checkString, InvalidInputError, utf8Bytes } from '../contract/input-checks.js';
import { staticDetails, jobSummary } from './title.js';

const PROJECT = defineSearchAttributeKey(SEARCH_ATTRIBUTE.project, SearchAttributeType.KEYWORD);
const PHASE = defineSearchAttributeKey(SEARCH_ATTRIBUTE.phase, SearchAttributeType.KEYWORD);

export interface AgentJobPlace {
  /** The caller's name for the job, unique in its project; becomes the workflow id. */
  key?: string | undefined;
  /** A workflow id of the caller's own choice, in place of `key`. */
  workflowId?: string | undefined;
  /** Where the agent-jobs worker listens; default `agent-jobs`. */
  taskQueue?: string | undefined;
  /** Of the job that this run goes on with; default: that of the input. */
  inputHash?: string | undefined;
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
  workflowIdReusePolicy: 'REJECT_DUPLICATE';
}

/**
 * Checks the input and says in the start call all that a job can say about itself, which costs nothing there.
 * Throws InvalidInputError, which names the wrong field.
 */
export function agentJobStartOptions(input: AgentJobInput, place: AgentJobPlace): AgentJobStartOptions {
  const { projectId, prompt, jobId } = parseJobInput(input);
  const phase: Phase = jobId === null ? 'creating' : 'watching';
  const hash = place.inputHash ?? inputHash({ projectId, prompt, jobId });
  return {
    workflowId: workflowIdFor(projectId, jobId, place),
    taskQueue: place.taskQueue ?? DEFAULT_TASK_QUEUE,
    args: [input],
    memo: { [MEMO.inputHash]: hash, ...(jobId === null ? {} : { [MEMO.jobId]: jobId }) },
    typedSearchAttributes: new TypedSearchAttributes([
      { key: PROJECT, value: projectId },
      { key: PHASE, value: phase },
    ]),
    staticSummary: jobSummary({ projectId, prompt, jobId }),
    staticDetails: staticDetails({ projectId, prompt, jobId }),
    workflowIdReusePolicy: 'REJECT_DUPLICATE',
  };
}

function workflowIdFor(projectId: string, jobId: string | null, { key, workflowId }: AgentJobPlace): string {
  if (workflowId !== undefined) return checkLength(checkString(workflowId, 'workflowId'), 'workflowId');
  if (key !== undefined) return checkLength(agentJobWorkflowId(projectId, checkKey(key)), 'key');
  if (jobId !== null) return checkLength(attachedJobWorkflowId(projectId, jobId), 'jobId', '; give a key in its place');
  throw new InvalidInputError('key', 'must be given: it makes a repeated start answer with the same job');
}

/** Refuses everywhere what some servers would answer with an error of their database. */
function checkLength(workflowId: string, field: string, remedy = ''): string {
  const characters = Array.from(workflowId).length;
  const bytes = utf8Bytes(workflowId);
  const { workflowIdCharacters, workflowIdBytes } = LIMIT;
  if (characters >= 1 && characters <= workflowIdCharacters && bytes <= workflowIdBytes) return workflowId;
  const most = `1 to ${workflowIdCharacters} characters and ${workflowIdBytes} bytes`;
  const limit = `must make a workflow id of ${most}, the most that every Temporal server keeps`;
  const size = `"${cut(workflowId)}" has ${characters} characters and ${bytes} bytes`;
  throw new InvalidInputError(field, `${limit}; ${size}${remedy}`);
}

function cut(text: string): string {
  return text.length <= 60 ? text : `${text.slice(0, 60).toWellFormed()}…`;
}

/** Checks a key: it becomes part of a workflow id. */
export function checkKey(key: unknown): string {
  const isText = typeof key === 'string' && key.isWellFormed() && !/\p{Cc}/u.test(key);
  if (!isText || key.length === 0) {
    throw new InvalidInputError('key', 'must be well-formed text without control characters, at least one character');
  }
  return key;
}
