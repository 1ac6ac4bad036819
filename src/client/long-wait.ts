import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { TemporalCallError } from './errors.js';
import { isOutage, surroundingLimits, temporalCall } from './temporal-call.js';

/** A wait of hours should outlive a restart of the server. */
const OUTAGE_PAUSE_MS = 2_000;
/** A wait is made of rounds, so that what each request leaves behind on its signal stays little, and one that nobody awaits any more ends. */
const ROUND_MS = 5 * 60_000;
/** The server has taken a request that it did not refuse for so long. */
const TAKEN_AFTER_MS = 10_000;
/** For so long after that an error that sounds definite may still be an outage's: a server that begins, or has lost its database, says many things. */
const DOUBT_MS = 5 * 60_000;

/** A `temporalCall` that waits for what may take days, over outages of Temporal. */
export async function longWait<T>(
  client: Client,
  signal: AbortSignal | undefined,
  call: () => Promise<T>,
  takenAfterMs: number = TAKEN_AFTER_MS,
): Promise<T> {
  for (let takenAt = -Infinity; ;) {
    const begunAt = Date.now();
    const roundEnd = begunAt + ROUND_MS;
    try {
      return await temporalCall(client, { signal, timeoutMs: Infinity }, () => client.withDeadline(roundEnd, call));
    } catch (error) {
      signal?.throwIfAborted();
      if (surroundingLimits(client).leftMs === 0) throw error;
      if (Date.now() - begunAt >= takenAfterMs) takenAt = Date.now();
      const isInDoubt = error instanceof TemporalCallError && Date.now() - takenAt < DOUBT_MS;
      if (!isOutage(error) && !isInDoubt) throw error;
      // One that is aborted meanwhile ends as the next round begins.
      const whileWanted = signal === undefined ? {} : { signal };
      if (Date.now() < roundEnd) await delay(OUTAGE_PAUSE_MS, undefined, whileWanted).catch(() => {});
    }
  }
}
