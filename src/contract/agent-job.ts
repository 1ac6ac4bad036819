/** The contract of the workflow `agentJob`: its input, messages and names. See docs/contract.md. */
import type { FollowUpState, JobRecord, JobState } from './job-state.js';
import { defineQuery, defineSignal, defineUpdate, encodeId } from './shared.js';
import type { DecisionAction, DurationInput, JobMetadata, PromptHashes } from './shared.js';

/** Workflow type, for callers that start the workflow by name. */
export const AGENT_JOB_WORKFLOW = 'agentJob';

/** The next wait is `ratio` times the time since the last known change, within `min` and `max`. */
export interface PollingInput {
  /** Shortest wait between two polls; default 2 seconds. Less than 1 second counts as 1 second. */
  min?: DurationInput | null | undefined;
  /** Longest wait between two polls; default 60 seconds. */
  max?: DurationInput | null | undefined;
  /** The next wait as a share of the time since the last change, 0 or more; default 0.1. */
  ratio?: number | null | undefined;
}

/** What to do when a write may or may not have reached the upstream: ask a person, fail, or send it again. */
export type UnknownOutcomePolicy = 'ask' | 'fail' | 'retry';

/** Temporal's own scale: 1 goes first, 3 is the default. */
export type Priority = 1 | 2 | 3 | 4 | 5;

/** The priority without a given one. */
export const DEFAULT_PRIORITY: Priority = 3;

/** What both kinds of job (created and attached) may set. */
export interface AgentJobOptions {
  /**
   * How long to wait for a terminal status before `timedOut`; default 24 hours. It stands still while a write waits for
   * its turn.
   */
  deadline?: DurationInput | null | undefined;
  /** How long the create may wait for its first turn before `timedOut`; default for ever. */
  startWithin?: DurationInput | null | undefined;
  /** The order of writes that wait for their turn, 1 to 5, 1 first; default 3. */
  priority?: Priority | null | undefined;
  /** A label to find jobs by that were started together; at most 100 bytes. */
  batch?: string | null | undefined;
  /** Labels to filter by: at most 10, each at most 64 bytes. */
  tags?: readonly string[] | null | undefined;
  /**
   * The caller's own, such as a correlation id: texts by name, at most 4 KiB as JSON. Shown by state, result and log
   * lines; never sent upstream.
   */
  metadata?: JobMetadata | null | undefined;
  /** How often to poll the job. */
  polling?: PollingInput | null | undefined;
  /** What to do with a write that may or may not have arrived: ask a person, fail, or send it again; default `ask`. */
  onUnknownOutcome?: UnknownOutcomePolicy | null | undefined;
  /** How long `needsAttention` waits for a person; default for ever. */
  decideWithin?: DurationInput | null | undefined;
  /**
   * How long an end must stand that may come too early: any end after a follow-up, and `completed` without a pull
   * request. Default 30 seconds.
   */
  settle?: DurationInput | null | undefined;
}

/** A job to create. */
export interface CreateJobInput extends AgentJobOptions {
  /** The upstream's project, 1 to 200 bytes when percent-encoded. */
  projectId: string;
  /** What to do, 1 byte to 512 KiB of UTF-8. */
  prompt: string;
  jobId?: null | undefined;
}

/** A job that exists upstream already, to attach to. */
export interface AttachJobInput extends AgentJobOptions {
  projectId: string;
  /** An existing job of the upstream, to watch in place of a new one. */
  jobId: string;
  prompt?: null | undefined;
  /** Follow-up ids that an earlier run has used up. */
  usedFollowUpIds?: readonly string[] | null | undefined;
  /** Of these ids, the hashes of their prompts, as far as they are known. */
  promptHashes?: PromptHashes | null | undefined;
}

/** The only argument of `agentJob`; exactly one of `prompt` and `jobId` is given. */
export type AgentJobInput = CreateJobInput | AttachJobInput;

/** The argument of `followUp` and `sendFollowUp`. */
export interface FollowUpInput {
  /** What to do, 1 byte to 512 KiB of UTF-8. */
  prompt: string;
  /** Sent at most once over the whole life of the job; at most 256 bytes; default a new one each time. */
  id?: string | null | undefined;
  /** The order of writes that wait for their turn, 1 to 5, 1 first; default that of the job. */
  priority?: Priority | null | undefined;
}

/** The result of the update `sendFollowUp`. */
export interface FollowUpAnswer {
  id: string;
  state: FollowUpState;
  job: JobRecord | null;
}

/** Who decides, and why. */
export interface Attribution {
  /** Who decides: 1 to 200 bytes, without control characters. */
  by?: string | null | undefined;
  /** Why: 1 to 1,000 bytes; line breaks and tabs are its only control characters. */
  note?: string | null | undefined;
}

/** Which write in doubt is meant: what is given must name the present one. */
interface NamedWrite {
  /** Names the write that is meant, by the time that the state has. */
  since?: string | null | undefined;
  /** Names the follow-up that is meant. */
  followUpId?: string | null | undefined;
}

/** A create in doubt has made this job. */
export interface AdoptDecision extends Attribution, NamedWrite {
  action: 'adopt';
  jobId: string;
  /**
   * Adopts a job that can't be read just now, that another workflow has had, or that is older than this run; a job that
   * does not exist is never adopted.
   */
  force?: boolean | null | undefined;
}

/** What became of a write in doubt otherwise. */
export interface OtherDecision extends Attribution, NamedWrite {
  action: Exclude<DecisionAction, 'adopt'>;
  jobId?: null | undefined;
}

/** How a person resolves a write in doubt. */
export type ResolveUnknownInput = AdoptDecision | OtherDecision;

/** Queues a follow-up. */
export const followUpSignal = defineSignal<[FollowUpInput]>('followUp');
/**
 * Polls the job at once, at most once a second and never against a `Retry-After`. The argument stays in Temporal's
 * history; the job ignores it.
 */
export const pollNowSignal = defineSignal<[Attribution?]>('pollNow');
/** Queues a follow-up and responds once its outcome is known, or that it waits. */
export const sendFollowUpUpdate = defineUpdate<FollowUpAnswer, [FollowUpInput]>('sendFollowUp');
/** Resolves a write in doubt. */
export const resolveUnknownUpdate = defineUpdate<JobState, [ResolveUnknownInput]>('resolveUnknown');
/** The present state, of a closed workflow too. */
export const jobStateQuery = defineQuery<JobState>('jobState');

/** The activity by which a workflow gets the result of a job that another one started: on the jobs' task queue. */
export const JOIN_JOB_ACTIVITY = 'joinAgentJob';

/** The only argument of `joinAgentJob`. */
export interface JoinJobInput {
  /** The id of the job, as it was started or is to be. */
  workflowId: string;
  /** Says whether it is the same job; it is started if the key has none. */
  job: AgentJobInput;
  /** If it is started: its key names it, and nothing of the prompt is shown. */
  hidePrompts?: boolean | null | undefined;
}

/** `type` of the failure if a workflow has a job done without a result, beside those of `agentJob` itself. */
export const JOIN_FAILURE = {
  keyConflict: 'KeyConflict',
  canceled: 'Canceled',
  terminated: 'Terminated',
  timedOut: 'TimedOut',
  /** Temporal no longer keeps the job, so its end is unknown. */
  notFound: 'NotFound',
} as const;

/** Names of the search attributes, all Keyword but the tags, which are a KeywordList. */
export const SEARCH_ATTRIBUTE = {
  project: 'AgentJobProject',
  phase: 'AgentJobPhase',
  status: 'AgentJobStatus',
  prLink: 'AgentJobPrLink',
  waitingFor: 'AgentJobWaitingFor',
  batch: 'AgentJobBatch',
  tags: 'AgentJobTags',
  outcome: 'AgentJobOutcome',
  jobId: 'AgentJobId',
} as const;

/** The type of a search attribute, as Temporal's tools name it. */
export function attributeType(name: string): 'Keyword' | 'KeywordList' {
  return name === SEARCH_ATTRIBUTE.tags ? 'KeywordList' : 'Keyword';
}

/** Names of the memo's fields. */
export const MEMO = {
  /** Only a link that its search attribute can't hold. */
  prLink: 'prLink',
  inputHash: 'inputHash',
  metadata: 'metadata',
  title: 'title',
  /** True if neither titles nor texts of the upstream may show the prompt. */
  hidePrompts: 'hidePrompts',
} as const;

/** The search attributes of a job, as far as they are set. */
export type AgentJobSearchAttributes = {
  [Name in (typeof SEARCH_ATTRIBUTE)[keyof typeof SEARCH_ATTRIBUTE]]?: Name extends typeof SEARCH_ATTRIBUTE.tags
    ? readonly string[]
    : string;
};

/** The memo of a job, as far as it is set. */
export type AgentJobMemo = {
  [Name in (typeof MEMO)[keyof typeof MEMO]]?: Name extends typeof MEMO.metadata
    ? JobMetadata
    : Name extends typeof MEMO.hidePrompts
      ? boolean
      : string;
};

/** The workflow id of a project's key. Its colons stay: to the id of a Schedule Temporal appends a time with colons. */
export function agentJobWorkflowId(projectId: string, key: string): string {
  return `agent-job/${encodeId(projectId)}/${encodeId(key).replaceAll('%3A', ':')}`;
}

/** The workflow id of a job that was attached without a key. */
export function attachedJobWorkflowId(projectId: string, jobId: string): string {
  return agentJobWorkflowId(projectId, 'attached').concat('/', encodeId(jobId));
}

/** What the workflow id of a job names: its project, and its key or, of a job attached without one, its job id. */
export interface NamedJob {
  projectId: string;
  key: string | null;
  jobId: string | null;
}

/** The project and key, or job id, that a workflow id names; null if it is of another making. */
export function agentJobOf(workflowId: string): NamedJob | null {
  const [prefix, ...parts] = workflowId.split('/');
  const isAttached = parts.length === 3 && parts[1] === 'attached';
  if (prefix !== 'agent-job' || (parts.length !== 2 && !isAttached)) return null;
  try {
    const [projectId = '', name = '', jobId = null] = parts.map(decodeURIComponent);
    const again = jobId === null ? agentJobWorkflowId(projectId, name) : attachedJobWorkflowId(projectId, jobId);
    if (again !== workflowId) return null;
    return jobId === null ? { projectId, key: name, jobId: null } : { projectId, key: null, jobId };
  } catch {
    return null;
  }
}
