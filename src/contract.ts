/**
 * The public vocabulary: every name and JSON shape that callers in any language rely on.
 * Safe to import anywhere, workflow code included. See docs/contract.md.
 */
import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';

export const DEFAULT_TASK_QUEUE = 'agent-jobs';

/** The task queue of the export activities, next to the jobs' own queue. */
export function exportTaskQueue(taskQueue: string): string {
  return `${taskQueue}-export`;
}

/** Workflow types, for callers that start a workflow by name. */
export const AGENT_JOB_WORKFLOW = 'agentJob';
export const VISITOR_EXPORT_WORKFLOW = 'visitorExport';

/** A number of milliseconds or a string such as `30 seconds`; 0 to 10 years. */
export type DurationInput = number | string;

export interface PollingInput {
  min?: DurationInput | null;
  max?: DurationInput | null;
  ratio?: number | null;
}

export type UnknownOutcomePolicy = 'ask' | 'fail' | 'retry';

/** What both kinds of job (created and attached) may set. */
export interface AgentJobOptions {
  deadline?: DurationInput | null;
  polling?: PollingInput | null;
  onUnknownOutcome?: UnknownOutcomePolicy | null;
  decideWithin?: DurationInput | null;
  settle?: DurationInput | null;
  linger?: DurationInput | null;
}

export interface CreateJobInput extends AgentJobOptions {
  projectId: string;
  prompt: string;
  jobId?: null;
}

export interface AttachJobInput extends AgentJobOptions {
  projectId: string;
  jobId: string;
  prompt?: null;
  /** Follow-up ids that an earlier run has used up. */
  usedFollowUpIds?: string[] | null;
}

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

export const TERMINAL_STATUSES = ['completed', 'archived', 'failed'] as const;
export type TerminalStatus = (typeof TERMINAL_STATUSES)[number];

export function isTerminalStatus(status: string | undefined): status is TerminalStatus {
  return (TERMINAL_STATUSES as readonly (string | undefined)[]).includes(status);
}

export const PHASES = ['creating', 'watching', 'sending', 'needsAttention', 'lingering', 'done'] as const;
export type Phase = (typeof PHASES)[number];

export type FollowUpState = 'queued' | 'sent' | 'rejected' | 'unknown' | 'abandoned';

/** One follow-up as shown by state and result; never its prompt. */
export interface FollowUpStatus {
  id: string;
  state: FollowUpState;
  /** Up to 200 bytes of UTF-8. */
  error?: string;
}

/** A write of which nobody knows whether the upstream took it. */
export interface UnknownWrite {
  kind: 'create' | 'followUp';
  followUpId?: string;
  reason: string;
  /** ISO 8601 UTC with milliseconds; names this unknown to `resolveUnknown`. */
  since: string;
  /** ISO 8601 UTC with milliseconds; before this time a look upstream may miss a write that is still on its way. */
  lookAfter: string;
}

/** `turn` and `position` belong to a queue that is still to come. */
export const WAITING_FOR = ['turn', 'rateLimit', 'upstream', 'key', 'person', 'poll', 'settle', 'linger'] as const;

/** Why nothing happens right now. Times are ISO 8601 UTC with milliseconds. */
export interface Waiting {
  for: (typeof WAITING_FOR)[number];
  since: string;
  /** When it ends at the latest, or is looked at next; absent where nobody knows. */
  until?: string;
  position?: number;
  reason?: string;
}

export interface JobState {
  phase: Phase;
  projectId: string;
  jobId: string | null;
  job: JobRecord | null;
  followUps: FollowUpStatus[];
  usedFollowUpIds: string[];
  unknown: UnknownWrite | null;
  /** Null only while a write is under way, or when the run is over. */
  waiting: Waiting | null;
  startedAt: string;
  lastChangeAt: string;
  /** Reads so far; those of a poll that was cut short are estimated from the plan. */
  polls: number;
}

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

/** The watch ended without a terminal status; `job` is the last record seen. */
export interface UnfinishedJobResult extends ResultBase {
  outcome: 'timedOut' | 'lost' | 'abandoned';
  jobId: string | null;
  job: JobRecord | null;
}

export type AgentJobResult = EndedJobResult | UnfinishedJobResult;

export interface FollowUpInput {
  prompt: string;
  /** At most 256 bytes; the same id is sent at most once over the whole life of the job. */
  id?: string | null;
}

export interface FollowUpAnswer {
  id: string;
  state: FollowUpState;
  job: JobRecord | null;
}

/** How a person settles an unknown write; `since` and `followUpId`, where given, must name the present unknown. */
export type ResolveUnknownInput =
  /** `force`: also where the job can't be read just now; one that does not exist is never adopted. */
  (
    | { action: 'adopt'; jobId: string; force?: boolean | null }
    | { action: 'delivered' | 'retry' | 'abandon'; jobId?: null }
  ) & { since?: string | null; followUpId?: string | null };

export const followUpSignal = defineSignal<[FollowUpInput]>('followUp');
export const pollNowSignal = defineSignal('pollNow');
export const sendFollowUpUpdate = defineUpdate<FollowUpAnswer, [FollowUpInput]>('sendFollowUp');
export const resolveUnknownUpdate = defineUpdate<JobState, [ResolveUnknownInput]>('resolveUnknown');
export const jobStateQuery = defineQuery<JobState>('jobState');

/** `type` of the ApplicationFailure with which a workflow fails. */
export const FAILURE = {
  invalidInput: 'InvalidInput',
  createRejected: 'CreateRejected',
  unknownOutcome: 'UnknownOutcome',
  exportRejected: 'ExportRejected',
  snapshotStoreFailed: 'SnapshotStoreFailed',
  upstreamUnavailable: 'UpstreamUnavailable',
  exportFailed: 'ExportFailed',
} as const;

export interface CreateRejectedDetails {
  status: number;
  error: string;
}

export interface UnknownOutcomeDetails {
  kind: 'create' | 'followUp';
  jobId: string | null;
  followUpId: string | null;
  reason: string;
}

/** Search attributes, all Keyword. */
export const SEARCH_ATTRIBUTE = {
  project: 'AgentJobProject',
  phase: 'AgentJobPhase',
  status: 'AgentJobStatus',
  prLink: 'AgentJobPrLink',
} as const;

export const MEMO = { jobId: 'jobId', prLink: 'prLink', inputHash: 'inputHash' } as const;

/** Bounds of the contract, in bytes of UTF-8 unless said otherwise. */
export const LIMIT = {
  idBytes: 200, // percent-encoded
  workflowIdBytes: 1_000, // the server's own limit
  workflowIdCharacters: 255, // PostgreSQL and MySQL keep it in a VARCHAR(255), which counts characters
  promptBytes: 512 * 1024,
  promptJsonBytes: 1024 * 1024,
  followUpIdBytes: 256,
  followUpsPerJob: 1_000,
  waitingPromptsJsonBytes: 1024 * 1024,
  listedOverflows: 20,
  followUpErrorBytes: 200,
  recordBytes: 64 * 1024,
  statusAttributeChars: 64,
  prLinkAttributeChars: 255,
  durationMs: 10 * 365.25 * 24 * 3_600_000,
} as const;

/** The upstream's status as `AgentJobStatus` and messages show it: its first 64 characters, control characters replaced. */
export function shownStatus(status: string): string {
  const characters = Array.from(status.slice(0, 2 * LIMIT.statusAttributeChars)).slice(0, LIMIT.statusAttributeChars);
  return characters
    .join('')
    .toWellFormed()
    .replace(/\p{Cc}/gu, ' ');
}

/** The one form of a project or job id in a URL, a path or a workflow id: RFC 3986 unreserved characters stay, all others are percent-encoded. */
export function encodeId(id: string): string {
  return encodeURIComponent(id).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

export function agentJobWorkflowId(projectId: string, key: string): string {
  return `agent-job/${encodeId(projectId)}/${encodeId(key)}`;
}

/** The workflow id of a run that was attached to an existing job without a key. */
export function attachedJobWorkflowId(projectId: string, jobId: string): string {
  return agentJobWorkflowId(projectId, 'attached').concat('/', encodeId(jobId));
}

export function visitorExportWorkflowId(projectId: string, dateFrom: string, dateTo: string): string {
  return `visitor-export/${encodeId(projectId)}/${dateFrom}..${dateTo}`;
}

export function visitorExportScheduleId(projectId: string): string {
  return `visitor-export/${encodeId(projectId)}`;
}

/** The project that a Schedule's id names; as it is where whoever made it did not encode it. */
export function scheduledProject(scheduleId: string): string {
  const encoded = scheduleId.slice(visitorExportScheduleId('').length);
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}

/** One question to the export: an explicit range, `dateTo` exclusive (`YYYY-MM-DD`). */
export interface VisitorExportRange {
  projectId: string;
  dateFrom: string;
  dateTo: string;
}

/** What a Schedule gives: the `days` whole local days before the scheduled time. */
export interface VisitorExportNights {
  projectId: string;
  /** IANA time zone name. */
  timeZone: string;
  /** 1 to 366, default 1. */
  days?: number | null;
}

export type VisitorExportInput = VisitorExportRange | VisitorExportNights;

export interface VisitorTotals {
  human: number;
  ai: number;
  total: number;
}

export type InconsistencyKind =
  'overlap' | 'totals' | 'repeatedPath' | 'firstPage' | 'noProgress' | 'order' | 'impossible' | 'shrunk';

/** where a scan over the pages saw the data move, or contradict themselves. */
export interface Inconsistency {
  kind: InconsistencyKind;
  offset: number;
}

export interface SnapshotReceipt {
  /** Hash of date range and content, whatever the order of the rows. */
  snapshotId: string;
  projectId: string;
  dateFrom: string;
  dateTo: string;
  /** URL of the snapshot's folder. */
  location: string;
  rows: number;
  totals: VisitorTotals;
  /** How many Parquet files: 0 or 1. */
  files: number;
  consistent: boolean;
  provisional: boolean;
  unchanged: boolean;
  drift?: Inconsistency;
}

export interface VisitorExportResult {
  snapshots: SnapshotReceipt[];
  /** When the pace allows the next request; absent where there is nothing to wait for. */
  nextRequestAt?: string;
}

/** How far the export of a date range is, to its last chunk of pages. */
export interface VisitorExportProgress {
  dateFrom: string;
  dateTo: string;
  /** From 1; an inconsistent scan is repeated. */
  scan: number;
  pages: number;
  rows: number;
  /** As many as the snapshot before had; null where there is none. */
  expectedRows: number | null;
  /** Why it waits; null where it does not. */
  trouble: string | null;
  /** ISO 8601; null where the next request need not wait. */
  nextRequestAt: string | null;
}

/** Of the workflow that writes a date range: `visitorExportWorkflowId`. */
export const visitorExportProgressQuery = defineQuery<VisitorExportProgress>('exportProgress');

export interface SnapshotManifest {
  snapshotId: string;
  projectId: string;
  dateFrom: string;
  dateTo: string;
  rows: number;
  totals: VisitorTotals;
  consistent: boolean;
  provisional: boolean;
  drift?: Inconsistency;
  rounded?: boolean;
  exportedAt: string;
  files: { name: string; rows: number; bytes: number; sha256: string }[];
  /** Of each count, the sum over all rows and the largest of them: what the totals are held against. */
  rowSums?: VisitorTotals;
  rowMaxima?: VisitorTotals;
  /** The first run id of the workflow that wrote the manifest. */
  run?: string;
  /** When another snapshot took its place: only under `superseded/`. */
  supersededAt?: string;
  /** SHA-256 of all other fields. */
  checksum?: string;
}
