import { ActivityFailure, ApplicationFailure, isCancellation, sleep } from '@temporalio/workflow';
import { FAILURE } from '../../contract.js';
import { failureOf, nextRequestAfter } from './failure.js';

/** What may pass is waited for so long, and tried again after waits that double. */
interface Patience {
  type: string;
  ms: number;
  longestWaitMs: number;
}

/** How a caller of `patiently` takes part in its waits. */
export interface Waiting {
  /** Told why there is a wait. */
  tell: (trouble: string) => void;
  /** What the pace asks for after an attempt of which nobody knows how many requests it made. */
  unknownPaceMs?: number;
}

const FIRST_WAIT_MS = 1_000;
const STORE: Patience = { type: FAILURE.snapshotStoreFailed, ms: 10 * 60_000, longestWaitMs: 60_000 };
const UNFORESEEN: Patience = { type: FAILURE.exportFailed, ms: 24 * 3_600_000, longestWaitMs: 5 * 60_000 };
/** What the callers decide by. */
const DECIDED: readonly string[] = [FAILURE.exportRejected, 'StaleStaging'];

/** Lets a store that refuses recover for ten minutes, and whatever nobody foresaw for a day; `probe` is true where the store just refused. */
export async function patiently<T>(
  work: (probe: boolean) => Promise<T>,
  { tell, unknownPaceMs = 0 }: Waiting,
): Promise<T> {
  const since = new Map<Patience, number>();
  for (let [waitMs, probe] = [FIRST_WAIT_MS, false]; ; waitMs *= 2) {
    try {
      return await work(probe);
    } catch (error) {
      const patience = patienceWith(error);
      if (!patience) throw error;
      const first = since.get(patience) ?? Date.now();
      since.set(patience, first);
      if (Date.now() - first >= patience.ms) throw patience === STORE ? error : exportFailure(error);
      probe = patience === STORE;
      waitMs = Math.min(waitMs, patience.longestWaitMs);
      tell(reasonOf(error));
      const paceMs = failureOf(error) ? nextRequestAfter(error) - Date.now() : unknownPaceMs;
      await sleep(Math.max(waitMs, paceMs));
    }
  }
}

/** The failure of a store that can't be relied on. */
export function storeFailure(message: string, details: { operation: string; error: string }): ApplicationFailure {
  return ApplicationFailure.create({
    type: FAILURE.snapshotStoreFailed,
    message,
    nonRetryable: true,
    details: [details],
  });
}

function patienceWith(error: unknown): Patience | null {
  if (!(error instanceof ActivityFailure) || isCancellation(error)) return null;
  const type = failureOf(error)?.type ?? '';
  if (type === STORE.type) return STORE;
  return DECIDED.includes(type) ? null : UNFORESEEN;
}

function exportFailure(error: unknown): ApplicationFailure {
  const reason = reasonOf(error);
  const nextRequestAt = nextRequestAfter(error);
  const details = [
    { error: reason, ...(nextRequestAt > 0 && { nextRequestAt: new Date(nextRequestAt).toISOString() }) },
  ];
  const message = `The export failed for 24 hours, though neither upstream nor store refused: ${reason}`;
  return ApplicationFailure.create({ type: FAILURE.exportFailed, message, nonRetryable: true, details });
}

/** A worker that died tells nothing but that it is silent. */
function reasonOf(error: unknown): string {
  const failure = failureOf(error);
  if (failure) return failure.message;
  const { cause, message } = error as Error;
  return `the worker died or fell silent (${cause instanceof Error ? cause.message : message})`;
}
