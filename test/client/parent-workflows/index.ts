export { buildRelease } from './build-release.js';
export { handleTicket, handleTwice, runOnly, runTyped } from './run-job.js';
