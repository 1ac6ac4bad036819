/** The registered workflow types: exactly the names exported here. */
export { agentJob } from './agent-job.js';
export { visitorExport } from './visitor-export.js';
