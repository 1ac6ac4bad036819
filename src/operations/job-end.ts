/** What the end of a job is to a caller that waits for it: a result, a failure, or nothing yet. */
import { firstOf } from '../client/concurrently.js';
import { AgentJobsError, CreateRejectedError, UnknownOutcomeError } from '../client/errors.js';
import type { AgentJobResult, JobState } from '../contract.js';
import { InvalidInputError } from '../contract/errors.js';
import { WORDS } from '../contract/words.js';
import type { JobHandle } from '../starter.js';

/** What ends a wait before its time. */
export interface Waiter {
  /** Aborted when the caller goes away. */
  readonly gone: AbortSignal;
  /** Aborted when this program is about to end. */
  readonly ending: AbortSignal;
}

/** How a run ended: with a result or a failure, never both; both are null while it is not over. */
export interface JobEnd {
  readonly result: AgentJobResult | null;
  readonly failure: { readonly type: string; readonly message: string; readonly details: object | null } | null;
}

/** The codes of errors that stand for an end without a result, that of an unforeseen failure among them. */
const CODES: readonly unknown[] = ['JOB_FAILED', ...WORDS.ends.map(({ error }) => error)];

/** Waits for the last state, and for the end: the result, or the failure of a job without one. */
export async function resultOf(
  job: JobHandle,
  last: JobState | Promise<JobState | null>,
  signal: AbortSignal,
): Promise<JobEnd> {
  let state: JobState | null = null;
  try {
    state = await last;
    return { result: await job.result({ signal }), failure: null };
  } catch (error) {
    if (!(error instanceof AgentJobsError && CODES.includes(error.code))) throw error;
    // The state shows whether Temporal timed out or terminated it; the other errors are named as their outcomes.
    const type = state?.outcome ?? error.name.replace(/^Job|Error$/g, '');
    return { result: null, failure: { type, message: error.message, details: detailsOf(error) } };
  }
}

function detailsOf(error: unknown): object | null {
  if (error instanceof InvalidInputError) return { field: error.field };
  if (error instanceof CreateRejectedError) return { status: error.status, error: error.error };
  return error instanceof UnknownOutcomeError ? error.details : null;
}

/** Waits until the work is done or the caller goes away; null if the time is over or this program ends first. */
export async function whileWanted<T>(
  { gone, ending }: Waiter,
  limitMs: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T | null> {
  const { signal, release } = firstOf([gone, ending, AbortSignal.timeout(limitMs)]);
  try {
    return await work(signal);
  } catch (error) {
    if (!gone.aborted && signal.aborted) return null;
    throw error;
  } finally {
    release();
  }
}
