/** What the worker of the jobs' task queue registers. */
export { createJobActivities as createActivities, type JobActivities } from './agent-job/job-activities.js';
export { Budgets } from './agent-job/budgets.js';
export { KeyHealth } from './agent-job/key-health.js';
export type { Reading, PollJobInput, PollJobResult } from './agent-job/poll-run.js';
export type { ReadJobInput, ReadJobResult } from './agent-job/read-job.js';
export { Poller } from './agent-job/poller.js';
