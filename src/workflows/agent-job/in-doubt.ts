/** What is told of a write in doubt, and from when on a look upstream shows whether it arrived. Pure: no Temporal. */
import type { InDoubtWrite } from '../../contract.js';
import type { WriteIdentity } from './write-data.js';

/** Where nobody said how long a write in doubt may still be on its way. */
const MAY_BE_UNDER_WAY_MS = 120_000;
/**
 * A worker counts from when its attempt was scheduled. This covers the time that the attempt then waited in the queue.
 */
const MIN_LOOK_AFTER_MS = 30_000;

interface InDoubtTimes {
  /** In milliseconds, as the times below. */
  now: number;
  /** What the worker said; undefined where it said nothing. */
  lookAfter: number | undefined;
}

/** A write that is in doubt from now on. */
export function inDoubtWrite(
  { kind, followUpId }: WriteIdentity,
  reason: string,
  { now, lookAfter }: InDoubtTimes,
): InDoubtWrite {
  const lookAt = Math.max(lookAfter ?? now + MAY_BE_UNDER_WAY_MS, now + MIN_LOOK_AFTER_MS);
  const times = { since: isoTime(now), lookAfter: isoTime(lookAt) };
  return { kind, ...(followUpId === undefined ? {} : { followUpId }), reason, ...times };
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
