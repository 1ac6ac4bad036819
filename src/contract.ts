/**
 * The public vocabulary: every name and JSON shape that callers in any language rely on.
 * Safe to import anywhere, workflow code included. See docs/contract.md. All that these files export is public, but for
 * what the workers share besides, in shared.ts.
 */
export {
  DEFAULT_TASK_QUEUE,
  encodeId,
  exportTaskQueue,
  FAILURE,
  JOB_ENDS,
  JOBS_ENDED_METRIC,
  LIMIT,
  MAX_RETRY_AFTER_MS,
  type DurationInput,
  type JobMetadata,
  type PromptHashes,
} from './contract/shared.js';
export * from './contract/agent-job.js';
export * from './contract/job-state.js';
export * from './contract/request-queue.js';
export * from './contract/visitor-export.js';
