/** Which steps a job's life has, and the record that a step shows. In which step a job is now: job-life.ts. */
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
  model: z.string().nullable().optional(),
  /** Set over the record as they are: unknown fields, wrong types. */
  fields: z.record(z.string(), z.unknown()).optional(),
  /** Fields left out of the record. */
  omit: z.array(z.string()).optional(),
  /** Adds a field `padding` of this many bytes. */
  padBytes: z.int().min(0).optional(),
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
  /** After its create, reads of the job get a 404 for so long … */
  notFoundMs: milliseconds.optional(),
  /** … or so many reads. */
  notFoundReads: z.int().min(0).optional(),
});

/** A scripted life of a job; anything not said is as in the default life. */
export type JobScript = z.input<typeof jobScriptSchema>;

const DEFAULT_ACTIVE_MS = 4_000;
const DEFAULT_MESSAGE_LAG_MS = 50;

function activeThenCompleted(script: JobScript): JobStep[] {
  return [{ status: 'active' }, { afterMs: script.activeMs ?? DEFAULT_ACTIVE_MS, status: 'completed', prLink: true }];
}

/** A script with every default filled in; made once per script and shared by its jobs. */
export interface JobPlan {
  script: JobScript;
  steps: JobStep[];
  /** Undefined where messages change nothing. */
  followUpSteps: JobStep[] | undefined;
  messageLagMs: number;
}

export function planJob(script: JobScript): JobPlan {
  const followUp = script.followUp ?? activeThenCompleted(script);
  return {
    script,
    steps: script.steps ?? activeThenCompleted(script),
    followUpSteps: followUp === 'ignore' ? undefined : followUp,
    messageLagMs: script.messageLagMs ?? DEFAULT_MESSAGE_LAG_MS,
  };
}

/** The record that a step shows; `since` is when the step began. */
export function showStep(step: JobStep, job: { id: string; number: number; createdAt: number }, since: number): object {
  const status = step.status ?? 'active';
  const record: JobRecord & Record<string, unknown> = {
    id: job.id,
    status,
    source: { repository: 'acme/site', ref: 'main' },
    model: step.model === undefined ? 'sandbox-model-1' : step.model,
    prLink: step.prLink === true ? `https://github.example/acme/site/pull/${job.number}` : (step.prLink ?? null),
    createdAt: new Date(job.createdAt).toISOString(),
    archivedAt: status === 'archived' ? new Date(since).toISOString() : null,
    ...step.fields,
  };
  if (step.padBytes) record['padding'] = 'x'.repeat(step.padBytes);
  for (const field of step.omit ?? []) delete record[field];
  return record;
}
