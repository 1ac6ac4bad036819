/**
 * The contract of recurring jobs: the workflow `recurringJob`, which a Schedule starts at each of its times. See
 * docs/recurring-jobs.md.
 */
import type { AgentJobOptions } from './agent-job.js';
import type { Outcome } from './job-state.js';
import { encodeId } from './shared.js';

/** Workflow type, for Schedules that are made with another client. */
export const RECURRING_JOB_WORKFLOW = 'recurringJob';

/** The id of the Schedule; Temporal appends the scheduled time to make the id of each run of `recurringJob`. */
export function recurringJobScheduleId(projectId: string, name: string): string {
  return `recurring-job/${encodeId(projectId)}/${encodeId(name)}`;
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
  /** The options of the job. */
  options?: AgentJobOptions | null | undefined;
}

/** The fate of a run; `exists`: a job of this key had been started before, so this run started none. */
export type RecurringRunFate = 'running' | 'ended' | 'exists';

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
}

/** The result of `recurringJob`. */
export type RecurringJobResult = RecurringJobRun<'ended' | 'exists'>;

/** The memo of `recurringJob`. */
export const RECURRING_RUN_MEMO = 'recurringRun';
