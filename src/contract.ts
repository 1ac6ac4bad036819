/**
 * The public vocabulary: every name and JSON shape that callers in any language rely on.
 * Safe to import anywhere, workflow code included. See docs/contract.md. All that these files export is public, but for
 * what the workers share besides, in shared.ts and words.ts.
 */
export {
  DEFAULT_TASK_QUEUE,
  encodeId,
  exportTaskQueue,
  FAILURE,
  JOBS_ENDED_METRIC,
  LIMIT,
  MAX_RETRY_AFTER_MS,
  type DurationInput,
  type JobMetadata,
  type PromptHashes,
} from './contract/shared.js';
export {
  JOB_ENDS,
  JOB_OUTCOMES,
  PHASES,
  SHOWN_WAITING_FOR,
  TERMINAL_STATUSES,
  WAITING_FOR,
  type JobOutcome,
  type Outcome,
  type Phase,
  type ShownWaitingFor,
  type TerminalStatus,
} from './contract/words.js';
export * from './contract/agent-job.js';
export * from './contract/job-state.js';
export * from './contract/request-queue.js';
export * from './contract/visitor-export.js';
