/** What the worker of the jobs' task queue registers. */
export {
  createJobActivities as createActivities,
  type JobActivities,
  type JobActivitiesDependencies,
  type WriteResult,
} from './agent-job/agent-job.js';
export { KeyHealth } from './agent-job/key-health.js';
export type { ReadJobInput, ReadJobResult } from './agent-job/read-job.js';
export type { Reading, WatchJobInput, WatchJobResult } from './agent-job/poll-job.js';
