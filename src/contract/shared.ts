/** What both workflows share: task queues, durations, bounds, failure types, and how an id becomes part of another. */
import type { QueryDefinition, SignalDefinition, UpdateDefinition } from '@temporalio/common';
import { JOB_FAILURE } from './words.js';

/** The task queue of workers and starters unless `AGENT_JOBS_TASK_QUEUE` or a caller names another. */
export const DEFAULT_TASK_QUEUE = 'agent-jobs';

/** The task queue of the export activities, next to the jobs' own queue. */
export function exportTaskQueue(taskQueue: string): string {
  return `${taskQueue}-export`;
}

/** In milliseconds. */
export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** A number of milliseconds or a string such as `30 seconds`; 0 to 10 years. */
export type DurationInput = number | string;

/** What a caller says of a job for its own use: texts by name. */
export type JobMetadata = Readonly<Record<string, string>>;

/** The first 8 hex digits of the SHA-256 of each prompt's UTF-8: they show whether a repeated id has its prompt. */
export type PromptHashes = Readonly<Record<string, string>>;

/** Bounds of the contract, in bytes of UTF-8 unless said otherwise. */
export const LIMIT = {
  idBytes: 200, // percent-encoded
  workflowIdBytes: 1_000, // the server's own limit
  workflowIdCharacters: 255, // PostgreSQL and MySQL keep it in a VARCHAR(255), which counts characters
  promptBytes: 512 * 1024,
  promptJsonBytes: 1024 * 1024,
  followUpIdBytes: 256,
  batchBytes: 100,
  tags: 10, // a KeywordList of one job
  tagBytes: 64,
  metadataJsonBytes: 4 * 1024,
  followUpsPerJob: 1_000,
  waitingPromptsJsonBytes: 1024 * 1024,
  listedOverflows: 20,
  decisionByBytes: 200,
  decisionNoteBytes: 1_000,
  listedDecisions: 100,
  followUpErrorBytes: 200,
  recordBytes: 64 * 1024,
  statusAttributeCharacters: 64,
  prLinkAttributeCharacters: 255,
  prLinks: 20,
  durationMs: 10 * 365.25 * DAY_MS,
} as const;

/** Bounds one `Retry-After`, in milliseconds, so that a wrong one does not stop a job for ever. */
export const MAX_RETRY_AFTER_MS = 60 * 60_000;

/** `type` of the ApplicationFailure with which a workflow fails. */
export const FAILURE = {
  ...JOB_FAILURE,
  /** The failure of an update: an earlier follow-up has the same id and another prompt. */
  followUpConflict: 'FollowUpConflict',
  exportRejected: 'ExportRejected',
  snapshotStoreFailed: 'SnapshotStoreFailed',
  upstreamUnavailable: 'UpstreamUnavailable',
  exportFailed: 'ExportFailed',
} as const;

/**
 * The form of a project or job id in a URL, a path and a workflow id.
 * Everything but the unreserved characters of RFC 3986 is percent-encoded.
 */
export function encodeId(id: string): string {
  return encodeURIComponent(id).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** The id in such a form; null if the text is none. */
export function decodeId(encoded: string): string | null {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return null;
  }
}

/** The counter that the workflows themselves keep. */
export const JOBS_ENDED_METRIC = 'agent_jobs_ended_total';

/** How a person resolves a write in doubt. */
export type DecisionAction = 'adopt' | 'delivered' | 'retry' | 'abandon';

/** The search attribute `AgentJobOutcome` of an export whose last publication is not consistent, or met drift. */
export const EXPORT_IN_DOUBT = 'inDoubt';

/** Begins the error of a query whose worker has thrown its copy of the run away: the next query gets an answer. */
export const STALE_COPY = 'this worker’s copy of the run was spoilt by the query';
/** After a worker died, the next task of each workflow that it was in charge of goes to another one after this time. */
export const STICKY_TIMEOUT_MS = 5_000;

/** A signal with the types of its arguments, as `@temporalio/workflow` makes it: a client need not install that. */
export function defineSignal<Args extends unknown[] = []>(name: string): SignalDefinition<Args> {
  return { type: 'signal', name } as SignalDefinition<Args>;
}

/** An update with the type of its answer and those of its arguments. */
export function defineUpdate<Answer, Args extends unknown[] = []>(name: string): UpdateDefinition<Answer, Args> {
  return { type: 'update', name } as UpdateDefinition<Answer, Args>;
}

/** A query with the type of its answer and those of its arguments. */
export function defineQuery<Answer, Args extends unknown[] = []>(name: string): QueryDefinition<Answer, Args> {
  return { type: 'query', name } as QueryDefinition<Answer, Args>;
}

/** Whether a value is one JSON object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** How two statuses of the upstream are compared: case and outer spaces do not count. */
export function statusWord(status: string): string {
  return status.trim().toLowerCase();
}

/** Size of a text as UTF-8. */
export function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** The longest beginning of a text that fits into a number of bytes of UTF-8, never half a character. */
export function cutToBytes(text: string, bytes: number): string {
  const whole = text.toWellFormed();
  return whole.slice(0, new TextEncoder().encodeInto(whole, new Uint8Array(bytes)).read);
}

/** Size of a value as JSON in UTF-8. */
export function jsonBytes(value: unknown): number {
  return utf8Bytes(JSON.stringify(value));
}
