/** What the worker of the jobs' task queue registers. */
export {
  createJobActivities as createActivities,
  type JobActivities,
  type JobActivitiesDependencies,
  type WriteResult,
} from './agent-job.js';
export { KeyHealth } from './key-health.js';
export type { ReadJobInput, ReadJobResult } from './read-job.js';
export type { Reading, WatchJobInput, WatchJobResult } from './watch-job.js';
