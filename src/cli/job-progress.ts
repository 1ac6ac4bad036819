/**
 * What a command tells while it waits for a job: its phases, its pull request, what holds it, and the commands that
 * settle a write in doubt. On a terminal one line lives; elsewhere each change is a line of stderr.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { JobState } from '../contract.js';
import type { JobHandle, JobSummary } from '../starter.js';
import { ProgressLine } from './terminal.js';
import { resolveCommands } from './resolution.js';
import { printToStderr, type Session } from './session.js';
import { durationText, fields, printable } from './text.js';
import { WaitingNews } from './waiting-reason.js';

/** A look asks no worker and costs nothing, but a server serves others too. */
const LOOK_MS = 1_000;
/** After so many looks they become rare: a job that has lasted a minute will last longer. */
const QUICK_LOOKS = 60;
const LATER_LOOK_MS = 5_000;
/** A worker that is there has taken a task by then. */
const TAKEN_WITHIN_MS = 3_000;
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
  readonly #line = new ProgressLine();
  readonly #news = new WaitingNews();
  #questionAt = Date.now() + FIRST_QUESTION_MS;
  #shown: JobSummary | null = null;
  #untakenSince: number | null = null;

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
    this.#line.clear();
  }

  async #look(): Promise<void> {
    const { lookAtJob } = await import('../client/agent-job/list.js');
    const { client } = this.#session.jobs;
    const before = this.#shown;
    const { summary, isWaitingForWorker } = await lookAtJob(client, this.#job.workflowId, { signal: this.#signal });
    this.#shown = summary;
    this.#tellChange(before, summary);
    this.#untakenSince = isWaitingForWorker ? (this.#untakenSince ?? Date.now()) : null;
    if (this.#untakenSince !== null && Date.now() - this.#untakenSince >= TAKEN_WITHIN_MS)
      return this.#tellWhyUntaken();
    const isNew = summary.waitingFor !== null && summary.waitingFor !== before?.waitingFor;
    if (isNew || Date.now() >= this.#questionAt) await this.#ask();
  }

  #tellChange(before: JobSummary | null, now: JobSummary): void {
    const text = lineOf(now);
    if (this.#line.isTerminal) this.#line.show(`${text}  ${durationText(Date.now() - Date.parse(now.startedAt))}`);
    else if (text !== '' && (before === null || text !== lineOf(before))) printToStderr(`agent-jobs: ${text}`);
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

  async #tellWhyUntaken(): Promise<void> {
    const { whyNoAnswer } = await import('../client/agent-job/no-answer.js');
    const { client } = this.#session.jobs;
    const error = await whyNoAnswer(client, this.#job.workflowId, this.#signal, undefined);
    this.#tellWait(this.#news.ofError(error));
  }

  #tellWait(text: string | null): void {
    if (text !== null) this.#tell(`still waiting: ${text}`);
  }

  #tell(text: string): void {
    if (this.#signal.aborted) return;
    this.#line.clear();
    printToStderr(`agent-jobs: ${text}`);
  }
}

/** `watching, active, job j-1`; empty where nothing has begun. */
function lineOf({ phase, status, jobId }: JobSummary): string {
  const parts = [phase, status, jobId && `job ${jobId}`];
  return printable(parts.filter(Boolean).join(', '));
}
