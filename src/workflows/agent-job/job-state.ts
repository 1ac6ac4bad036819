/** Decides what the query `jobState` answers, and what a job waits for: both follow from what the run knows. */
import { FAILURE, type JobOutcome, type JobState, type Waiting } from '../../contract.js';
import { labelsOf } from '../../agent-job/fields.js';
import type { JobRun } from './job-run.js';
import { oddPollText, unrestText } from './poll-texts.js';
import { interruptionOf, notBeforeOf, queuedOf } from './write.js';

/** The state of a job. */
export function jobState(run: JobRun): JobState {
  const { job, prLink, prLinks, work, lastChangeAt, polls } = run.polls.known;
  return {
    phase: run.phase,
    projectId: run.spec.projectId,
    jobId: run.jobId,
    job,
    prLink,
    prLinks: [...prLinks],
    sawWork: work && work.sawWork,
    followUps: run.followUps.statuses(),
    usedFollowUpIds: run.followUps.usedIds(),
    promptHashes: run.followUps.promptHashes(),
    unknown: run.inDoubt,
    waiting: waitingNow(run),
    decisions: [...run.decisions],
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
  if (ending.kind === 'ended') return ending.end;
  if (ending.kind === 'failed') return ending.type as JobOutcome;
  return ending.kind === 'canceled' ? 'Canceled' : ending.kind;
}

/** Why nothing happens right now; null while a write is under way, or if the run is over. */
export function waitingNow(run: JobRun): Waiting | null {
  return run.isSending || run.ending() ? null : waitingOf(run, Date.now());
}

/** The state of a job that never was: its input is invalid. */
export function invalidInputState(input: unknown, startTime: Date): JobState {
  const { projectId } = (input ?? {}) as { projectId?: unknown };
  const at = startTime.toISOString();
  return {
    phase: 'done',
    projectId: typeof projectId === 'string' ? projectId : '',
    jobId: null,
    job: null,
    prLink: null,
    prLinks: [],
    sawWork: null,
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

/** What says why a run waits. */
type WaitingRun = Pick<JobRun, 'jobId' | 'write' | 'spec' | 'polls'>;

/** For a run that is not over and has no write under way. Null if it acts within this very workflow task. */
export function waitingOf(run: WaitingRun, now: number): Waiting | null {
  const { write } = run;
  if (!write) return run.jobId === null ? null : waitingToPoll(run, now);
  const { state } = write;
  if (state.kind === 'inDoubt') {
    const { since, reason } = state.inDoubt;
    return waiting('person', Date.parse(since), state.decideBy, reason);
  }
  const interruption = interruptionOf(write);
  if (!interruption) return null;
  const queued = queuedOf(write);
  // Its turn is expected then; without an expected turn it is sent by itself at `notBefore`.
  const expectedAt = queued?.expectedAt === undefined ? 0 : Date.parse(queued.expectedAt);
  const until = expectedAt > now ? expectedAt : notBeforeOf(write);
  const { position } = queued ?? {};
  const shown = waiting(interruption.for, interruption.since, until > now ? until : null, interruption.reason);
  return { ...shown, ...(position !== undefined && { position }) };
}

function waitingToPoll({ spec, polls }: WaitingRun, now: number): Waiting {
  const { nextPollAt, batchStartedAt } = polls;
  const { interruption, candidate, notBefore, lastChangeAt } = polls.known;
  if (interruption) {
    const until = Math.max(nextPollAt ?? 0, notBefore);
    return waiting(interruption.for, interruption.since, until > now ? until : null, interruption.reason);
  }
  if (candidate && !candidate.hasStood) {
    const standsAt = candidate.since + spec.settleMs;
    return waiting('settle', candidate.since, standsAt > now ? standsAt : null, unrestText(polls.known));
  }
  return waiting('poll', Math.max(batchStartedAt, lastChangeAt), nextPollAt, oddPollText(polls.known));
}

function waiting(what: Waiting['for'], since: number, until: number | null, reason?: string): Waiting {
  return {
    for: what,
    since: new Date(since).toISOString(),
    ...(until === null ? {} : { until: new Date(until).toISOString() }),
    ...(reason === undefined ? {} : { reason }),
  };
}
