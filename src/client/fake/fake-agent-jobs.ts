/**
 * The client without Temporal, for callers' unit tests: it checks what the real one checks, with the same code, and
 * refuses what it refuses with the same errors.
 */
import { randomUUID } from 'node:crypto';
import { parseAttribution, parseFollowUp } from '../../agent-job/input.js';
import { agentJobStartOptions, type AgentJobStartOptions, checkKey } from '../../agent-job/start-options.js';
import { agentJobOf, DEFAULT_TASK_QUEUE, type JobState, MEMO, type VisitorExportRangeInput } from '../../contract.js';
import { type AttentionItem, listAttention } from '../agent-job/attention.js';
import type { StuckJob } from '../agent-job/stuck-jobs.js';
import { FOLLOW_UP_OPTIONS, type FollowUpOptions } from '../agent-job/follow-up.js';
import { type JobHandle, workflowIdOf } from '../agent-job/handle.js';
import { isAsked, type JobFilter, jobQuery, type JobSummary } from '../agent-job/job-summary.js';
import {
  checkPageSize,
  type JobCount,
  type JobPage,
  PAGE_OPTIONS,
  type PageOptions,
  readCursor,
  toCursor,
  wrongCursor,
} from '../agent-job/list.js';
import type { QueueFilter, QueueReport } from '../agent-job/queue.js';
import { inPlaces, startEach, type StartFate, type StartManyOptions } from '../agent-job/start-many.js';
import { JobNotFoundError, KeyConflictError } from '../errors.js';
import {
  ATTRIBUTION_OPTIONS,
  checkNames,
  checkRequest,
  checkResolution,
  INPUT_OPTIONS,
  type InputOptions,
} from '../known-fields.js';
import type { AttachRequest, ClientContext, ConnectSettings, JobName, StartRequest } from '../settings.js';
import { type CallOptions, checkLimits, checkWaitOptions, type WaitOptions } from '../temporal-call.js';
import { rangeExportStart, type VisitorExportHandle } from '../visitor-export/handle.js';
import type { WebUi } from '../web-ui.js';
import { FakeExport } from './fake-export.js';
import { FakeJob } from './fake-job.js';

export { FakeExport } from './fake-export.js';
export { FakeJob, type FakeFollowUp } from './fake-job.js';

/** What `AgentJobs` does with jobs and exports: type a parameter with this, and both fit. */
export interface AgentJobsLike {
  readonly taskQueue: string;
  readonly hidePrompts: boolean;
  readonly webUi: WebUi | null;
  start(request: StartRequest, options?: CallOptions & InputOptions): Promise<JobHandle>;
  startMany(
    requests: Iterable<StartRequest> | AsyncIterable<StartRequest>,
    options?: StartManyOptions,
  ): AsyncIterable<StartFate>;
  attach(request: AttachRequest, options?: CallOptions & InputOptions): Promise<JobHandle>;
  handle(job: JobName): JobHandle;
  list(filter?: JobFilter, options?: CallOptions): AsyncIterable<JobSummary>;
  listPage(filter?: JobFilter, options?: PageOptions): Promise<JobPage>;
  count(filter?: JobFilter, options?: CallOptions): Promise<JobCount>;
  needsAttention(options?: CallOptions): AsyncIterable<AttentionItem>;
  stuck(options?: CallOptions): AsyncIterable<StuckJob>;
  queues(filter?: QueueFilter, options?: CallOptions): AsyncIterable<QueueReport>;
  exportVisitors(range: VisitorExportRangeInput, options?: CallOptions): Promise<VisitorExportHandle>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Jobs in memory. A job is active until the test says through `job` what happens to it. */
export class FakeAgentJobs implements AgentJobsLike {
  readonly taskQueue: string;
  readonly hidePrompts: boolean;
  /** There is no web UI. */
  readonly webUi: WebUi | null = null;
  readonly #place: Pick<ClientContext, 'taskQueue' | 'hidePrompts'>;
  readonly #jobs = new Map<string, FakeJob>();
  readonly #exports: FakeExport[] = [];
  #started = 0;

  constructor(settings: Pick<ConnectSettings, 'taskQueue' | 'hidePrompts'> = {}) {
    checkNames(settings, 'setting', { taskQueue: true, hidePrompts: true });
    const { taskQueue, hidePrompts } = settings;
    this.taskQueue = taskQueue ?? DEFAULT_TASK_QUEUE;
    this.hidePrompts = hidePrompts ?? false;
    this.#place = { taskQueue: this.taskQueue, hidePrompts: this.hidePrompts };
  }

  /** Every job that was started or attached to, the oldest first. */
  get jobs(): readonly FakeJob[] {
    return [...this.#jobs.values()];
  }

  /** Every export that was started, the oldest first. */
  get exports(): readonly FakeExport[] {
    return this.#exports;
  }

  /** The job behind a handle or a name, for the test; throws where there is none. */
  job(job: JobName | Pick<JobHandle, 'workflowId'>): FakeJob {
    const workflowId = typeof job === 'object' && 'workflowId' in job ? job.workflowId : workflowIdOf(job);
    const found = this.#jobs.get(workflowId);
    if (found === undefined) throw new JobNotFoundError(workflowId, 'no such workflow');
    return found;
  }

  /** As `AgentJobs.start`. */
  async start(request: StartRequest, options: CallOptions & InputOptions = {}): Promise<JobHandle> {
    const { key, ...input } = checkRequest<StartRequest>(request, options);
    return this.#start(agentJobStartOptions(input, { ...this.#place, key: checkKey(key) }), options);
  }

  /** As `AgentJobs.startMany`. */
  startMany(
    requests: Iterable<StartRequest> | AsyncIterable<StartRequest>,
    options: StartManyOptions = {},
  ): AsyncIterable<StartFate> {
    const start = async (wanted: AgentJobStartOptions) => ({ isNew: this.#startOrJoin(wanted) });
    return startEach(start, this.#place, inPlaces(requests), options);
  }

  /** As `AgentJobs.attach`. */
  async attach(request: AttachRequest, options: CallOptions & InputOptions = {}): Promise<JobHandle> {
    const { key, ...input } = checkRequest<AttachRequest>(request, options);
    return this.#start(agentJobStartOptions(input, { ...this.#place, key }), options);
  }

  /** As `AgentJobs.handle`. */
  handle(job: JobName): JobHandle {
    return this.#handle(workflowIdOf(job));
  }

  /** As `AgentJobs.list`; without the moment that Temporal lags behind. */
  async *list(filter: JobFilter = {}, options: CallOptions = {}): AsyncGenerator<JobSummary, void, undefined> {
    checkLimits(options);
    yield* rowsOf(this.jobs, filter).map(({ row }) => row);
  }

  /** As `AgentJobs.listPage`. */
  async listPage(filter: JobFilter = {}, options: PageOptions = {}): Promise<JobPage> {
    checkLimits(options, PAGE_OPTIONS);
    return fakePage(this.jobs, filter, options);
  }

  /** As `AgentJobs.count`. */
  async count(filter: JobFilter = {}, options: CallOptions = {}): Promise<JobCount> {
    checkLimits(options);
    return countFake(this.jobs, filter);
  }

  /** As `AgentJobs.needsAttention`: the jobs with a write that `doubt` left in doubt. */
  needsAttention(options: CallOptions = {}): AsyncIterable<AttentionItem> {
    return listAttention(this, options);
  }

  /** None: no job is stuck without a server. */
  stuck(options: CallOptions = {}): AsyncIterable<StuckJob> {
    return nothing(options);
  }

  /** None: every write has its turn at once. */
  queues(filter: QueueFilter = {}, options: CallOptions = {}): AsyncIterable<QueueReport> {
    checkNames(filter, 'filter', { projectId: true });
    return nothing(options);
  }

  /** As `AgentJobs.exportVisitors`; the test ends what is in `exports`. */
  async exportVisitors(range: VisitorExportRangeInput, options: CallOptions = {}): Promise<VisitorExportHandle> {
    checkLimits(options);
    const { workflowId, input } = rangeExportStart(range);
    const running = this.#exports.find((one) => one.workflowId === workflowId && !one.hasEnded);
    if (running) return running.handle;
    const started = new FakeExport(workflowId, input);
    this.#exports.push(started);
    return started.handle;
  }

  /** Does nothing. */
  async close(): Promise<void> {}

  /** Does nothing. */
  async [Symbol.asyncDispose](): Promise<void> {}

  #start(wanted: AgentJobStartOptions, options: CallOptions): JobHandle {
    checkLimits(options, INPUT_OPTIONS);
    const isNew = this.#startOrJoin(wanted);
    return this.#handle(wanted.workflowId, isNew);
  }

  /** Whether it is new. Throws KeyConflictError. */
  #startOrJoin(wanted: AgentJobStartOptions): boolean {
    const { workflowId } = wanted;
    const there = this.#jobs.get(workflowId);
    if (!there || there.allowed === 'start again') {
      this.#jobs.set(workflowId, new FakeJob(wanted, `job_${++this.#started}`));
      return true;
    }
    if (there.inputHash === wanted.memo[MEMO.inputHash]) return false;
    const text = `this key names a job with another input (job ${there.state.jobId}): use another key for a new job`;
    throw new KeyConflictError(workflowId, text);
  }

  #handle(workflowId: string, isNew?: boolean): JobHandle {
    return fakeHandle(workflowId, () => this.job({ workflowId }), isNew);
  }
}

async function* nothing(options: CallOptions): AsyncGenerator<never, void, undefined> {
  checkLimits(options);
  yield* [];
}

// The handle of a fake job: it checks what the real one checks, and asks the job itself.

/** Each call looks for the job anew: `jobOf` throws JobNotFoundError. */
function fakeHandle(workflowId: string, jobOf: () => FakeJob, isNew?: boolean): JobHandle {
  const send = (prompt: string, options: FollowUpOptions = {}) => {
    const { id, prompt: text } = parseFollowUp({
      prompt,
      id: options.id ?? randomUUID(),
      priority: options.priority,
    });
    checkLimits(options, FOLLOW_UP_OPTIONS);
    return jobOf().send(id ?? '', text, options.onlyWhileRunning ?? false);
  };
  const resolve: JobHandle['resolve'] = async (resolution, options = {}) => {
    const checked = checkResolution(resolution);
    checkLimits(options);
    const job = jobOf();
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
      return jobOf().state;
    },
    pollNow: async (options = {}) => {
      parseAttribution(options);
      checkLimits(options, ATTRIBUTION_OPTIONS);
      jobOf().checkRuns();
    },
    resolve,
    cancel: async (options = {}) => {
      parseAttribution(options);
      checkLimits(options, ATTRIBUTION_OPTIONS);
      jobOf().cancel();
    },
    result: async (options) => {
      checkWaitOptions(options);
      return jobOf().ended(options?.signal);
    },
    watch: (options) => watchFake(jobOf, options),
  };
}

/** Each state, until the run is over. */
async function* watchFake(jobOf: () => FakeJob, options: WaitOptions = {}): AsyncGenerator<JobState, void> {
  checkWaitOptions(options);
  const { signal } = options;
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

// Lists of fake jobs: what the real client's lists show of the same jobs, in the same order.

/** Some rows. Throws InvalidInputError. */
function fakePage(
  jobs: readonly FakeJob[],
  filter: JobFilter,
  { pageSize, cursor }: Pick<PageOptions, 'pageSize' | 'cursor'>,
): JobPage {
  const size = checkPageSize(pageSize);
  const after = cursor == null ? Infinity : Number(Buffer.from(readCursor(cursor)));
  if (Number.isNaN(after)) throw wrongCursor();
  const rows = rowsOf(jobs, filter).filter(({ order }) => order < after);
  const page = rows.slice(0, size);
  const token = new Uint8Array(Buffer.from(String(page.at(-1)?.order)));
  const nextCursor = rows.length > size ? toCursor(token) : null;
  return { jobs: page.map(({ row }) => row), nextCursor };
}

/** Counts each run. Throws InvalidInputError. */
function countFake(jobs: readonly FakeJob[], filter: JobFilter): JobCount {
  jobQuery(filter);
  const runs = jobs.flatMap((job) => [job, ...job.earlierRuns]).map(({ summary }) => summary);
  const found = runs.filter((run) => isAsked(run, filter));
  const byStatus: Record<string, number> = {};
  for (const { workflowStatus } of found) byStatus[workflowStatus] = (byStatus[workflowStatus] ?? 0) + 1;
  return { total: found.length, byStatus };
}

/** More than all starts and ends. */
const OPEN = 2 ** 40;

interface Row {
  row: JobSummary;
  /** The greatest comes first. */
  order: number;
}

/** One row a job, by its newest run that fits: those that run first, the newest first, then the others by their end. */
function rowsOf(jobs: readonly FakeJob[], filter: JobFilter): Row[] {
  jobQuery(filter);
  const rows = jobs.flatMap((job) => {
    const run = [job, ...job.earlierRuns].find(({ summary }) => isAsked(summary, filter));
    if (!run) return [];
    const isOpen = run.summary.workflowStatus === 'RUNNING';
    return [{ row: run.summary, order: Number(isOpen) * OPEN + run.move }];
  });
  return rows.toSorted((a, b) => b.order - a.order);
}
