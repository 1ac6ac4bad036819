/** What callers read of a job: the upstream's record, the workflow's state and result. See docs/contract.md. */
import { LIMIT, type DecisionAction, type JobMetadata, type PromptHashes } from './shared.js';
import type { JobOutcome, Outcome, Phase, TerminalStatus, WAITING_FOR } from './words.js';

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

/** Docs/contract.md says what each means, and whether the follow-up's id is used up. */
export type FollowUpState = 'queued' | 'sent' | 'rejected' | 'unknown' | 'abandoned';

/** One follow-up as shown by state and result; never its prompt. */
export interface FollowUpStatus {
  id: string;
  state: FollowUpState;
  /** Up to 200 bytes of UTF-8. */
  error?: string;
}

/** A write in doubt: whether the upstream accepted it is unknown. Times are ISO 8601 UTC with milliseconds. */
export interface InDoubtWrite {
  kind: 'create' | 'followUp';
  followUpId?: string;
  reason: string;
  /** When the write came to be in doubt. `resolveUnknown` names the write by this time. */
  since: string;
  /** Before this time a check upstream may miss a write that is still on its way. */
  lookAfter: string;
}

/** What a person decided about a write in doubt, once it was carried out. */
export interface Decision {
  action: DecisionAction;
  kind: InDoubtWrite['kind'];
  followUpId?: string;
  /** The job that was adopted. */
  jobId?: string;
  /** Who decided, as the caller said. */
  by?: string;
  note?: string;
  /** ISO 8601 UTC with milliseconds. */
  at: string;
}

/** Why no request is under way. Times are ISO 8601 UTC with milliseconds. */
export interface Waiting {
  for: (typeof WAITING_FOR)[number];
  since: string;
  /** When the wait ends at the latest, or is checked next; absent if unknown. */
  until?: string;
  /** In the queue of `turn`, from 1. */
  position?: number;
  reason?: string;
}

/** What state and result have in common. Times are ISO 8601 UTC with milliseconds. */
interface JobFacts {
  projectId: string;
  /** The last pull request that was seen in this run; null if none was. */
  prLink: string | null;
  /** All that were seen, in the order seen; the last 20. */
  prLinks: string[];
  /**
   * Whether the polls after the last accepted follow-up showed that it was worked on. Null without a follow-up, and if
   * the last poll before it showed an active job.
   */
  sawWork: boolean | null;
  followUps: FollowUpStatus[];
  usedFollowUpIds: string[];
  /** The hashes by follow-up id, for the follow-ups that this run took, or that its input gave. */
  promptHashes: PromptHashes;
  /** What people decided about writes in doubt; the last 100. */
  decisions: Decision[];
  tags: string[];
  metadata: JobMetadata;
  startedAt: string;
  /** Polls so far; those of a batch that was cut short are estimated from the plan. */
  polls: number;
}

/** A job as the query `jobState` shows it. Times are ISO 8601 UTC with milliseconds. */
export interface JobState extends JobFacts {
  phase: Phase;
  jobId: string | null;
  job: JobRecord | null;
  /** The write in doubt; at most one at a time. */
  unknown: InDoubtWrite | null;
  /** Null only while a write is under way, or when the run is over. */
  waiting: Waiting | null;
  /** Null while the workflow runs. */
  outcome: JobOutcome | null;
  /** When the job's record last changed, or a follow-up was last accepted. */
  lastChangeAt: string;
}

/** The upstream ended the job; `prLink` is the pull request or null. */
export interface EndedJobResult extends JobFacts {
  finishedAt: string;
  /** The end, never the upstream's word for it. */
  outcome: TerminalStatus;
  /** Why the end counts though it did not stand for `settle`. */
  reason?: string;
  jobId: string;
  job: JobRecord;
}

/** Polling ended without a terminal status; `job` is the last record seen. */
export interface UnfinishedJobResult extends JobFacts {
  finishedAt: string;
  outcome: Exclude<Outcome, TerminalStatus>;
  /** What the last polls showed, of `timedOut` and `lost`. */
  reason?: string;
  jobId: string | null;
  job: JobRecord | null;
}

/** The result of `agentJob`. */
export type AgentJobResult = EndedJobResult | UnfinishedJobResult;

/** Details of the failure `InvalidInput`, also of an invalid update. */
export interface InvalidInputDetails {
  /** The field that is wrong; its name begins the message. */
  field: string;
}

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

/** The upstream's status for `AgentJobStatus` and messages: 64 characters at most, control characters replaced. */
export function shownStatus(status: string): string {
  const most = LIMIT.statusAttributeCharacters;
  return Array.from(status.slice(0, 2 * most))
    .slice(0, most)
    .join('')
    .toWellFormed()
    .replace(/\p{Cc}/gu, ' ');
}
