export { waiter } from './waiter.js';
