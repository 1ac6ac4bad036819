/** What both workflows share: task queues, durations, failure types, and how an id becomes part of another. */

/** The task queue of workers and starters unless `AGENT_JOBS_TASK_QUEUE` or a caller names another. */
export const DEFAULT_TASK_QUEUE = 'agent-jobs';

/** The task queue of the export activities, next to the jobs' own queue. */
export function exportTaskQueue(taskQueue: string): string {
  return `${taskQueue}-export`;
}

/** A number of milliseconds or a string such as `30 seconds`; 0 to 10 years. */
export type DurationInput = number | string;

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

/**
 * The form of a project or job id in a URL, a path and a workflow id: everything but the unreserved characters of
 * RFC 3986 is percent-encoded.
 */
export function encodeId(id: string): string {
  return encodeURIComponent(id).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}
