/** When a command that waits for a job says why the job waits, and which reasons are news. */
import { setTimeout as delay } from 'node:timers/promises';
import type { JobState, Waiting } from '../contract.js';
import type { JobHandle } from '../starter.js';
import { lastingWait, waitRemedy, waitTimes } from '../agent-job/waiting-text.js';
import { printToStderr } from './session.js';
import { printable, readableTime } from './text.js';

/** A shorter wait is a job's normal life. */
const FIRST_POLL_MS = 5_000;
const POLL_INTERVAL_MS = 20_000;

/** The errors that are printed as a reason. A busy worker answers later: its error is not. */
const PRINTED_ERRORS: readonly string[] = ['NoWorkerError', 'WorkflowTaskFailingError', 'TemporalUnavailableError'];

/** A reason to wait; of the same `topic` only what is news is told. */
interface Reason {
  topic: string;
  text: string;
  /** In a queue. */
  position?: number | undefined;
}

/** Prints what a job waits for, each reason once, until the signal: without it a stuck job looks like a working one. */
export async function printWaitingReasons(job: JobHandle, signal: AbortSignal, onLine = printToStderr): Promise<void> {
  const news = new WaitingNews();
  for (let pause = FIRST_POLL_MS; ; pause = POLL_INTERVAL_MS) {
    await delay(pause, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    const text = await job.state({ signal }).then(
      (state) => news.of(state),
      (error: Error) => news.ofError(error),
    );
    if (text !== null && !signal.aborted) onLine(`agent-jobs: still waiting: ${text}`);
  }
}

/** Of what a job waits for, what was not told yet. */
export class WaitingNews {
  #told: Reason | null = null;

  /** Null where there is none: the wait is a job's normal life, or known. */
  of(state: Pick<JobState, 'waiting' | 'projectId'>): string | null {
    return this.#take(reasonOf(state));
  }

  ofError(error: Error): string | null {
    return this.#take(reasonOfError(error));
  }

  #take(reason: Reason | null): string | null {
    if (reason && !isNews(reason, this.#told)) return null;
    this.#told = reason;
    return reason?.text ?? null;
  }
}

/** Does what may take long, and prints meanwhile what the job waits for. */
export async function withWaitingReasons<T>(job: JobHandle, signal: AbortSignal, work: Promise<T>): Promise<T> {
  const ended = new AbortController();
  const printing = printWaitingReasons(job, AbortSignal.any([signal, ended.signal]));
  try {
    return await work;
  } finally {
    ended.abort();
    await printing;
  }
}

/** Prints what the job waits for right now, whatever it is, and what to do; nothing where it can't be read. */
export async function printWait(job: JobHandle, signal: AbortSignal): Promise<void> {
  const state = await job.state({ signal }).catch(() => null);
  const waiting = formatWaiting(state?.waiting);
  if (!state || waiting === undefined) return;
  const remedy = remedyFor(state);
  printToStderr(`agent-jobs: the job waits for ${printable(waiting)}${remedy === undefined ? '' : `; ${remedy}`}`);
}

/** In a queue, half the way is news: a thousand places are some ten lines. */
function isNews(reason: Reason, told: Reason | null): boolean {
  if (reason.topic !== told?.topic) return true;
  return (reason.position ?? Infinity) <= (told.position ?? 0) / 2;
}

/** Null where the wait is a job's normal life, or the worker is too old to tell it. */
function reasonOf({ waiting, projectId }: Pick<JobState, 'waiting' | 'projectId'>): Reason | null {
  const what = waiting && lastingWait(waiting);
  if (!waiting || what === undefined) return null;
  const { position, reason } = waiting;
  const said = reason === undefined ? '' : ` (${printable(reason)})`;
  const place = position === undefined ? '' : ` (${waitTimes(waiting, readableTime)})`;
  const text = `the job waits for ${what}${place}; ${waitRemedy(waiting, projectId)}${said}`;
  return { topic: `${waiting.for} ${said}`, text, position };
}

function reasonOfError({ name, message }: Error): Reason | null {
  return PRINTED_ERRORS.includes(name) ? { topic: message, text: message } : null;
}

/** What a job waits for, since and until when, in a line. Undefined where it waits for nothing. */
export function formatWaiting(waiting: Waiting | null | undefined): string | undefined {
  if (!waiting) return undefined;
  const { for: what, reason } = waiting;
  return `${what} ${waitTimes(waiting, readableTime)}${reason === undefined ? '' : `: ${reason}`}`;
}

/** What somebody may do about a wait; undefined where it needs nobody. */
export function remedyFor({ waiting, projectId }: Pick<JobState, 'waiting' | 'projectId'>): string | undefined {
  return waiting ? waitRemedy(waiting, projectId) : undefined;
}
