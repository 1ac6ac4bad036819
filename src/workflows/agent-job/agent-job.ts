import {
  allHandlersFinished,
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  condition,
  makeContinueAsNewFunc,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import { FAILURE, jobStateQuery, type AgentJobInput, type AgentJobResult, type JobState } from '../../contract.js';
import { inputHash } from '../../agent-job/input-hash.js';
import { parseJobInput, type JobSpec } from '../../agent-job/input.js';
import { InvalidInputError } from '../../contract/input-checks.js';
import { jobTitle } from '../../agent-job/title.js';
import { Dashboard } from './dashboard.js';
import type { CarriedFollowUps } from './follow-up-queue.js';
import { JobRun } from './job-run.js';
import { logEnd, logRefusal } from './log.js';
import type { Ending, RunData } from './run-data.js';
import { handleMessages } from './handlers.js';
import { Turn } from './wait-point.js';
import { watch } from './polling.js';
import { createRemoteJob, isResetRun, sendFollowUps } from './writes.js';

/** What continue-as-new hands on, inside the input; believed only in a run that continues another. */
interface Continued {
  /** Absent in what the first release handed on. */
  version?: number;
  spec: JobSpec;
  data: RunData;
  followUps: CarriedFollowUps;
  inputHash: string;
}

/** Raised with every change of `Continued` that an older release would misread. */
const CONTINUED_VERSION = 1;

/**
 * A long-running agent job: created (or attached to), watched by durable polling, steered by follow-ups, ended with one
 * result. Names, shapes, outcomes and failures: docs/contract.md.
 */
export async function agentJob(input: AgentJobInput): Promise<AgentJobResult> {
  const { run, hash } = open(input);
  const dashboard = new Dashboard(run, hash);
  const next = () => continuedInput(input, run, hash);
  const turn = new Turn(run, dashboard, next);
  handleMessages(run, dashboard);
  CancellationScope.current().cancelRequested.catch(() => (run.isCancelRequested = true));
  // A cancellation is a wish that the lifecycle obeys when no write is in flight.
  return CancellationScope.nonCancellable(async () => {
    await Promise.race([lifecycle(run, turn), untilOver(run, turn)]);
    run.cutWatch();
    const ending = run.ending();
    if (!ending) return makeContinueAsNewFunc<typeof agentJob>({ memo: dashboard.memo })(next());
    run.abandonRest();
    dashboard.refresh();
    logEnd(run, ending);
    return conclude(run, ending);
  });
}

/** Create, then send follow-ups and watch side by side; `untilOver` ends it. */
async function lifecycle(run: JobRun, turn: Turn): Promise<void> {
  if (run.data.jobId === null) await createRemoteJob(run, turn);
  await Promise.all([sendFollowUps(run, turn), watch(run, turn)]);
}

/** Returns when nothing is left to do: with no await between the last check and the end, so that no message falls in between. */
async function untilOver(run: JobRun, turn: Turn): Promise<void> {
  for (;;) {
    const { isLingering } = run;
    await turn.until(
      () => turn.isOver() || run.isLingering !== isLingering,
      isLingering ? run.lingerLeftMs : Infinity,
      'Stay open for follow-ups',
    );
    if (!turn.isOver()) continue;
    run.close();
    await condition(allHandlersFinished);
    if (turn.isOver()) return;
    run.isClosing = false;
  }
}

function conclude(run: JobRun, ending: Ending): AgentJobResult {
  const { data } = run;
  if (ending.kind === 'canceled') throw new CancelledFailure('the watch was cancelled; the remote job goes on');
  if (ending.kind === 'failed') {
    throw ApplicationFailure.nonRetryable(ending.message, ending.type, ending.details);
  }
  const { projectId, jobId, job, followUps, usedFollowUpIds, startedAt, polls } = run.state();
  const outcome = ending.kind === 'ended' ? data.job?.status : ending.kind;
  const finishedAt = new Date(Date.now()).toISOString();
  return { outcome, projectId, jobId, job, followUps, usedFollowUpIds, startedAt, finishedAt, polls } as AgentJobResult;
}

function open(input: AgentJobInput): { run: JobRun; hash: string } {
  const continued = (input as { continued?: Continued } | undefined)?.continued;
  const isRepeated = isRepeatedRun(continued);
  if (continued && workflowInfo().continuedFromExecutionRunId !== undefined) {
    checkVersion(continued);
    const { spec, data, followUps } = continued;
    const known = isRepeated ? { ...data, isRepeated } : data;
    return { run: new JobRun(spec, known, followUps, Date.now), hash: continued.inputHash };
  }
  const spec = parse(input);
  const followUps: CarriedFollowUps = { list: [], queue: [], givenIds: spec.usedFollowUpIds };
  const given = workflowInfo().memo?.inputHash;
  return {
    run: new JobRun(spec, { ...firstData(spec), ...(isRepeated && { isRepeated }) }, followUps, Date.now),
    hash: typeof given === 'string' ? given : inputHash(spec),
  };
}

/**
 * Whether the server made this run out of one that had ended: by a retry policy, or by a cron schedule. What the run before wrote is
 * unknown here, and so is what it did after it had continued as new: its input is that of an earlier moment.
 */
function isRepeatedRun(continued: Continued | undefined): boolean {
  const { attempt, cronSchedule, continuedFromExecutionRunId } = workflowInfo();
  if (attempt > 1) return true;
  // No cron schedule outlives continue-as-new.
  return continuedFromExecutionRunId !== undefined && (continued === undefined || cronSchedule !== undefined);
}

/** An older worker must not guess: the workflow task fails, and a worker of the newer release takes it up. */
function checkVersion({ version = CONTINUED_VERSION }: Continued): void {
  if (version <= CONTINUED_VERSION) return;
  throw new Error(
    `a newer release continued this workflow (state version ${version}; this worker knows up to ${CONTINUED_VERSION}): run it with that release`,
  );
}

function parse(input: unknown): JobSpec {
  try {
    return parseJobInput(input);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    setHandler(jobStateQuery, () => refusedState(input));
    logRefusal(input, error.message);
    throw ApplicationFailure.nonRetryable(error.message, FAILURE.invalidInput, { field: error.field });
  }
}

function firstData(spec: JobSpec): RunData {
  const startedAt = workflowInfo().startTime.getTime();
  return {
    title: jobTitle(spec),
    startedAt,
    jobId: spec.jobId,
    job: null,
    lastChangeAt: startedAt,
    polls: 0,
    deadlineAt: startedAt + spec.deadlineMs,
    clockStoppedAt: null,
    hasExpired: false,
    settledAt: 0,
    endedAt: null,
    missing: null,
    isLost: false,
    failures: 0,
    notBefore: 0,
    trouble: null,
    write: null,
    unknown: null,
    decideBy: null,
  };
}

function continuedInput(input: AgentJobInput, run: JobRun, hash: string): AgentJobInput {
  const { spec, data } = run;
  const isCreated = data.jobId !== null;
  const continued: Continued = {
    version: CONTINUED_VERSION,
    // The used ids go with the follow-ups, once.
    spec: { ...spec, prompt: isCreated ? null : spec.prompt, usedFollowUpIds: [] },
    data: { ...data, ...(data.write && isResetRun() ? { write: { ...data.write, requiresConfirmation: true } } : {}) },
    followUps: run.followUps.carry(isResetRun()),
    inputHash: hash,
  };
  const { prompt: _, usedFollowUpIds: __, ...options } = input as { prompt?: unknown; usedFollowUpIds?: unknown };
  return { ...(isCreated ? { ...options, jobId: data.jobId } : options), continued } as unknown as AgentJobInput;
}

/** The state of a job that never was: its input was refused. */
function refusedState(input: unknown): JobState {
  const { projectId } = (input ?? {}) as { projectId?: unknown };
  const at = workflowInfo().startTime.toISOString();
  return {
    phase: 'done',
    projectId: typeof projectId === 'string' ? projectId : '',
    jobId: null,
    job: null,
    followUps: [],
    usedFollowUpIds: [],
    unknown: null,
    waiting: null,
    startedAt: at,
    lastChangeAt: at,
    polls: 0,
  };
}
