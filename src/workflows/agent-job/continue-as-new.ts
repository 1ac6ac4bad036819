/**
 * Decides how a run begins, with a caller's input or with what the run before handed on; when it must go on as a new
 * one; and what it hands on.
 */
import { condition, makeContinueAsNewFunc, setHandler, workflowInfo } from '@temporalio/workflow';
import { jobStateQuery, MEMO, type AgentJobInput } from '../../contract.js';
import { invalidInputFailure } from '../../agent-job/closed-run.js';
import { InvalidInputError } from '../../contract/errors.js';
import { jsonBytes } from '../../contract/shared.js';
import { jobTitle } from '../../agent-job/web-ui-text.js';
import { inputHash, parseJobInput, type JobSpec } from '../../agent-job/input.js';
import { restart } from './deadline.js';
import { Dashboard, logInvalidInput } from './dashboard.js';
import { noFollowUps, type CarriedFollowUps } from './follow-up-queue.js';
import { invalidInputState } from './job-state.js';
import { handedOn } from '../handed-on.js';
import { isNewRunWanted, leaveVersion, nextRunVersion } from '../worker-version.js';
import { JobRun, type RunData } from './job-run.js';
import { isRepeatedRun, isResetRun, stillConfirmed } from './life.js';
import { firstPollData } from './poll-findings.js';

/** What continue-as-new hands on, inside the input; believed only in a run that continues another. */
interface Continued {
  version: number;
  spec: JobSpec;
  data: RunData;
  followUps: CarriedFollowUps;
  inputHash: string;
}

/** Our client gives no longer one; another's field of that name may be anything. */
const MAX_JOB_TITLE = 200;

/** Raised with every change of `Continued` that another release would misread. */
const CONTINUED_VERSION = 1;

/** Continue-as-new input over 2 MiB fails the workflow task for ever; a history can grow a good deal longer instead. */
const MAX_CARRIED_BYTES = 1_900_000;

/** How the parts of a run wait, and how it goes on as a new one. */
export class WaitPoint {
  readonly #run: JobRun;
  readonly #dashboard: Dashboard;
  readonly #nextInput: () => AgentJobInput;

  constructor(run: JobRun, dashboard: Dashboard, nextInput: () => AgentJobInput) {
    this.#run = run;
    this.#dashboard = dashboard;
    this.#nextInput = nextInput;
  }

  /** Once this is true, no waiting part begins anything more: the run is over or continues as new. */
  readonly mustYield = (): boolean => this.#run.ending() !== null || this.#mustContinue;

  /** Whether the server wants a new run, and nothing is under way that the next one could not know. */
  get #mustContinue(): boolean {
    const { isSending, polls } = this.#run;
    return isNewRunWanted() && !isSending && !polls.hasResult && jsonBytes(this.#nextInput()) < MAX_CARRIED_BYTES;
  }

  /**
   * Waits until something is true, or a time has passed: then it answers false. Not async: the SDK keeps a stack trace
   * for each promise.
   */
  waitUntil(isTrue: () => boolean, forMs = Infinity, summary?: string): boolean | Promise<boolean | void> {
    if (forMs <= 0 || isTrue()) return isTrue();
    this.#dashboard.refresh();
    if (forMs === Infinity) return condition(isTrue);
    return condition(isTrue, Math.ceil(forMs), summary === undefined ? {} : { summary });
  }

  /** Does something that takes time. */
  perform<T>(work: () => Promise<T>): Promise<T> {
    this.#dashboard.refresh();
    return work();
  }

  /** Ends this run; the next one begins with all that this one knows. */
  continueAsNew(): Promise<never> {
    const options = { memo: this.#dashboard.memo, ...nextRunVersion() };
    return makeContinueAsNewFunc<(input: AgentJobInput) => Promise<unknown>>(options)(this.#nextInput());
  }
}

/** The run that an input asks for. */
export function openRun(input: AgentJobInput): { run: JobRun; dashboard: Dashboard; waitPoint: WaitPoint } {
  const { run, hash } = beginOrContinue(input);
  // By this hash a caller recognizes the input.
  const dashboard = new Dashboard(run, hash);
  return { run, dashboard, waitPoint: new WaitPoint(run, dashboard, () => continuedInput(input, run, hash)) };
}

function beginOrContinue(input: AgentJobInput): { run: JobRun; hash: string } {
  const continued = handedOn<Continued>(input, CONTINUED_VERSION);
  const isRepeated = isRepeatedRun(continued !== null);
  if (continued) {
    const { data, spec, followUps } = continued;
    const known = isRepeated ? { ...data, isRepeated } : { ...data, write: data.write && stillConfirmed(data.write) };
    return { run: new JobRun(spec, known, followUps, Date.now), hash: continued.inputHash };
  }
  const spec = parse(input);
  const hash = hashOf(spec);
  const startedAt = workflowInfo().startTime.getTime();
  const data: RunData = {
    title: titleOf(spec, hash),
    startedAt,
    isRepeated,
    jobId: spec.jobId,
    createdAt: null,
    deadline: restart(startedAt + spec.deadlineMs),
    polls: firstPollData(startedAt),
    write: null,
    decisions: [],
  };
  return { run: new JobRun(spec, data, noFollowUps(spec.usedFollowUpIds, spec.promptHashes), Date.now), hash };
}

/** A run that goes on with the job of an ended one carries that one's hash. A create's hash is its own input's. */
function hashOf(spec: JobSpec): string {
  const given = workflowInfo().memo?.[MEMO.inputHash];
  return spec.prompt === null && typeof given === 'string' ? given : inputHash(spec);
}

/** The title that the start gave, as an input that attaches to a job has no prompt. Otherwise one like our client's. */
function titleOf(spec: JobSpec, hash: string): string {
  const { memo, workflowId } = workflowInfo();
  const given = memo?.[MEMO.title];
  // A Schedule whose input was changed alone still has the memo of the former one.
  const isOfInput = (memo?.[MEMO.inputHash] ?? hash) === hash;
  if (isOfInput && typeof given === 'string' && given !== '' && given.length <= MAX_JOB_TITLE) return given;
  return jobTitle(spec, memo?.[MEMO.hidePrompts] === true ? workflowId : null);
}

/** The input of the next run. */
function continuedInput(input: AgentJobInput, run: JobRun, hash: string): AgentJobInput {
  const { jobId } = run;
  const isReset = isResetRun();
  // The used ids go with the follow-ups, once.
  const options = { ...run.spec, usedFollowUpIds: [], promptHashes: {} };
  const continued: Continued = {
    version: CONTINUED_VERSION,
    spec: jobId === null ? options : { ...options, prompt: null, jobId },
    data: run.carry(isReset),
    followUps: run.followUps.carry(isReset),
    inputHash: hash,
  };
  const { prompt: _, usedFollowUpIds: __, promptHashes: ___, ...given } = input as Partial<JobSpec>;
  return { ...given, ...(jobId !== null && { jobId }), continued } as unknown as AgentJobInput;
}

function parse(input: unknown): JobSpec {
  try {
    return parseJobInput(input);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    setHandler(jobStateQuery, () => invalidInputState(input, workflowInfo().startTime));
    logInvalidInput(input, error.message);
    leaveVersion();
    throw invalidInputFailure(error);
  }
}
