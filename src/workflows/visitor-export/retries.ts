/**
 * The retries of export activities that take minutes. The workflow owns them, and activities have one attempt each:
 * only the workflow knows the pace, and only it can tell whoever looks why the export waits.
 */
import { ActivityFailure, ApplicationFailure, ChildWorkflowFailure, isCancellation, sleep } from '@temporalio/workflow';
import type { ReadChunkResult } from '../../activities/visitor-export/export-activities.js';
import { throttledWaitMs } from '../../agent-job/retry-waits.js';
import { FAILURE, type ExportFailureDetails, type SnapshotStoreFailedDetails } from '../../contract.js';

/** For how long a kind of failure is retried, with waits that double up to a maximum. */
interface RetryLimit {
  type: string;
  maxMs: number;
  maxWaitMs: number;
}

/** What a caller of `withRetries` adds to its waits. */
export interface RetryOptions {
  /** Receives the reason of each wait. */
  onWait: (reason: string) => void;
  /** The wait that the pace requires after an attempt that could not report its requests. */
  unreportedPaceMs?: number;
}

const FIRST_WAIT_MS = 1_000;
const STORE: RetryLimit = { type: FAILURE.snapshotStoreFailed, maxMs: 10 * 60_000, maxWaitMs: 60_000 };
/** Bugs, and workers that die or stop. */
const UNFORESEEN: RetryLimit = { type: FAILURE.exportFailed, maxMs: 24 * 3_600_000, maxWaitMs: 5 * 60_000 };
/** Failures that the callers handle. */
const NOT_RETRIED: readonly string[] = [FAILURE.exportRejected, 'StaleStaging'];

/**
 * Retries work for ten minutes where the store refuses, and for a day where anything unforeseen fails. `probe` is true
 * where the attempt before failed because of the store or died without a word.
 */
export async function withRetries<T>(
  work: (probe: boolean) => Promise<T>,
  { onWait, unreportedPaceMs = 0 }: RetryOptions,
): Promise<T> {
  const firstFailures = new Map<RetryLimit, number>();
  for (let [waitMs, probe] = [FIRST_WAIT_MS, false]; ; waitMs *= 2) {
    try {
      return await work(probe);
    } catch (error) {
      const limit = limitOf(error);
      if (!limit) throw error;
      const firstFailure = firstFailures.get(limit) ?? Date.now();
      firstFailures.set(limit, firstFailure);
      if (Date.now() - firstFailure >= limit.maxMs) throw limit === STORE ? error : exportFailure(error);
      const failure = failureOf(error);
      probe = limit === STORE || failure === null;
      waitMs = Math.min(waitMs, limit.maxWaitMs);
      onWait(reasonOf(error));
      const paceMs = failure ? nextRequestAfter(error) - Date.now() : unreportedPaceMs;
      await sleep(Math.max(waitMs, paceMs));
    }
  }
}

/** The failure of an export whose store can't be relied on. */
export function storeFailure(message: string, details: SnapshotStoreFailedDetails): ApplicationFailure {
  return ApplicationFailure.create({
    type: FAILURE.snapshotStoreFailed,
    message,
    nonRetryable: true,
    details: [details],
  });
}

/** The failure that an activity or a child reported; null where it ended in another way. */
export function failureOf(error: unknown): ApplicationFailure | null {
  const wrapped = error instanceof ActivityFailure || error instanceof ChildWorkflowFailure ? error.cause : error;
  return wrapped instanceof ApplicationFailure ? wrapped : null;
}

/** When the pace allows another request after a failed export, in milliseconds; 0 where the failure does not say. */
export function nextRequestAfter(error: unknown): number {
  const [details] = (failureOf(error)?.details ?? []) as { nextRequestAt?: string }[];
  return details?.nextRequestAt === undefined ? 0 : Date.parse(details.nextRequestAt);
}

function limitOf(error: unknown): RetryLimit | null {
  if (!(error instanceof ActivityFailure) || isCancellation(error)) return null;
  const type = failureOf(error)?.type ?? '';
  if (type === STORE.type) return STORE;
  return NOT_RETRIED.includes(type) ? null : UNFORESEEN;
}

function exportFailure(error: unknown): ApplicationFailure {
  const reason = reasonOf(error);
  const nextRequestAt = nextRequestAfter(error);
  const details: ExportFailureDetails[] = [
    { error: reason, ...(nextRequestAt > 0 && { nextRequestAt: new Date(nextRequestAt).toISOString() }) },
  ];
  const message = `The export failed for 24 hours, though neither upstream nor store refused: ${reason}`;
  return ApplicationFailure.create({ type: FAILURE.exportFailed, message, nonRetryable: true, details });
}

/** A worker that died reports nothing: its heartbeats stop. */
function reasonOf(error: unknown): string {
  const failure = failureOf(error);
  if (failure) return failure.message;
  const { cause, message } = error as Error;
  return `the worker died or fell silent (${cause instanceof Error ? cause.message : message})`;
}

type Interruption = NonNullable<ReadChunkResult['interruption']>;

/** The wait after an interrupted chunk, in milliseconds. */
export function interruptionWaitMs(failures: number, { kind, retryAfterMs }: Interruption): number {
  const requestedMs = retryAfterMs === null ? 0 : throttledWaitMs(failures, retryAfterMs);
  const ownMs = throttledWaitMs(failures, undefined);
  return kind === 'busy' && retryAfterMs !== null ? requestedMs : Math.max(requestedMs, ownMs);
}

/** The failure of an export whose upstream gave no page for too long. */
export function outageFailure({ reason }: Interruption, notBefore: number): ApplicationFailure {
  return ApplicationFailure.create({
    type: FAILURE.upstreamUnavailable,
    message: `The upstream gave no page for 24 hours: ${reason}`,
    nonRetryable: true,
    details: [{ error: reason, nextRequestAt: new Date(notBefore).toISOString() } satisfies ExportFailureDetails],
  });
}
