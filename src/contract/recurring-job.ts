/**
 * The contract of recurring jobs: the workflow `recurringJob`, which a Schedule starts at each of its times, and the
 * workflow `recurringJobLock`, which keeps the jobs of one Schedule apart. See docs/contract.md.
 */
import type { AgentJobOptions } from './agent-job.js';
import type { Outcome } from './job-state.js';
import { defineSignal, encodeId, type DurationInput } from './shared.js';

/** Workflow type, for Schedules that are made with another client. */
export const RECURRING_JOB_WORKFLOW = 'recurringJob';
/** Workflow type of the lock. */
export const RECURRING_JOB_LOCK_WORKFLOW = 'recurringJobLock';

/** The id of the Schedule; Temporal appends the scheduled time to make the id of each run of `recurringJob`. */
export function recurringJobScheduleId(projectId: string, name: string): string {
  return `recurring-job/${encodeId(projectId)}/${encodeId(name)}`;
}

/** The workflow id of the lock of a Schedule. */
export function recurringJobLockId(projectId: string, name: string): string {
  return `${recurringJobScheduleId(projectId, name)}/lock`;
}

/** The key of the job of a scheduled time, in UTC; `jobs.handle({projectId, key})` finds it. */
export function recurringJobKey(name: string, scheduledAt: Date): string {
  return `${name}-${scheduledAt.toISOString().replace(/\.\d{3}Z$/, 'Z')}`;
}

/** The project and name that a Schedule's id names; null where it is no Schedule of a job. */
export function recurringJobOf(scheduleId: string): { projectId: string; name: string } | null {
  const [prefix, ...parts] = scheduleId.split('/');
  if (prefix !== 'recurring-job' || parts.length !== 2) return null;
  try {
    const [projectId = '', name = ''] = parts.map(decodeURIComponent);
    return recurringJobScheduleId(projectId, name) === scheduleId ? { projectId, name } : null;
  } catch {
    return null;
  }
}

/** What a run does while the job of an earlier run is not over: it is skipped, or waits its turn. */
export type OverlapPolicy = 'skip' | 'queue';

/** The only argument of `recurringJob`. */
export interface RecurringJobInput {
  projectId: string;
  /** Unique in the project, among recurring jobs; 1 to 100 bytes when percent-encoded. */
  name: string;
  /**
   * The instruction, with `{date}`, `{time}`, `{timeZone}` and `{scheduledAt}` for the scheduled time. `{{` and `}}`
   * stand for a brace.
   */
  prompt: string;
  /** IANA name: the calendar and clock of `{date}` and `{time}`. */
  timeZone: string;
  /** Default `skip`. */
  overlap?: OverlapPolicy | null | undefined;
  /** With `queue`: how long a run waits before it is skipped; 0 to 7 days, default 24 hours. */
  queueFor?: DurationInput | null | undefined;
  /** The options of the job. */
  options?: AgentJobOptions | null | undefined;
}

/**
 * Why a run started no job: an earlier run's job was not over, it waited for `queueFor`, or the Schedule was removed
 * first.
 */
export type SkipReason = 'earlierRun' | 'queueWait' | 'scheduleRemoved';

/** The fate of a run; `exists`: a job of this key had been started before, so this run started none. */
export type RecurringRunFate = 'queued' | 'running' | 'ended' | 'exists' | 'skipped';

/** What came of a run, also in its memo under `recurringRun` while it is under way. */
export interface RecurringJobRun<Fate extends RecurringRunFate = RecurringRunFate> {
  fate: Fate;
  projectId: string;
  name: string;
  /** ISO 8601, UTC: the time in the Schedule, without jitter and delays. */
  scheduledAt: string;
  key: string;
  /** Of the job. */
  workflowId: string;
  /** How the job ended: its outcome, its failure's type, `Canceled`, `Terminated` or `TimedOut`; null else. */
  outcome: Outcome | (string & {}) | null;
  /** Why it was skipped; null where it was not. */
  reason: SkipReason | null;
}

/** The result of `recurringJob`. */
export type RecurringJobResult = RecurringJobRun<'ended' | 'exists' | 'skipped'>;

/** The memo of `recurringJob`. */
export const RECURRING_RUN_MEMO = 'recurringRun';

/** Memo of such a workflow whose jobs are shown without their prompts. */
export const HIDE_PROMPTS_MEMO = 'hidePrompts';

/** A run that waits for the lock. */
export interface LockWaiter {
  workflowId: string;
  /** The earliest goes first. */
  scheduledAt: string;
  /** When the run started. A removal of the Schedule skips the runs that started before it. */
  startedAt: string;
}

/** The only argument of `recurringJobLock`. */
export interface RecurringJobLockInput {
  projectId: string;
  name: string;
  /** The run that holds the lock, and the workflow id of its job. */
  holder: { workflowId: string; runId: string; job: string };
  waiting?: LockWaiter[];
  /** When the Schedule was removed last, where it was while the lock was held. */
  removedAt?: string;
}

/** What the lock tells a run that waits, and a removal of the Schedule every run that has no job yet. */
export interface LockAnswer {
  /**
   * `free`: it may try to take the lock. `removed`: it is to start no job. `held`, to the holder: nothing; that it can
   * be told means that it runs.
   */
  kind: 'free' | 'removed' | 'held';
  /** The runs that wait behind it, which it hands on with the lock. */
  waiting: LockWaiter[];
}

/** A run asks the lock to be told when it is free. */
export const awaitLockSignal = defineSignal<[{ waiting: LockWaiter[] }]>('awaitLock');
/** The lock answers, or the Schedule was removed. */
export const lockAnswerSignal = defineSignal<[LockAnswer]>('lockAnswer');
/** Tells the lock that the Schedule was removed, so that no run waits any longer. */
export const scheduleRemovedSignal = defineSignal('scheduleRemoved');
