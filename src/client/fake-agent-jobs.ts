/**
 * A stand-in for the client in callers' unit tests. It checks starts, follow-ups and decisions as the real client does,
 * and keeps them. The test says what becomes of a job: no rule of the workflow is repeated here.
 */
import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { FULL_QUEUE, hashOf, inputHash, isOtherPrompt, parseFollowUp, promptHash } from '../agent-job/input.js';
import { agentJobStartOptions, type AgentJobStartOptions, checkKey } from '../agent-job/start-options.js';
import {
  type AgentJobInput,
  agentJobOf,
  type AgentJobResult,
  type FollowUpAnswer,
  type JobOutcome,
  type JobRecord,
  type JobState,
  LIMIT,
  type ResolveUnknownInput,
} from '../contract.js';
import { FOLLOW_UP_OPTIONS, type FollowUpOptions } from './agent-job/follow-up.js';
import { type JobHandle, workflowIdOf } from './agent-job/handle.js';
import {
  CreateRejectedError,
  FollowUpConflictError,
  JobCanceledError,
  JobEndedError,
  JobNotFoundError,
  KeyConflictError,
  MessageRefusedError,
} from './errors.js';
import { checkOptions, checkRequest, checkResolution, INPUT_OPTIONS } from './settings.js';
import type { AttachRequest, CallOptions, InputOptions, JobName, StartRequest, WaitOptions } from './settings.js';

/** What `AgentJobs` does with one job: type a parameter with this, and the fake fits too. */
export type AgentJobsLike = Pick<FakeAgentJobs, 'start' | 'attach' | 'handle' | 'close'>;

/** Jobs in memory. A job is active until the test says otherwise, through `job`. */
export class FakeAgentJobs {
  readonly #jobs = new Map<string, FakeJob>();
  #failure: Error | null = null;

  /** The next call, of this client or of a handle, throws this error, such as a TemporalUnavailableError. */
  failNext(error: Error): void {
    this.#failure = error;
  }

  #throwFailure(): void {
    const failure = this.#failure;
    this.#failure = null;
    if (failure) throw failure;
  }

  /** Every job that was started or attached to, the oldest first. */
  get jobs(): readonly FakeJob[] {
    return [...this.#jobs.values()];
  }

  /** The job behind a handle or a name, for the test. Throws JobNotFoundError. */
  job(job: JobName | Pick<JobHandle, 'workflowId'>): FakeJob {
    const workflowId = typeof job === 'object' && 'workflowId' in job ? job.workflowId : workflowIdOf(job);
    const found = this.#jobs.get(workflowId);
    if (found === undefined) throw new JobNotFoundError(workflowId, 'no such workflow');
    return found;
  }

  /** As `AgentJobs.start`. */
  async start(request: StartRequest, options: CallOptions & InputOptions = {}): Promise<JobHandle> {
    return this.#start(request, options, checkKey);
  }

  /** As `AgentJobs.attach`. */
  async attach(request: AttachRequest, options: CallOptions & InputOptions = {}): Promise<JobHandle> {
    return this.#start(request, options, (key) => key);
  }

  handle(job: JobName): JobHandle {
    return this.#handle(workflowIdOf(job));
  }

  async close(): Promise<void> {}

  #start(request: object, options: CallOptions & InputOptions, keyOf: (key: AttachRequest['key']) => typeof key) {
    this.#throwFailure();
    const { key, ...input } = checkRequest<AttachRequest>(request, options);
    checkOptions(options, INPUT_OPTIONS);
    const wanted = agentJobStartOptions(input, { key: keyOf(key) });
    const { workflowId } = wanted;
    const there = this.#jobs.get(workflowId);
    const isNew = !there || there.end instanceof CreateRejectedError;
    if (isNew) this.#jobs.set(workflowId, new FakeJob(wanted));
    else if (inputHash(there.input) !== inputHash(input)) {
      throw new KeyConflictError(workflowId, 'this key names a job with another input: use another key for a new job');
    }
    return this.#handle(workflowId, isNew);
  }

  /** Each call finds the job anew, so that a handle may be made before its job. */
  #handle(workflowId: string, isNew?: boolean): JobHandle {
    const job = () => {
      this.#throwFailure();
      return this.job({ workflowId });
    };
    const { projectId = null, key = null } = agentJobOf(workflowId) ?? {};
    const send = (prompt: string, options: FollowUpOptions = {}) => {
      const followUp = parseFollowUp({ prompt, id: options.id ?? randomUUID(), priority: options.priority });
      checkOptions(options, FOLLOW_UP_OPTIONS);
      return job().send(followUp.id ?? '', followUp.prompt, options.onlyWhileRunning ?? false);
    };
    return {
      workflowId,
      projectId,
      key,
      runId: null,
      url: null,
      isNew,
      followUp: async (prompt, options) => ({ id: send(prompt, options).id, checked: true }),
      sendFollowUp: async (prompt, options) => send(prompt, options),
      pollNow: async () => void job().running(),
      cancel: async () => {
        if (!job().end) job().fail(new JobCanceledError(workflowId, job().state.jobId));
      },
      resolve: async (resolution) => {
        job().running().decisions.push(checkResolution(resolution));
        job().set({ phase: 'watching', unknown: null });
        return job().state;
      },
      state: async () => job().state,
      result: async (options) => job().result(options),
      watch: async function* (options) {
        yield* job().states(options);
      },
    };
  }
}

/** A job of `FakeAgentJobs`: what the code under test asked of it, and what the test makes of it. */
export class FakeJob {
  readonly workflowId: string;
  readonly input: AgentJobInput;
  /** What was sent, in order. */
  readonly followUps: { readonly id: string; readonly prompt: string }[] = [];
  readonly decisions: ResolveUnknownInput[] = [];
  /** The result, or what `result` throws; null while the job runs. */
  end: AgentJobResult | Error | null = null;
  state: JobState;
  readonly #changes = new EventEmitter().setMaxListeners(0);

  constructor({ workflowId, args: [input] }: AgentJobStartOptions) {
    this.workflowId = workflowId;
    this.input = input;
    const [at, id] = [new Date().toISOString(), input.jobId ?? `job_${randomUUID()}`];
    const job = { id, status: 'active', createdAt: at, source: null, model: null, prLink: null, archivedAt: null };
    this.state = {
      prLink: null,
      prLinks: [],
      sawWork: null,
      phase: 'watching',
      projectId: input.projectId,
      jobId: id,
      job,
      unknown: null,
      outcome: null,
      polls: 1,
      followUps: [],
      usedFollowUpIds: [...('usedFollowUpIds' in input ? (input.usedFollowUpIds ?? []) : [])],
      promptHashes: { ...('promptHashes' in input ? input.promptHashes : {}) },
      decisions: [],
      startedAt: at,
      lastChangeAt: at,
      tags: [...(input.tags ?? [])],
      metadata: { ...input.metadata },
      waiting: { for: 'poll', since: at },
    };
  }

  /** Changes the state, such as to `{phase: 'needsAttention', unknown}`. */
  set(change: Partial<JobState>): void {
    this.state = { ...this.state, lastChangeAt: new Date().toISOString(), ...change };
    this.#changes.emit('change');
  }

  /** Ends the job with a result; `record` has fields of the upstream's record, such as `prLink`. */
  finish(outcome: AgentJobResult['outcome'] = 'completed', record: Partial<JobRecord> = {}): void {
    const job = this.state.job && { ...this.state.job, status: outcome, ...record };
    const { phase: _, unknown: __, waiting: ___, lastChangeAt: ____, ...facts } = this.state;
    const links = [...new Set([...facts.prLinks, ...(job?.prLink ? [job.prLink] : [])])];
    const prLink = job?.prLink ?? facts.prLink;
    const shown = { job, outcome, prLink, prLinks: links, sawWork: facts.sawWork === null ? null : true };
    this.end = { ...facts, ...shown, finishedAt: new Date().toISOString() } as AgentJobResult;
    this.set({ phase: 'done', waiting: null, unknown: null, ...shown });
  }

  /** Ends the job without a result: `result` throws this error. */
  fail(error: Error): void {
    this.end = error;
    const outcome = error.name.replace(/^Job|Error$/g, '') as JobOutcome;
    this.set({ phase: 'done', waiting: null, unknown: null, outcome });
  }

  /** Takes a follow-up, once for each id. A job that has ended goes on. Throws as a job's handle does. */
  send(id: string, prompt: string, onlyWhileRunning: boolean): FollowUpAnswer {
    if (onlyWhileRunning) this.running();
    const { usedFollowUpIds, followUps, job, promptHashes } = this.state;
    if (isOtherPrompt(hashOf(promptHashes, id), prompt)) throw new FollowUpConflictError(this.workflowId, id);
    if (!usedFollowUpIds.includes(id)) {
      if (usedFollowUpIds.length >= LIMIT.followUpsPerJob)
        throw new MessageRefusedError(this.workflowId, `follow-up ${FULL_QUEUE}`);
      this.followUps.push({ id, prompt });
      // A follow-up after the end starts a new run.
      const run = this.end && { prLink: null, prLinks: [], sawWork: false };
      this.end = null;
      const added = { followUps: [...followUps, { id, state: 'sent' as const }], ...run };
      const used = {
        usedFollowUpIds: [...usedFollowUpIds, id],
        promptHashes: { ...promptHashes, [id]: promptHash(prompt) },
      };
      this.set({ phase: 'watching', outcome: null, ...added, ...used });
    }
    return { id, state: this.state.followUps.find((one) => one.id === id)?.state ?? 'unknown', job };
  }

  /** Throws JobEndedError after the end. */
  running(): this {
    if (this.end) throw new JobEndedError(this.workflowId, 'COMPLETED');
    return this;
  }

  async result({ signal }: WaitOptions = {}): Promise<AgentJobResult> {
    while (this.end === null) await this.#change(signal);
    if (this.end instanceof Error) throw this.end;
    return this.end;
  }

  /** Each state up to the last one, which shows the end. */
  async *states({ signal }: WaitOptions = {}): AsyncGenerator<JobState, void, undefined> {
    for (let seen: JobState | null = null; seen?.phase !== 'done'; yield (seen = this.state)) {
      if (seen === this.state) await this.#change(signal);
    }
  }

  async #change(signal: WaitOptions['signal']): Promise<void> {
    signal?.throwIfAborted();
    await once(this.#changes, 'change', signal ? { signal } : {}).catch(() => signal?.throwIfAborted());
  }
}
