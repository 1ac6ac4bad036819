export { requestQueue } from '../../../src/workflows/request-queue/request-queue.js';
export { waiter } from './waiter.js';
