/** A service that uses agent jobs: it repeats what failed, with the same key or id, as a sensible service would. */
import { setTimeout as pause } from 'node:timers/promises';
import {
  CreateRejectedError,
  InvalidInputError,
  JobNotFoundError,
  KeyConflictError,
  MessageRefusedError,
  NoJobError,
  type AgentJobs,
  type JobHandle,
} from '../../src/starter.js';
import { agentJobWorkflowId, type FollowUpState } from '../../src/contract.js';
import { connectHeldCaller, type CallerPlace } from '../support/held-caller.js';
import type { FollowUpPlan, JobPlan } from './job-plan.js';

/** All responses that a caller got; the audit compares them with the upstream's journal. */
export interface CallerRecord {
  plan: JobPlan;
  workflowId: string;
  isStarted: boolean;
  /** Ids of follow-ups that the system said it has, in the order in which it said so. */
  accepted: string[];
  /** What `sendFollowUp` answered. */
  answers: Map<string, Set<FollowUpState>>;
  /** Definite refusals of follow-ups, by id. */
  refused: Map<string, string>;
  /** The last result's outcome or the name of its error; null if the caller gave up waiting. */
  ending: string | null;
  /** The error that it was, with its causes. */
  endingText: string | null;
}

/** Errors after which saying the same again is pointless. */
const DEFINITE = [
  KeyConflictError,
  InvalidInputError,
  NoJobError,
  MessageRefusedError,
  JobNotFoundError,
  CreateRejectedError,
];
const ATTEMPT_LIMIT_MS = 90_000;
const BETWEEN_ATTEMPTS_MS = 500;
/** A start that comes later than this after the read that it follows from is too late. */
const TOO_LATE_MS = 5_500;
/** A caller starts a refused job again, with the same key. */
const MAX_RESTARTS = 2;

type Say = (jobs: AgentJobs, signal: AbortSignal) => Promise<unknown>;

export class Caller {
  readonly record: CallerRecord;
  readonly #jobs: AgentJobs;
  readonly #place: CallerPlace;
  readonly #giveUp: AbortSignal;
  /** The other callers, which fail. */
  readonly #failing: Promise<void>[] = [];

  constructor({ jobs, place }: { jobs: AgentJobs; place: CallerPlace }, plan: JobPlan, giveUp: AbortSignal) {
    this.#jobs = jobs;
    this.#place = place;
    this.#giveUp = giveUp;
    const workflowId = agentJobWorkflowId(plan.projectId, plan.key);
    this.record = {
      plan,
      workflowId,
      isStarted: false,
      accepted: [],
      answers: new Map(),
      refused: new Map(),
      ending: null,
      endingText: null,
    };
  }

  /** Lives through the whole plan; never rejects. */
  async run(): Promise<CallerRecord> {
    const { plan, workflowId } = this.record;
    const job = this.#jobs.handle(workflowId);
    try {
      await Promise.all(Array.from({ length: plan.starts }, () => this.#start()));
      this.record.isStarted = true;
      const cancel = this.#cancelLater(job);
      for (const followUp of plan.followUps.filter(({ isAfterEnd }) => !isAfterEnd))
        await this.#followUp(job, followUp);
      await cancel;
      await this.#untilEnd(job);
      for (const followUp of plan.followUps.filter(({ isAfterEnd }) => isAfterEnd)) {
        const { id, prompt } = followUp;
        this.#sayAndFail('ExecuteMultiOperation', 0, (jobs, signal) =>
          jobs.handle(workflowId).followUp(prompt, { id, signal }),
        );
        await this.#followUp(job, followUp);
        await this.#untilEnd(job);
      }
    } catch (error) {
      if (this.#giveUp.aborted) return this.record;
      this.record.ending = `caller: ${nameOf(error)}`;
    }
    await Promise.all(this.#failing);
    return this.record;
  }

  #start(): Promise<JobHandle> {
    return this.#persist((signal) => this.#startBy(this.#jobs, signal));
  }

  #startBy(jobs: AgentJobs, signal: AbortSignal): Promise<JobHandle> {
    const { key, projectId, prompt, options } = this.record.plan;
    return jobs.start({ key, projectId, prompt, ...options }, { signal });
  }

  /** Says something by a caller of its own that is killed, or stands still for too long, before a request leaves. */
  #sayAndFail(start: string, startsBefore: number, say: Say): void {
    const failing = this.#sayByFailing(start, startsBefore, say);
    this.#failing.push(failing.catch(() => {}));
  }

  async #sayByFailing(start: string, startsBefore: number, say: Say): Promise<void> {
    const { failsAfterEnd } = this.record.plan;
    if (failsAfterEnd === null) return;
    const { before, isKilled } = failsAfterEnd;
    const caller = await connectHeldCaller(this.#place);
    if (before === 'the start') caller.hold(start, startsBefore);
    else caller.hold(before);
    const said = say(caller.jobs, AbortSignal.any([this.#giveUp, AbortSignal.timeout(ATTEMPT_LIMIT_MS)]));
    const ended = said.then(
      () => 'ended',
      () => 'ended',
    );
    const isHeld = (await Promise.race([caller.isHeld, ended])) !== 'ended';
    if (isHeld && !isKilled) {
      await pause(TOO_LATE_MS);
      caller.release();
      await ended;
    }
    await caller.close();
  }

  async #cancelLater(job: JobHandle): Promise<void> {
    const { cancelAfterMs } = this.record.plan;
    if (cancelAfterMs === null) return;
    await pause(cancelAfterMs, undefined, { signal: this.#giveUp });
    await this.#persist((signal) => job.cancel({ signal })).catch(ignoreDefinite);
  }

  /** All copies at once; one may go by the other way. */
  async #followUp(job: JobHandle, plan: FollowUpPlan): Promise<void> {
    await pause(plan.waitMs, undefined, { signal: this.#giveUp });
    const ways = Array.from({ length: plan.copies }, (_, copy) => (copy === 1 ? other(plan.by) : plan.by));
    await Promise.all(ways.map((way) => this.#send(job, plan, way)));
  }

  async #send(job: JobHandle, { id, prompt }: FollowUpPlan, way: 'signal' | 'update'): Promise<void> {
    try {
      await this.#persist(async (signal) => {
        if (way === 'signal') await job.followUp(prompt, { id, signal });
        else this.#answered(id, (await job.sendFollowUp(prompt, { id, signal })).state);
      });
      if (!this.record.accepted.includes(id)) this.record.accepted.push(id);
    } catch (error) {
      ignoreDefinite(error);
      this.record.refused.set(id, nameOf(error));
    }
  }

  #answered(id: string, state: FollowUpState): void {
    const answers = this.record.answers.get(id) ?? new Set();
    this.record.answers.set(id, answers.add(state));
  }

  async #untilEnd(job: JobHandle): Promise<void> {
    for (let restarts = 0; ; restarts++) {
      try {
        const { outcome } = await job.result({ signal: this.#giveUp });
        this.record.ending = outcome;
        return;
      } catch (error) {
        if (this.#giveUp.aborted) throw error;
        this.record.ending = nameOf(error);
        this.record.endingText = textOf(error);
        if (!(error instanceof CreateRejectedError) || restarts === MAX_RESTARTS) return;
        this.#sayAndFail('StartWorkflowExecution', 1, (jobs, signal) => this.#startBy(jobs, signal));
        await this.#start();
      }
    }
  }

  /** Says the same again until the system gives a definite answer. */
  async #persist<T>(attempt: (signal: AbortSignal) => Promise<T>): Promise<T> {
    for (;;) {
      this.#giveUp.throwIfAborted();
      try {
        return await attempt(AbortSignal.any([this.#giveUp, AbortSignal.timeout(ATTEMPT_LIMIT_MS)]));
      } catch (error) {
        if (this.#giveUp.aborted) throw error;
        if (isDefinite(error)) throw error;
        await pause(BETWEEN_ATTEMPTS_MS, undefined, { signal: this.#giveUp });
      }
    }
  }
}

function other(way: 'signal' | 'update'): 'signal' | 'update' {
  return way === 'signal' ? 'update' : 'signal';
}

function isDefinite(error: unknown): boolean {
  return DEFINITE.some((type) => error instanceof type);
}

function ignoreDefinite(error: unknown): void {
  if (!isDefinite(error)) throw error;
}

function textOf(error: unknown): string {
  const causes: string[] = [];
  for (let cause = error; cause instanceof Error; cause = cause.cause) causes.push(`${cause.name}: ${cause.message}`);
  return causes.join('; caused by ');
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}
