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
import { FAILURE, jobStateQuery, type AgentJobInput, type AgentJobResult, type JobState } from '../contract.js';
import { inputHash } from '../input-hash.js';
import { InvalidInputError, parseJobInput, type JobSpec } from '../job-input.js';
import { jobTitle } from '../job-title.js';
import { Dashboard } from './dashboard.js';
import type { CarriedFollowUps } from './follow-ups.js';
import { JobRun } from './job-run.js';
import { logEnd, logRefusal } from './job-log.js';
import type { Ending, RunData } from './run-data.js';
import { handleMessages } from './messages.js';
import { Turn } from './turn.js';
import { watch } from './watch.js';
import { createRemoteJob, isResetRun, sendFollowUps } from './write.js';

/** What continue-as-new hands on, inside the input; believed only in a run that continues another. */
interface Continued {
  spec: JobSpec;
  data: RunData;
  followUps: CarriedFollowUps;
  inputHash: string;
}

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
  if (continued && workflowInfo().continuedFromExecutionRunId !== undefined) {
    const { spec, data, followUps } = continued;
    return { run: new JobRun(spec, data, followUps, Date.now), hash: continued.inputHash };
  }
  const spec = parse(input);
  const followUps: CarriedFollowUps = { list: [], queue: [], givenIds: spec.usedFollowUpIds };
  const given = workflowInfo().memo?.inputHash;
  return {
    run: new JobRun(spec, firstData(spec), followUps, Date.now),
    hash: typeof given === 'string' ? given : inputHash(spec),
  };
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
    spec: isCreated ? { ...spec, prompt: null } : spec,
    data: { ...data, ...(data.write && isResetRun() ? { write: { ...data.write, mustAsk: true } } : {}) },
    followUps: run.followUps.carry(isResetRun()),
    inputHash: hash,
  };
  const { prompt: _, ...options } = input as AgentJobInput & { prompt?: unknown };
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
    startedAt: at,
    lastChangeAt: at,
    polls: 0,
  };
}
