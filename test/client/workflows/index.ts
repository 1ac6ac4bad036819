export { agentJob } from './scripted-job.js';
