/** Calls to Temporal within the caller's limits: a signal and a time for each, and waits that outlive outages. */
import { setMaxListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { InvalidInputError } from '../contract/errors.js';
import { lenientWorkflowClient } from '../temporal/workflow-clients.js';
import { firstOf, onAbort, unlessAborted } from './concurrently.js';
import { NoWorkerError, TemporalCallError } from './errors.js';
import type { CallOptions, Logger, WaitOptions } from './settings.js';
import { isOutage, tooSlowError, toUserError } from './temporal-errors.js';

/** The default for a call that asks one thing. */
export const CALL_TIMEOUT_MS = 10_000;
/** The default for a call that may read and start more than once. */
export const START_TIMEOUT_MS = 30_000;

/** The deadline of requests lies a second after the limit: the error of the limit says more. */
const DEADLINE_AFTER_LIMIT_MS = 1_000;
/** The longest timer that Node can set. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

const closings = new WeakMap<Client, AbortController>();

/** Aborted once the client's own connection is closed; a wait would try again for minutes. */
function closingOf(client: Client): AbortController {
  const closing = closings.get(client) ?? new AbortController();
  closings.set(client, closing);
  return closing;
}

/** Ends the waits and the repetitions of a client whose connection is about to be closed. */
export function endWaits(client: Client): void {
  closingOf(client).abort(new TemporalCallError('the connection to Temporal was closed'));
}

/** What ends a wait: the caller's signal, and the end of the connection; `release` it at last. */
export function waitSignal(client: Client, signal: WaitOptions['signal']): ReturnType<typeof firstOf> {
  return firstOf([signal, closingOf(client).signal]);
}

/** Throws between two steps of a call that must not go on: its signal is aborted, or its connection is closed. */
export function throwIfOver(client: Client, signal: AbortSignal): void {
  signal.throwIfAborted();
  closings.get(client)?.signal.throwIfAborted();
}

/**
 * Runs requests that end with the signal's reason once it is aborted, or after a time; their errors say what to do.
 * What goes on in steps asks `throwIfOver` with the signal that the call gets.
 */
export async function temporalCall<T>(
  client: Client,
  { signal, timeoutMs: givenMs }: CallOptions,
  call: (over: AbortSignal) => Promise<T>,
): Promise<T> {
  const timeoutMs = checkTimeout(givenMs ?? CALL_TIMEOUT_MS);
  signal?.throwIfAborted();
  const own = new AbortController();
  const tooSlow = tooSlowError(client, timeoutMs);
  const isLimited = timeoutMs <= MAX_TIMER_MS;
  const timer = isLimited ? setTimeout(() => own.abort(tooSlow), timeoutMs) : undefined;
  try {
    const deadline = Date.now() + timeoutMs + DEADLINE_AFTER_LIMIT_MS;
    const within = () => call(own.signal);
    const limited = isLimited ? () => client.withDeadline(deadline, within) : within;
    return await untilAborted(client, own, signal, limited);
  } catch (error) {
    signal?.throwIfAborted();
    own.signal.throwIfAborted();
    throw toUserError(client, error);
  } finally {
    clearTimeout(timer);
  }
}

/** Checks a limit of calls. */
export function checkTimeout(timeoutMs: number): number {
  if (timeoutMs > 0) return timeoutMs;
  throw new InvalidInputError('timeoutMs', 'must be a number of milliseconds above 0');
}

/**
 * Runs requests until an abort, with whose reason it ends. The SDK alone does not: a request that it has sent again, as
 * after an outage, can't be cancelled any more. The SDK also adds a listener with each request and removes none, so it
 * gets a signal of its own instead of the caller's.
 */
async function untilAborted<T>(
  client: Client,
  own: AbortController,
  signal: AbortSignal | null | undefined,
  call: () => Promise<T>,
): Promise<T> {
  setMaxListeners(0, own.signal);
  const stopListening = onAbort(signal, (reason) => own.abort(reason));
  try {
    return await unlessAborted(client.withAbortSignal(own.signal, call), own.signal);
  } finally {
    stopListening();
  }
}

/** Between two rounds during an outage: a wait of hours should outlive a restart of the server. */
const OUTAGE_PAUSE_MS = 2_000;
/** A wait is made of rounds: what a request leaves behind on its signal stays little, and an abandoned round ends. */
const ROUND_MS = 5 * 60_000;
/** A request that the server has not failed within 10 seconds was accepted. */
const ACCEPTED_AFTER_MS = 10_000;
/** For 5 minutes after it, a definite error may be an outage's: a server that starts, or has no database, sends it. */
const DOUBT_MS = 5 * 60_000;

interface LongWaitOptions {
  acceptedAfterMs?: number;
  /** A request like this one was answered before. */
  wasAccepted?: boolean;
  /** Takes a warning for each failure that the wait outlives. */
  logger?: Logger | undefined;
}

/** A `temporalCall` that waits for what may take days, over outages of Temporal and times without a worker. */
export async function longWait<T>(
  client: Client,
  signal: AbortSignal | null | undefined,
  call: () => Promise<T>,
  options: LongWaitOptions = {},
): Promise<T> {
  const { signal: ends, release } = waitSignal(client, signal);
  try {
    return await inWaitRounds(client, ends, call, options);
  } finally {
    release();
  }
}

async function inWaitRounds<T>(
  client: Client,
  signal: AbortSignal,
  call: () => Promise<T>,
  { acceptedAfterMs = ACCEPTED_AFTER_MS, wasAccepted, logger }: LongWaitOptions,
): Promise<T> {
  for (let acceptedAt = wasAccepted ? Date.now() : -Infinity; ;) {
    const startedAt = Date.now();
    const roundEnd = startedAt + ROUND_MS;
    try {
      return await temporalCall(client, { signal, timeoutMs: Infinity }, () => client.withDeadline(roundEnd, call));
    } catch (error) {
      signal.throwIfAborted();
      if (Date.now() - startedAt >= acceptedAfterMs) acceptedAt = Date.now();
      const isInDoubt = error instanceof TemporalCallError && Date.now() - acceptedAt < DOUBT_MS;
      if (!isOutage(error) && !isInDoubt && !(error instanceof NoWorkerError)) throw error;
      // A round that reached its end is no trouble.
      if (Date.now() >= roundEnd) continue;
      logger?.warn('no answer; the wait goes on', { error });
      // One that is aborted meanwhile ends as the next round begins.
      await pauseUntilAborted(OUTAGE_PAUSE_MS, signal);
    }
  }
}

/** Ends sooner, without an error, if the signal is aborted. */
export async function pauseUntilAborted(durationMs: number, signal: AbortSignal | null | undefined): Promise<void> {
  await delay(durationMs, undefined, { ...(signal && { signal }) }).catch(() => {});
}

/** Lists what fits a query of Temporal's visibility; each page is a call of its own, with the limits of `options`. */
export async function* listWorkflows(
  client: Client,
  query: string,
  { pageSize, ...options }: CallOptions & { pageSize?: number },
): AsyncGenerator<WorkflowExecutionInfo, void, undefined> {
  const runs = lenientWorkflowClient(client)
    .list({ query, ...(pageSize !== undefined && { pageSize }) })
    [Symbol.asyncIterator]();
  for (;;) {
    const next = await temporalCall(client, options, () => runs.next());
    if (next.done) return;
    yield next.value;
  }
}
