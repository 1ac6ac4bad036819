/** The contract of the workflow `agentJob`: its input, messages, state and result. See docs/contract.md. */
import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import { encodeId, LIMIT, type DurationInput } from './shared.js';

/** Workflow type, for callers that start the workflow by name. */
export const AGENT_JOB_WORKFLOW = 'agentJob';

/** The next wait is `ratio` times the time since the last known change, within `min` and `max`. */
export interface PollingInput {
  /** Default 2 seconds; less than 1 second counts as 1 second. */
  min?: DurationInput | null;
  /** Default 60 seconds. */
  max?: DurationInput | null;
  /** 0 or more; default 0.1. */
  ratio?: number | null;
}

/** What to do when a write may or may not have reached the upstream: ask a person, fail, or send it again. */
export type UnknownOutcomePolicy = 'ask' | 'fail' | 'retry';

/** What both kinds of job (created and attached) may set. */
export interface AgentJobOptions {
  /** How long to wait for a terminal status before `timedOut`; default 24 hours. */
  deadline?: DurationInput | null;
  polling?: PollingInput | null;
  /** Default `ask`. */
  onUnknownOutcome?: UnknownOutcomePolicy | null;
  /** How long `needsAttention` waits for a person; default for ever. */
  decideWithin?: DurationInput | null;
  /** A terminal status read so soon after a follow-up's acceptance is read again; default 5 seconds. */
  settle?: DurationInput | null;
  /** Stay open for follow-ups so long after a terminal status; default 0. */
  linger?: DurationInput | null;
}

/** A job to create. */
export interface CreateJobInput extends AgentJobOptions {
  /** 1 to 200 bytes when percent-encoded. */
  projectId: string;
  /** 1 byte to 512 KiB of UTF-8. */
  prompt: string;
  jobId?: null;
}

/** A job that exists upstream already, to attach to. */
export interface AttachJobInput extends AgentJobOptions {
  projectId: string;
  jobId: string;
  prompt?: null;
  /** Follow-up ids that an earlier run has used up. */
  usedFollowUpIds?: string[] | null;
}

/** The only argument of `agentJob`; exactly one of `prompt` and `jobId` is given. */
export type AgentJobInput = CreateJobInput | AttachJobInput;

/** The upstream's record of a job: the fields of its interface and no others, absent ones null. */
export interface JobRecord {
  id: string;
  status: string;
  source: { repository: string | null; ref: string | null } | null;
  model: string | null;
  prLink: string | null;
  createdAt: string | null;
  archivedAt: string | null;
}

/** The upstream's statuses that end a job. */
export const TERMINAL_STATUSES = ['completed', 'archived', 'failed'] as const;
export type TerminalStatus = (typeof TERMINAL_STATUSES)[number];

/** Whether an upstream status ends a job; a status that this release does not know never does. */
export function isTerminalStatus(status: string | undefined): status is TerminalStatus {
  return (TERMINAL_STATUSES as readonly (string | undefined)[]).includes(status);
}

/** What a job's workflow is doing. */
export const PHASES = ['creating', 'watching', 'sending', 'needsAttention', 'lingering', 'done'] as const;
export type Phase = (typeof PHASES)[number];

/** Docs/contract.md says what each means, and whether the follow-up's id is used up. */
export type FollowUpState = 'queued' | 'sent' | 'rejected' | 'unknown' | 'abandoned';

/** One follow-up as shown by state and result; never its prompt. */
export interface FollowUpStatus {
  id: string;
  state: FollowUpState;
  /** Up to 200 bytes of UTF-8. */
  error?: string;
}

/** A write in doubt: nobody knows whether the upstream accepted it. Times are ISO 8601 UTC with milliseconds. */
export interface InDoubtWrite {
  kind: 'create' | 'followUp';
  followUpId?: string;
  reason: string;
  /** When it came to be in doubt; names this write to `resolveUnknown`. */
  since: string;
  /** Before this time, whoever checks the upstream may miss a write that is still on its way. */
  lookAfter: string;
}

/** What a job may wait for; `turn` belongs to a queue that is still to come. */
export const WAITING_FOR = ['turn', 'rateLimit', 'upstream', 'key', 'person', 'poll', 'settle', 'linger'] as const;

/** Why no request is under way. Times are ISO 8601 UTC with milliseconds. */
export interface Waiting {
  for: (typeof WAITING_FOR)[number];
  since: string;
  /** When it ends at the latest, or is checked next; absent where nobody knows. */
  until?: string;
  /** In the queue of `turn`, from 1. */
  position?: number;
  reason?: string;
}

/** A job as the query `jobState` tells it. Times are ISO 8601 UTC with milliseconds. */
export interface JobState {
  phase: Phase;
  projectId: string;
  jobId: string | null;
  job: JobRecord | null;
  followUps: FollowUpStatus[];
  usedFollowUpIds: string[];
  /** The write in doubt; at most one at a time. */
  unknown: InDoubtWrite | null;
  /** Null only while a write is under way, or when the run is over. */
  waiting: Waiting | null;
  startedAt: string;
  /** When the job's record changed, or a follow-up was accepted. */
  lastChangeAt: string;
  /** Reads so far; those of a poll that was cut short are estimated from the plan. */
  polls: number;
}

/** How a job's workflow completed; a failure or a cancellation has no outcome. */
export type Outcome = TerminalStatus | 'timedOut' | 'lost' | 'abandoned';

interface ResultBase {
  projectId: string;
  followUps: FollowUpStatus[];
  usedFollowUpIds: string[];
  startedAt: string;
  finishedAt: string;
  polls: number;
}

/** The upstream ended the job; `job.prLink` is the pull request or null. */
export interface EndedJobResult extends ResultBase {
  outcome: TerminalStatus;
  jobId: string;
  job: JobRecord;
}

/** Polling ended without a terminal status; `job` is the last record read. */
export interface UnfinishedJobResult extends ResultBase {
  outcome: 'timedOut' | 'lost' | 'abandoned';
  jobId: string | null;
  job: JobRecord | null;
}

/** The result of `agentJob`. */
export type AgentJobResult = EndedJobResult | UnfinishedJobResult;

/** The argument of `followUp` and `sendFollowUp`. */
export interface FollowUpInput {
  /** 1 byte to 512 KiB of UTF-8. */
  prompt: string;
  /** At most 256 bytes; the same id is sent at most once over the whole life of the job. */
  id?: string | null;
}

/** The result of the update `sendFollowUp`. */
export interface FollowUpAnswer {
  id: string;
  state: FollowUpState;
  job: JobRecord | null;
}

/** How a person settles a write in doubt; `since` and `followUpId`, where given, must name the present one. */
export type ResolveUnknownInput =
  /** `force` adopts a job that can't be read just now; a job that does not exist is never adopted. */
  (
    | { action: 'adopt'; jobId: string; force?: boolean | null }
    | { action: 'delivered' | 'retry' | 'abandon'; jobId?: null }
  ) & { since?: string | null; followUpId?: string | null };

/** Queues a follow-up. */
export const followUpSignal = defineSignal<[FollowUpInput]>('followUp');
/** Reads the job at once, at most once a second and never against a `Retry-After`. */
export const pollNowSignal = defineSignal('pollNow');
/** Queues a follow-up and responds once its fate is known, or that it waits. */
export const sendFollowUpUpdate = defineUpdate<FollowUpAnswer, [FollowUpInput]>('sendFollowUp');
/** Settles a write in doubt. */
export const resolveUnknownUpdate = defineUpdate<JobState, [ResolveUnknownInput]>('resolveUnknown');
/** Tells the present state, of a closed workflow too. */
export const jobStateQuery = defineQuery<JobState>('jobState');

/** Details of the failure `CreateRejected`. */
export interface CreateRejectedDetails {
  /** The HTTP status. */
  status: number;
  /** The upstream's own text. */
  error: string;
}

/** Details of the failure `UnknownOutcome`. */
export interface UnknownOutcomeDetails {
  kind: 'create' | 'followUp';
  jobId: string | null;
  followUpId: string | null;
  reason: string;
}

/** Names of the search attributes, all Keyword. */
export const SEARCH_ATTRIBUTE = {
  project: 'AgentJobProject',
  phase: 'AgentJobPhase',
  status: 'AgentJobStatus',
  prLink: 'AgentJobPrLink',
} as const;

/** Names of the memo's fields. */
export const MEMO = { jobId: 'jobId', prLink: 'prLink', inputHash: 'inputHash' } as const;

/**
 * The first 64 characters of the upstream's status, control characters replaced, as `AgentJobStatus` and messages show
 * it.
 */
export function shownStatus(status: string): string {
  const characters = Array.from(status.slice(0, 2 * LIMIT.statusAttributeChars)).slice(0, LIMIT.statusAttributeChars);
  return characters
    .join('')
    .toWellFormed()
    .replace(/\p{Cc}/gu, ' ');
}

/** The workflow id of a project's key. */
export function agentJobWorkflowId(projectId: string, key: string): string {
  return `agent-job/${encodeId(projectId)}/${encodeId(key)}`;
}

/** The workflow id of a job that was attached without a key. */
export function attachedJobWorkflowId(projectId: string, jobId: string): string {
  return agentJobWorkflowId(projectId, 'attached').concat('/', encodeId(jobId));
}
