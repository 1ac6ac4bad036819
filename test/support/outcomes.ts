/** What an upstream may answer a write with, for tests that script one. */
import type { WriteOutcome } from '../../src/contract/write-outcome.js';

export const inDoubt = (reason: string): WriteOutcome => ({ kind: 'inDoubt', reason });

export const notDelivered = (reason: string): WriteOutcome => ({ kind: 'notDelivered', reason });

export const rejected = (status: number, error: string): WriteOutcome => ({ kind: 'rejected', status, error });

export const unauthorized = (reason: string): WriteOutcome => ({ kind: 'unauthorized', reason });

export const throttled = (reason: string, retryAfterMs?: number): WriteOutcome => ({
  kind: 'throttled',
  reason,
  ...(retryAfterMs !== undefined && { retryAfterMs }),
});
