/** What the query `jobState` answers. */
import { FAILURE, type JobOutcome, type JobState, type Waiting } from '../../contract.js';
import { labelsOf } from '../../agent-job/labels.js';
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
    promptHashes: run.followUps.promptHashes(),
    unknown: run.inDoubt,
    waiting: waitingNow(run),
    decisions: run.decisions.list(),
    outcome: outcomeOf(run),
    tags: run.spec.tags,
    metadata: run.spec.metadata,
    startedAt: isoTime(run.startedAt),
    lastChangeAt: isoTime(lastChangeAt),
    polls,
  };
}

/** How the run ended; null while it goes on. */
export function outcomeOf(run: JobRun): JobOutcome | null {
  const ending = run.ending();
  if (ending === null) return null;
  if (ending.kind === 'ended') return run.polls.known.job?.status as JobOutcome;
  if (ending.kind === 'failed') return ending.type as JobOutcome;
  return ending.kind === 'canceled' ? 'Canceled' : ending.kind;
}

/** Why nothing happens right now; null while a write is under way, or where the run is over. */
export function waitingNow(run: JobRun): Waiting | null {
  return run.isSending || run.ending() ? null : waitingOf(run, Date.now());
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
    promptHashes: {},
    unknown: null,
    waiting: null,
    decisions: [],
    outcome: FAILURE.invalidInput,
    ...labelsOf(input),
    startedAt: at,
    lastChangeAt: at,
    polls: 0,
  };
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
