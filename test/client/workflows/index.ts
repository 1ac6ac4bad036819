export { agentJob } from './scripted-job.js';
export { requestQueue } from './scripted-queue.js';
