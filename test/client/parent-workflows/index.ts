export { buildRelease } from './build-release.js';
