/**
 * The client without Temporal, for callers' unit tests: it checks what the real one checks, with the same code, and
 * refuses what it refuses with the same errors.
 */
import { randomUUID } from 'node:crypto';
import { agentJobOf, DEFAULT_TASK_QUEUE, type JobState } from '../../contract.js';
import { parseFollowUp } from '../../agent-job/input.js';
import { parseAttribution, parseResolution } from '../../agent-job/resolution.js';
import { agentJobStartOptions, checkKey, type AgentJobStartOptions } from '../../agent-job/start-options.js';
import type { FollowUpOptions } from '../agent-job/follow-up.js';
import { workflowIdOf } from '../agent-job/handle.js';
import type { JobHandle } from '../agent-job/job-handle.js';
import type { JobFilter } from '../agent-job/job-query.js';
import type { JobSummary } from '../agent-job/job-summary.js';
import type { JobCount, JobPage, PageOptions } from '../agent-job/list.js';
import type { JobSchedule } from '../recurring-job/schedule.js';
import type { JobScheduleHandle } from '../recurring-job/schedule-handle.js';
import type { JobScheduleSettings } from '../recurring-job/schedule-spec.js';
import { JobNotFoundError, KeyConflictError } from '../errors.js';
import type { AttachRequest, JobName, StartRequest } from '../settings.js';
import { checkLimits, type CallOptions, type WaitOptions } from '../temporal-call.js';
import { FakeJob } from './fake-job.js';
import { countFake, fakePage, listFake } from './fake-list.js';
import { FakeSchedules } from './fake-schedules.js';

export { FakeJob, type FakeFollowUp } from './fake-job.js';

/** What callers usually need of `AgentJobs`: type a parameter with this, and both fit. */
export interface AgentJobsLike {
  start(request: StartRequest, options?: CallOptions): Promise<JobHandle>;
  attach(request: AttachRequest, options?: CallOptions): Promise<JobHandle>;
  handle(job: JobName): JobHandle;
  list(filter?: JobFilter, options?: CallOptions): AsyncIterable<JobSummary>;
  listPage(filter?: JobFilter, options?: PageOptions): Promise<JobPage>;
  count(filter?: JobFilter, options?: CallOptions): Promise<JobCount>;
  schedule(settings: JobScheduleSettings, options?: CallOptions): Promise<JobScheduleHandle>;
  recurring(job: { projectId: string; name: string }): JobScheduleHandle;
  schedules(filter?: { projectId?: string | null | undefined }, options?: CallOptions): Promise<JobSchedule[]>;
  close(): Promise<void>;
}

/** Jobs in memory. A job is active until the test says through `job` what happens to it. */
export class FakeAgentJobs implements AgentJobsLike {
  readonly #jobs = new Map<string, FakeJob>();
  readonly #schedules = new FakeSchedules((wanted) => this.#startNew(wanted));
  #started = 0;

  /** Every job that was started or attached to, the oldest first. */
  get jobs(): readonly FakeJob[] {
    return [...this.#jobs.values()];
  }

  /** The job behind a handle or a name, for the test; throws where there is none. */
  job(job: JobName | Pick<JobHandle, 'workflowId'>): FakeJob {
    const workflowId = typeof job === 'object' && 'workflowId' in job ? job.workflowId : workflowIdOf(job);
    return this.#jobOf(workflowId);
  }

  /** As `AgentJobs.start`. */
  async start({ key, ...input }: StartRequest, options: CallOptions = {}): Promise<JobHandle> {
    const wanted = agentJobStartOptions(input, { key: checkKey(key), taskQueue: DEFAULT_TASK_QUEUE });
    checkLimits(options);
    return this.#startOrJoin(wanted);
  }

  /** As `AgentJobs.attach`. */
  async attach({ key, ...input }: AttachRequest, options: CallOptions = {}): Promise<JobHandle> {
    const wanted = agentJobStartOptions(input, { key, taskQueue: DEFAULT_TASK_QUEUE });
    checkLimits(options);
    return this.#startOrJoin(wanted);
  }

  /** As `AgentJobs.handle`. */
  handle(job: JobName): JobHandle {
    return this.#handle(workflowIdOf(job));
  }

  /** As `AgentJobs.list`; without the moment that Temporal lags behind. */
  async *list(filter: JobFilter = {}, options: CallOptions = {}): AsyncGenerator<JobSummary, void, undefined> {
    checkLimits(options);
    yield* listFake(this.jobs, filter);
  }

  /** As `AgentJobs.listPage`. */
  async listPage(filter: JobFilter = {}, options: PageOptions = {}): Promise<JobPage> {
    checkLimits(options);
    return fakePage(this.jobs, filter, options);
  }

  /** As `AgentJobs.count`. */
  async count(filter: JobFilter = {}, options: CallOptions = {}): Promise<JobCount> {
    checkLimits(options);
    return countFake(this.jobs, filter);
  }

  /** As `AgentJobs.schedule`; no server checks the fields of a cron expression. Only `trigger` starts a run. */
  async schedule(settings: JobScheduleSettings, options: CallOptions = {}): Promise<JobScheduleHandle> {
    checkLimits(options);
    return this.#schedules.ensure(settings);
  }

  /** As `AgentJobs.recurring`. */
  recurring(job: { projectId: string; name: string }): JobScheduleHandle {
    return this.#schedules.handle(job);
  }

  /** As `AgentJobs.schedules`. */
  async schedules(
    { projectId }: { projectId?: string | null | undefined } = {},
    options: CallOptions = {},
  ): Promise<JobSchedule[]> {
    checkLimits(options);
    return this.#schedules.list(projectId);
  }

  /** Does nothing. */
  async close(): Promise<void> {}

  #startOrJoin({ workflowId, args: [input] }: AgentJobStartOptions): JobHandle {
    const wanted = new FakeJob(workflowId, input, `job_${++this.#started}`);
    const there = this.#jobs.get(workflowId);
    const isNew = there === undefined || there.isRejected;
    if (isNew) this.#jobs.set(workflowId, wanted);
    else if (there.inputHash !== wanted.inputHash) {
      const text = `this key names a job with another input (job ${there.state.jobId}): use another key for a new job`;
      throw new KeyConflictError(workflowId, text);
    }
    return this.#handle(workflowId, isNew);
  }

  /** Null where the key has a job. */
  #startNew(wanted: AgentJobStartOptions): FakeJob | null {
    const there = this.#jobs.get(wanted.workflowId);
    if (there && !there.isRejected) return null;
    return this.#jobOf(this.#startOrJoin(wanted).workflowId);
  }

  #jobOf(workflowId: string): FakeJob {
    const job = this.#jobs.get(workflowId);
    if (job === undefined) throw new JobNotFoundError(workflowId, 'no such workflow');
    return job;
  }

  #handle(workflowId: string, isNew?: boolean): JobHandle {
    const send = (prompt: string, options: FollowUpOptions = {}) => {
      const { id, prompt: text } = parseFollowUp({
        prompt,
        id: options.id ?? randomUUID(),
        priority: options.priority,
      });
      checkLimits(options);
      return this.#jobOf(workflowId).send(id ?? '', text, options.onlyWhileRunning ?? false);
    };
    const resolve: JobHandle['resolve'] = async (resolution, options = {}) => {
      const checked = parseResolution(resolution);
      checkLimits(options);
      const job = this.#jobOf(workflowId);
      job.settle(checked);
      return job.state;
    };
    return {
      workflowId,
      projectId: agentJobOf(workflowId)?.projectId ?? null,
      key: agentJobOf(workflowId)?.key ?? null,
      runId: null,
      url: null,
      isNew,
      followUp: async (prompt, options) => ({ id: send(prompt, options).id }),
      sendFollowUp: async (prompt, options) => send(prompt, options),
      state: async (options = {}) => {
        checkLimits(options);
        return this.#jobOf(workflowId).state;
      },
      pollNow: async ({ by, note, ...options } = {}) => {
        parseAttribution({ by, note });
        checkLimits(options);
        this.#jobOf(workflowId).checkRuns();
      },
      resolve,
      resolveUnknown: resolve,
      cancel: async ({ by, note, ...options } = {}) => {
        parseAttribution({ by, note });
        checkLimits(options);
        this.#jobOf(workflowId).cancel();
      },
      result: async ({ signal } = {}) => this.#jobOf(workflowId).ended(signal),
      watch: (options) => watchFake(() => this.#jobOf(workflowId), options),
    };
  }
}

/** Each state, until the run is over. */
async function* watchFake(jobOf: () => FakeJob, { signal }: WaitOptions = {}): AsyncGenerator<JobState, void> {
  const job = jobOf();
  for (let last = ''; ;) {
    const changed = job.hasEnded ? undefined : job.changed(signal);
    changed?.catch(() => {}); // it may be aborted while the caller is not waiting
    const { state } = job;
    if (JSON.stringify(state) !== last) yield state;
    last = JSON.stringify(state);
    if (changed === undefined) return;
    await changed;
  }
}
