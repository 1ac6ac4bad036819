/** How a job may end, as the figures name it. Pure and safe in workflow code. */
import { FAILURE } from '../contract.js';

/** The counter that the workflows themselves keep. */
export const JOBS_ENDED_METRIC = 'agent_jobs_ended_total';

/** The outcomes of results, the types of failures, and Temporal's own word for a cancellation. */
export const JOB_ENDS = [
  ...['completed', 'archived', 'failed', 'timedOut', 'lost', 'abandoned', 'Canceled'],
  ...[FAILURE.invalidInput, FAILURE.createRejected, FAILURE.unknownOutcome],
] as const;
