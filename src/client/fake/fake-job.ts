/** One job without Temporal: what is told of it, what callers do with it, and what a test lets happen to it. */
import { randomUUID } from 'node:crypto';
import { type Allowed, allowedAfter } from '../../agent-job/closed-run.js';
import { promptHash } from '../../agent-job/input.js';
import type { AgentJobStartOptions } from '../../agent-job/start-options.js';
import {
  type AgentJobInput,
  type AgentJobResult,
  type Decision,
  type FollowUpAnswer,
  type FollowUpState,
  type InDoubtWrite,
  type JobRecord,
  type JobState,
  MEMO,
  type ResolveUnknownInput,
  type TerminalStatus,
} from '../../contract.js';
import { onAbort } from '../concurrently.js';
import type { JobSummary } from '../agent-job/job-summary.js';
import {
  CreateRejectedError,
  FollowUpConflictError,
  JobCanceledError,
  JobEndedError,
  MessageRefusedError,
  NoJobError,
} from '../errors.js';

/** A follow-up with its prompt, for a test to look at. */
export interface FakeFollowUp {
  readonly id: string;
  readonly prompt: string;
  readonly state: FollowUpState;
}

type RecordChange = Partial<Omit<JobRecord, 'id' | 'status'>>;

let moves = 0;

/** A job of `FakeAgentJobs`. It is active until the test says what happens to it. */
export class FakeJob {
  readonly workflowId: string;
  readonly input: AgentJobInput;
  /** What two starts of a key must have in common. */
  readonly inputHash: string;
  /** What lists name it by. */
  readonly title: string;
  /** The runs before the present one, the newest first. */
  readonly earlierRuns: Pick<FakeJob, 'summary' | 'move'>[] = [];
  /** Its start or its end, by their order in the process. */
  move = ++moves;
  #record: JobRecord;
  /** Of all runs of the job, and of the present one from here on. */
  readonly #followUps: (FakeFollowUp & { state: FollowUpState })[] = [];
  #runFrom = 0;
  #unknown: InDoubtWrite | null = null;
  readonly #decisions: Decision[] = [];
  #end: End | null = null;
  #lastResult: AgentJobResult | null = null;
  #runId = randomUUID();
  #startedAt = now();
  #endedAt: string | null = null;
  #lastChangeAt = now();
  readonly #changes = new FakeChanges();

  constructor({ workflowId, args: [input], memo }: AgentJobStartOptions, jobId: string) {
    this.workflowId = workflowId;
    this.input = input;
    this.inputHash = memo[MEMO.inputHash] as string;
    this.title = memo[MEMO.title] as string;
    const nothing = { source: null, model: null, prLink: null, archivedAt: null };
    this.#record = { ...nothing, id: input.jobId ?? jobId, status: 'active', createdAt: now() };
  }

  get followUps(): readonly FakeFollowUp[] {
    return this.#followUps;
  }

  get hasEnded(): boolean {
    return this.#end !== null;
  }

  /** What its closed run allows; null while it runs. */
  get allowed(): Allowed | null {
    if (this.#end === null) return null;
    return allowedAfter('result' in this.#end ? 'result' : failureOf(this.#end), this.state.jobId);
  }

  get state(): JobState {
    const outcome = this.#end && outcomeOf(this.#end);
    const job = outcome === 'CreateRejected' ? null : this.#record;
    return {
      ...this.#facts(),
      phase: this.#end ? 'done' : this.#unknown ? 'needsAttention' : 'watching',
      job,
      jobId: job && job.id,
      unknown: this.#unknown,
      waiting: this.#end ? null : { for: this.#unknown ? 'person' : 'poll', since: this.#lastChangeAt },
      outcome,
      lastChangeAt: this.#lastChangeAt,
    };
  }

  /** Its row in a list. */
  get summary(): JobSummary {
    const { phase, projectId, jobId, job, waiting, outcome, tags, metadata } = this.state;
    return {
      ...{ workflowId: this.workflowId, runId: this.#runId, title: this.title, projectId, phase },
      ...{ batch: this.input.batch ?? null, tags: [...new Set(tags)], metadata, status: job?.status ?? null },
      ...{ outcome, waitingFor: waiting?.for === 'person' ? waiting.for : null, jobId, prLink: job?.prLink ?? null },
      workflowStatus: this.#end === null ? 'RUNNING' : statusOf(this.#end),
      ...{ startedAt: this.#startedAt, endedAt: this.#endedAt },
    };
  }

  /** The upstream's record reads otherwise, such as `{prLink}`. */
  update(record: RecordChange & { status?: string }): void {
    this.checkRuns();
    this.#record = { ...this.#record, ...record };
    this.#changed();
  }

  /** The upstream ends the job. */
  finish(status: TerminalStatus = 'completed', record: RecordChange = {}): void {
    this.update({ ...record, status });
    this.#close({ result: { ...this.#facts(), ...this.#ended(), outcome: status } });
  }

  /** The deadline passes. */
  timeOut(): void {
    this.#close({ result: { ...this.#facts(), ...this.#ended(), outcome: 'timedOut' } });
  }

  /** The upstream refuses to create the job. */
  rejectCreate(details: { status: number; error: string }): void {
    this.#close({ error: new CreateRejectedError(this.workflowId, details) });
  }

  /** Nobody knows whether a follow-up arrived: a person must decide. */
  doubt(followUpId: string, reason = 'the response was lost'): void {
    this.checkRuns();
    this.#set(followUpId, 'queued');
    this.#unknown = { kind: 'followUp', followUpId, reason, since: now(), lookAfter: now() };
    this.#changed();
  }

  /** Takes a follow-up, as the workflow does; of a job whose run is over, in a new run. */
  send(id: string, prompt: string, onlyWhileRunning: boolean): FollowUpAnswer {
    if (this.#end && onlyWhileRunning) throw new JobEndedError(this.workflowId, statusOf(this.#end));
    if (this.allowed !== null && this.allowed !== 'go on')
      throw new NoJobError(this.workflowId, 'the ended run knew no job');
    const used = this.#followUps.find((followUp) => followUp.id === id && followUp.state !== 'abandoned');
    if (used && used.prompt !== prompt) throw new FollowUpConflictError(this.workflowId, id);
    if (!used) {
      if (this.#end) this.#runAgain();
      this.#followUps.push({ id, prompt, state: this.#unknown ? 'queued' : 'sent' });
      this.#changed();
    }
    const { state } = this.#followUps.findLast((followUp) => followUp.id === id)!;
    return { id, state, job: this.#record };
  }

  /** Settles what is in doubt. */
  settle({ action, since, followUpId, by, note }: ResolveUnknownInput): void {
    this.checkRuns();
    const unknown = this.#unknown;
    const fits = unknown !== null && (since ?? unknown.since) === unknown.since;
    if (!fits || action === 'adopt' || (followUpId ?? unknown.followUpId) !== unknown.followUpId) {
      throw new MessageRefusedError(this.workflowId, `${action} does not fit what is in doubt`);
    }
    const { kind, followUpId: id = '' } = unknown;
    this.#set(id, action === 'abandon' ? 'unknown' : 'sent');
    this.#decisions.push({ action, kind, followUpId: id, at: now(), ...(by && { by }), ...(note && { note }) });
    this.#unknown = null;
    for (const { id: waiting, state } of this.#followUps) if (state === 'queued') this.#set(waiting, 'sent');
    this.#changed();
  }

  /** Ends the run as a cancellation does; of one that is over, nothing happens. */
  cancel(): void {
    if (this.#end) return;
    const options = { prLink: this.#record.prLink, lastResult: this.#lastResult };
    this.#close({ error: new JobCanceledError(this.workflowId, this.#record.id, options) });
  }

  /** Throws JobEndedError where the run is over. */
  checkRuns(): void {
    if (this.#end) throw new JobEndedError(this.workflowId, statusOf(this.#end));
  }

  /** The end of the present run, once it is there. */
  async ended(signal?: AbortSignal | null): Promise<AgentJobResult> {
    const end = await this.#changes.until(() => this.#end, signal);
    if ('error' in end) throw end.error;
    return end.result;
  }

  /** Resolves at the next change; rejects with the signal's reason. */
  changed(signal?: AbortSignal | null): Promise<void> {
    return this.#changes.next(signal);
  }

  #facts() {
    const used = this.#followUps.filter(({ state }) => state !== 'abandoned');
    return {
      projectId: this.input.projectId,
      followUps: this.#followUps.slice(this.#runFrom).map(({ id, state }) => ({ id, state })),
      usedFollowUpIds: used.map(({ id }) => id),
      promptHashes: Object.fromEntries(used.map(({ id, prompt }) => [id, promptHash(prompt)])),
      decisions: [...this.#decisions],
      tags: [...(this.input.tags ?? [])],
      metadata: { ...this.input.metadata },
      startedAt: this.#startedAt,
      polls: 1,
    };
  }

  #ended() {
    return { job: this.#record, jobId: this.#record.id, finishedAt: now() };
  }

  #runAgain(): void {
    this.earlierRuns.unshift({ summary: this.summary, move: this.move });
    if (this.#end && 'result' in this.#end) this.#lastResult = this.#end.result;
    this.#runId = randomUUID();
    this.#end = null;
    this.#endedAt = null;
    this.move = ++moves;
    this.#runFrom = this.#followUps.length;
    this.#startedAt = now();
    this.#record = { ...this.#record, status: 'active' };
  }

  #set(id: string, state: FollowUpState): void {
    const followUp = this.#followUps.find((one) => one.id === id);
    if (followUp === undefined) throw new Error(`the fake job ${this.workflowId} has no follow-up ${id}`);
    followUp.state = state;
  }

  #close(end: End): void {
    this.checkRuns();
    this.#end = end;
    this.#endedAt = now();
    this.move = ++moves;
    this.#unknown = null;
    this.#changed();
  }

  #changed(): void {
    this.#lastChangeAt = now();
    this.#changes.tell();
  }
}

function now(): string {
  return new Date().toISOString();
}

/** How a run ended: with a result, or with what `result` throws. */
type End = { result: AgentJobResult } | { error: CreateRejectedError | JobCanceledError };

/** As `JobState` tells it. */
function outcomeOf(end: End): JobState['outcome'] {
  return 'result' in end ? end.result.outcome : failureOf(end);
}

function failureOf({ error }: Extract<End, { error: Error }>): 'CreateRejected' | 'Canceled' {
  return error instanceof CreateRejectedError ? 'CreateRejected' : 'Canceled';
}

/** Temporal's word for how the run ended. */
function statusOf(end: End): string {
  if ('result' in end) return 'COMPLETED';
  return failureOf(end) === 'Canceled' ? 'CANCELLED' : 'FAILED';
}

// Waits without a server: whoever waits for a change of a fake is told of the next one.

/** What happens to one job or export of a fake client, for those who wait for it. */
export class FakeChanges {
  readonly #waiting = new Set<() => void>();

  /** Resolves at the next change; rejects with the signal's reason. */
  next(signal?: AbortSignal | null): Promise<void> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const wake = () => {
        stopListening();
        this.#waiting.delete(wake);
        resolve();
      };
      const stopListening = onAbort(signal, (reason) => {
        this.#waiting.delete(wake);
        reject(reason as Error);
      });
      this.#waiting.add(wake);
    });
  }

  /** Waits for what `read` finds in the end. */
  async until<T>(read: () => T | null, signal?: AbortSignal | null): Promise<T> {
    for (;;) {
      const found = read();
      if (found !== null) return found;
      await this.next(signal);
    }
  }

  /** Tells all who wait. */
  tell(): void {
    for (const wake of this.#waiting) wake();
  }
}
