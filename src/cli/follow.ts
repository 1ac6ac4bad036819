/**
 * Follows a job for a command that waits: its phases, its pull request, what holds it, and the commands that settle a
 * write in doubt. Each change is a line of stderr.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { lastingWait, waitRemedy, waitTimes } from '../agent-job/waiting-text.js';
import type { JobState, Waiting } from '../contract.js';
import type { JobHandle, JobSummary } from '../starter.js';
import { resolveCommands } from './in-doubt.js';
import { printToStderr, type Session } from './session.js';
import { fields, printable, readableTime } from './table.js';

/** A look asks no worker and costs nothing, but a server serves others too. */
const LOOK_MS = 1_000;
/** After so many looks they become rare: a job that has lasted a minute will last longer. */
const QUICK_LOOKS = 60;
const LATER_LOOK_MS = 5_000;
/** Between two questions what holds the job, which a worker answers; an early one would be of a job's normal life. */
const FIRST_QUESTION_MS = 5_000;
const QUESTION_EVERY_MS = 20_000;

/** Does what may take long, and tells meanwhile how the job goes. */
export async function withProgress<T>(session: Session, job: JobHandle, work: Promise<T>): Promise<T> {
  const ended = new AbortController();
  const progress = new JobProgress(session, job, AbortSignal.any([session.signal, ended.signal]));
  const following = progress.follow();
  try {
    return await work;
  } finally {
    ended.abort();
    await following;
  }
}

class JobProgress {
  readonly #session: Session;
  readonly #job: JobHandle;
  readonly #signal: AbortSignal;
  readonly #news = new WaitingNews();
  #questionAt = Date.now() + FIRST_QUESTION_MS;
  #shown: JobSummary | null = null;

  constructor(session: Session, job: JobHandle, signal: AbortSignal) {
    this.#session = session;
    this.#job = job;
    this.#signal = signal;
  }

  /** Until the signal; what can't be read is told, and harms nothing. */
  async follow(): Promise<void> {
    for (let looks = 1; !this.#signal.aborted; looks++) {
      try {
        await this.#look();
      } catch (error) {
        this.#tellWait(this.#news.ofError(error as Error));
      }
      const pause = looks < QUICK_LOOKS ? LOOK_MS : LATER_LOOK_MS;
      await delay(pause, undefined, { signal: this.#signal }).catch(() => {});
    }
  }

  async #look(): Promise<void> {
    const { lookAtJob } = await import('../client/agent-job/list.js');
    const { client } = this.#session.jobs;
    const before = this.#shown;
    const summary = await lookAtJob(client, this.#job.workflowId, { signal: this.#signal });
    this.#shown = summary;
    this.#tellChange(before, summary);
    const isNew = summary.waitingFor !== null && summary.waitingFor !== before?.waitingFor;
    if (isNew || Date.now() >= this.#questionAt) await this.#ask();
  }

  #tellChange(before: JobSummary | null, now: JobSummary): void {
    const text = lineOf(now);
    if (text !== '' && (before === null || text !== lineOf(before))) this.#tell(text);
    if (now.prLink !== null && now.prLink !== before?.prLink) this.#tell(`pull request: ${printable(now.prLink)}`);
  }

  async #ask(): Promise<void> {
    this.#questionAt = Date.now() + QUESTION_EVERY_MS;
    const state = await this.#job.state({ signal: this.#signal });
    const text = this.#news.of(state);
    this.#tellWait(text);
    if (text !== null && state.unknown) this.#tell(this.#commandsFor(state));
  }

  #commandsFor({ unknown }: JobState): string {
    const commands = fields(resolveCommands(this.#job.workflowId, unknown, this.#session.globals));
    return `after a look upstream (from ${unknown?.lookAfter} on) one of these settles it:\n${commands}`;
  }

  #tellWait(text: string | null): void {
    if (text !== null) this.#tell(`still waiting: ${text}`);
  }

  #tell(text: string): void {
    if (!this.#signal.aborted) printToStderr(`agent-jobs: ${text}`);
  }
}

/** `watching, active, job j-1`; empty where nothing has begun. */
function lineOf({ phase, status, jobId }: JobSummary): string {
  const parts = [phase, status, jobId && `job ${jobId}`];
  return printable(parts.filter(Boolean).join(', '));
}

/** The errors that are printed as a reason. */
const PRINTED_ERRORS: readonly string[] = ['NoWorkerError', 'TemporalUnavailableError'];

/** A reason to wait; of the same `topic` only what is news is told. */
interface Reason {
  topic: string;
  text: string;
  /** In a queue. */
  position?: number | undefined;
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

/** Null where the wait is a job’s normal life. */
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
