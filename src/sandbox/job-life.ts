/** The life of a job as its script says: which steps it has, in which it is now, and the record that a step shows. */
import * as z from 'zod';
import type { JobRecord } from '../contract.js';

const milliseconds = z.number().min(0);

export const jobStepSchema = z.strictObject({
  /** Any text, known to the interface or not; default `active`. */
  status: z.string().optional(),
  /** The step begins this long after the one before it. */
  afterMs: milliseconds.optional(),
  /** The step begins after so many reads that showed the one before it; with `afterMs`, both must hold. */
  afterReads: z.int().min(0).optional(),
  /** `true` stands for a made-up address of a pull request; default null. */
  prLink: z.union([z.literal(true), z.string(), z.null()]).optional(),
});

/** One step of a job's life, as its record shows it. */
export type JobStep = z.input<typeof jobStepSchema>;

export const jobScriptSchema = z.strictObject({
  /** Without `steps`: how long the job stays active before it completes with a pull request. Default 4000. */
  activeMs: milliseconds.optional(),
  /** The whole life; the last step lasts for ever. */
  steps: z.array(jobStepSchema).min(1).optional(),
  /** How long a message waits before the job takes it up; until then the old status shows. Default 50. */
  messageLagMs: milliseconds.optional(),
  /** What a message starts: the given steps, nothing, or (default) active for `activeMs`, then completed again. */
  followUp: z.union([z.literal('ignore'), z.array(jobStepSchema).min(1)]).optional(),
});

/** A scripted life of a job; anything not said is as in the default life. */
export type JobScript = z.input<typeof jobScriptSchema>;

const DEFAULT_ACTIVE_MS = 4_000;
const DEFAULT_MESSAGE_LAG_MS = 50;

function activeThenCompleted({ activeMs = DEFAULT_ACTIVE_MS }: JobScript): JobStep[] {
  return [{ status: 'active' }, { afterMs: activeMs, status: 'completed', prLink: true }];
}

/** The record that a step shows; `since` is when the step began. */
function showStep(
  { status = 'active', prLink = null }: JobStep,
  job: { id: string; number: number; createdAt: number },
  since: number,
): JobRecord {
  return {
    id: job.id,
    status,
    source: { repository: 'acme/site', ref: 'main' },
    model: 'sandbox-model-1',
    prLink: prLink === true ? `https://github.example/acme/site/pull/${job.number}` : prLink,
    createdAt: new Date(job.createdAt).toISOString(),
    archivedAt: status === 'archived' ? new Date(since).toISOString() : null,
  };
}

/** The current step of a job, computed from times on each read: a hundred thousand idle jobs need no timers. */
export class JobLife {
  readonly #job: { id: string; number: number; createdAt: number };
  readonly #script: JobScript;
  #steps: JobStep[];
  #index = 0;
  #reads = 0;
  #since: number;
  /** When the messages that wait start their steps. */
  #restarts: number[] | undefined;

  constructor(job: { id: string; number: number; createdAt: number }, script: JobScript) {
    this.#job = job;
    this.#script = script;
    this.#steps = script.steps ?? activeThenCompleted(script);
    this.#since = job.createdAt;
  }

  /** Takes a message, which starts other steps after its lag. */
  message(at: number): void {
    if (this.#script.followUp === 'ignore') return;
    (this.#restarts ??= []).push(at + (this.#script.messageLagMs ?? DEFAULT_MESSAGE_LAG_MS));
  }

  /** Sets one step until the next message. */
  fix(step: JobStep, now: number): void {
    this.#restarts = undefined;
    this.#begin([step], now);
  }

  /** The record now; a counted read advances steps that wait for reads. */
  show(now: number, isCounted: boolean): JobRecord {
    const { followUp = activeThenCompleted(this.#script) } = this.#script;
    while (followUp !== 'ignore' && this.#restarts?.[0] !== undefined && this.#restarts[0] <= now) {
      this.#begin(followUp, this.#restarts.shift() ?? now);
    }
    while (this.#nextIsDue(now)) this.#advance(now);
    if (isCounted) this.#reads++;
    return showStep(this.#steps[this.#index] ?? {}, this.#job, this.#since);
  }

  #begin(steps: JobStep[], since: number): void {
    this.#steps = steps;
    this.#since = since;
    this.#index = 0;
    this.#reads = 0;
  }

  #nextIsDue(now: number): boolean {
    const next = this.#steps[this.#index + 1];
    return next !== undefined && now - this.#since >= (next.afterMs ?? 0) && this.#reads >= (next.afterReads ?? 0);
  }

  #advance(now: number): void {
    const next = this.#steps[++this.#index];
    // A step that waited for reads begins now; one that waited for time began when that time was over.
    this.#since = next?.afterReads === undefined ? this.#since + (next?.afterMs ?? 0) : now;
    this.#reads = 0;
  }
}
