/** What the worker of the jobs' task queue registers. */
export {
  createJobActivities as createActivities,
  type JobActivities,
  type JobActivitiesDependencies,
} from './agent-job.js';
