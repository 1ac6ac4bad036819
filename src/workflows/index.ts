/** The registered workflow types: exactly the names exported here. */
export { agentJob } from './agent-job/agent-job.js';
export { requestQueue } from './request-queue.js';
export { visitorExport } from './visitor-export/visitor-export.js';
export { webhookDelivery, webhookSweep } from './webhooks/webhooks.js';
