/** Who asks too often waits: the requests of each caller are counted, in this process alone. */
import { Problem } from './problem.js';

const WINDOW_MS = 10_000;
const MAX_REQUESTS = 2_000;

/** Counts the requests of callers in windows of time; what it answers with throws a problem 429. */
export function limitRequests(maxRequests = MAX_REQUESTS): (caller: string) => void {
  let window = 0;
  let counts = new Map<string, number>();
  return (caller) => {
    const now = Date.now() / WINDOW_MS;
    if (Math.floor(now) !== window) counts = new Map();
    window = Math.floor(now);
    const count = (counts.get(caller) ?? 0) + 1;
    counts.set(caller, count);
    if (count <= maxRequests) return;
    const headers = { 'retry-after': String(Math.ceil(((window + 1 - now) * WINDOW_MS) / 1_000)) };
    const detail = `at most ${maxRequests} requests in ${WINDOW_MS / 1_000} seconds`;
    throw new Problem(429, detail, { retryable: true, headers });
  };
}
