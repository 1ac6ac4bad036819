/** What the query `jobState` answers. */
import type { JobState, Waiting } from '../../contract.js';
import type { JobRun } from './job-run.js';
import { waitingOf } from './waiting.js';

/** The state of a job. */
export function jobState(run: JobRun): JobState {
  const { job, lastChangeAt, polls } = run.polls.known;
  return {
    phase: run.phase,
    projectId: run.spec.projectId,
    jobId: run.jobId,
    job,
    followUps: run.followUps.statuses(),
    usedFollowUpIds: run.followUps.usedIds(),
    unknown: run.inDoubt,
    waiting: waitingNow(run),
    decisions: run.decisions.list(),
    startedAt: isoTime(run.startedAt),
    lastChangeAt: isoTime(lastChangeAt),
    polls,
  };
}

/** Why nothing happens right now; null while a write is under way, or where the run is over. */
export function waitingNow(run: JobRun): Waiting | null {
  return run.write?.isSending || run.ending() ? null : waitingOf(run, Date.now());
}

/** The state of a job that never was: its input was refused. */
export function refusedState(input: unknown, startTime: Date): JobState {
  const { projectId } = (input ?? {}) as { projectId?: unknown };
  const at = startTime.toISOString();
  return {
    phase: 'done',
    projectId: typeof projectId === 'string' ? projectId : '',
    jobId: null,
    job: null,
    followUps: [],
    usedFollowUpIds: [],
    unknown: null,
    waiting: null,
    decisions: [],
    startedAt: at,
    lastChangeAt: at,
    polls: 0,
  };
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
