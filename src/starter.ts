/** What services import: start or attach a job, steer it, and wait for its end. No side effect on import. */
import type { Client, ConnectionOptions } from '@temporalio/client';
import { DEFAULT_TASK_QUEUE, type VisitorExportRangeInput } from './contract.js';
import { agentJobStartOptions, checkKey } from './agent-job/start-options.js';
import { type AttentionItem, listAttention, listStuck, type StuckJob } from './client/agent-job/attention.js';
import { jobHandle, type JobHandle, startHandle, workflowIdOf } from './client/agent-job/handle.js';
import { listJobs, PAGE_OPTIONS, readJobPage } from './client/agent-job/list.js';
import type { JobFilter, JobPage, JobSummary, PageOptions } from './client/agent-job/list.js';
import { inPlaces, startMany, type StartOutcome, type StartManyOptions } from './client/agent-job/start-many.js';
import { listQueues, type QueueFilter, type QueueReport } from './client/agent-job/queue.js';
import { connectClient } from './client/connection.js';
import {
  type AgentJobsSettings,
  type AttachRequest,
  type CallOptions,
  checkNames,
  checkRequest,
  type ClientContext,
  CONNECT_SETTINGS,
  type ConnectSettings,
  converterOf,
  type InputOptions,
  type JobName,
  limitsOf,
  loggerOf,
  OWN_CLIENT_SETTINGS,
  type StartRequest,
} from './client/settings.js';
import { checkTimeout, START_TIMEOUT_MS, temporalCall } from './client/temporal-call.js';
import { startVisitorExport, type VisitorExportHandle } from './client/visitor-export/handle.js';
import { scheduleExports, listExportSchedules } from './client/visitor-export/schedule.js';
import type { ExportSchedule, ExportScheduleSettings } from './client/visitor-export/schedule.js';
import { webUiOf, type WebUi } from './client/web-ui.js';

export type { AgentJobResult, JobState } from './contract.js';
export type { AttentionItem, StuckJob } from './client/agent-job/attention.js';
export type { FollowUpOptions } from './client/agent-job/follow-up.js';
export type { JobHandle } from './client/agent-job/handle.js';
export type { JobFilter, JobSummary } from './client/agent-job/list.js';
export type { QueueReport } from './client/agent-job/queue.js';
export type { StartOutcome } from './client/agent-job/start-many.js';
export { agentJobSchedule, type AgentJobSchedule } from './client/agent-job/schedule.js';
export * from './client/errors.js';
export type {
  AttachRequest,
  CallOptions,
  ConnectSettings,
  InputOptions,
  Logger,
  StartRequest,
} from './client/settings.js';
export type { VisitorExportHandle } from './client/visitor-export/handle.js';
export type { ExportSchedule, ExportScheduleSettings } from './client/visitor-export/schedule.js';
export { ConfigError } from './config/config-error.js';
export { ensureSearchAttributes, SearchAttributesRefusedError } from './temporal/search-attributes.js';

/** The way in to agent jobs, over one Temporal client. */
export class AgentJobs {
  readonly client: Client;
  readonly taskQueue: string;
  /** Temporal's web UI of the jobs; null if its address is not given, but on Temporal Cloud. */
  readonly webUi: WebUi | null;
  /** Whether lists and pages name jobs by their keys, and show nothing of prompts. */
  readonly hidePrompts: boolean;
  readonly #context: ClientContext;
  #close = async (): Promise<void> => {};

  /** Throws InvalidInputError. */
  constructor(settings: AgentJobsSettings) {
    checkNames(settings, 'setting', OWN_CLIENT_SETTINGS);
    const { client, taskQueue, webUiUrl, hidePrompts, timeoutMs, logger } = settings;
    this.client = client;
    this.hidePrompts = hidePrompts ?? false;
    this.taskQueue = taskQueue ?? DEFAULT_TASK_QUEUE;
    this.webUi = webUiOf(client, webUiUrl ?? undefined);
    const limit = timeoutMs == null ? undefined : checkTimeout(timeoutMs);
    const shown = { taskQueue: this.taskQueue, webUi: this.webUi, hidePrompts: this.hidePrompts };
    this.#context = { client, ...shown, timeoutMs: limit, logger: loggerOf(logger) };
  }

  /**
   * Connects as the standard `TEMPORAL_*` settings say, each overridden by what is given; call `close` at the end, or
   * declare it with `await using`. Throws InvalidInputError, ConfigError, which names each wrong setting, or, within 4
   * seconds unless a limit is given, TemporalCallError.
   */
  static async connect(settings: ConnectSettings = {}, options: CallOptions = {}): Promise<AgentJobs> {
    checkNames(settings, 'setting', CONNECT_SETTINGS);
    // Loaded here: a caller that brings its own client needs no reader of the environment.
    const { readClientConfig } = await import('./config/client.js');
    const { temporal, hasPayloadKeys, ...usual } = readClientConfig(undefined, settings.address);
    const { client, close } = await connectClient({
      ...settings,
      address: temporal.address,
      namespace: settings.namespace ?? temporal.namespace,
      connectionOptions: temporal.connectionOptions as ConnectionOptions,
      dataConverter: converterOf(settings, hasPayloadKeys),
      ...limitsOf({ timeoutMs: settings.timeoutMs ?? undefined }, options),
    });
    const jobs = new AgentJobs({
      client,
      taskQueue: settings.taskQueue ?? usual.taskQueue,
      webUiUrl: settings.webUiUrl ?? usual.webUiUrl,
      hidePrompts: settings.hidePrompts ?? usual.hidePrompts,
      timeoutMs: settings.timeoutMs,
      logger: settings.logger,
    });
    jobs.#close = close;
    return jobs;
  }

  /** Closes the connection that `connect` opened; a client of the caller's own stays open. */
  async close(): Promise<void> {
    await this.#close();
  }

  /** For `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * Starts a job, or answers with the one that this key and input already name. Throws InvalidInputError before
   * anything is sent, and KeyConflictError if the key names a job with another input.
   */
  async start(request: StartRequest, options: CallOptions & InputOptions = {}): Promise<JobHandle> {
    const { key, ...input } = checkRequest<StartRequest>(request, options);
    const wanted = agentJobStartOptions(input, { ...this.#context, key: checkKey(key) });
    return startHandle(this.#context, wanted, options);
  }

  /**
   * Starts many jobs, or joins those that are there, and yields the outcome of each request, in order. The same
   * requests again start nothing new. An invalid one has the fate `refused`. Throws if Temporal is away for two
   * minutes, or refuses the caller: the same call then goes on.
   */
  startMany(
    requests: Iterable<StartRequest> | AsyncIterable<StartRequest>,
    options: StartManyOptions = {},
  ): AsyncIterable<StartOutcome> {
    return startMany(this.#context, inPlaces(requests), options ?? {});
  }

  /** Attaches to a job that exists upstream already. Throws InvalidInputError, and KeyConflictError as `start` does. */
  async attach(request: AttachRequest, options: CallOptions & InputOptions = {}): Promise<JobHandle> {
    const { key, ...input } = checkRequest<AttachRequest>(request, options);
    return startHandle(this.#context, agentJobStartOptions(input, { ...this.#context, key }), options);
  }

  /** A handle by workflow id, by a project's key, or an attached job's id. Sends nothing. Throws InvalidInputError. */
  handle(job: JobName): JobHandle {
    return jobHandle(this.#context, workflowIdOf(job));
  }

  /** Lists jobs as Temporal's visibility shows them, one row a job; `timeoutMs` is for each request. */
  list(filter: JobFilter = {}, options: CallOptions = {}): AsyncIterable<JobSummary> {
    return listJobs(this.client, filter ?? {}, this.#limits(options));
  }

  /** Reads one page of `list`; its `nextCursor` is where the next one begins. Throws InvalidInputError. */
  async listPage(filter: JobFilter = {}, options: PageOptions = {}): Promise<JobPage> {
    return readJobPage(this.client, filter ?? {}, { ...options, ...this.#limits(options, PAGE_OPTIONS) });
  }

  /** Lists the running jobs that wait for a person, each with its write in doubt; `timeoutMs` is for each request. */
  needsAttention(options: CallOptions = {}): AsyncIterable<AttentionItem> {
    return listAttention(this.#context, this.#limits(options));
  }

  /**
   * Lists open workflows that make no progress: they are paused, Temporal marks them because their workflow task fails
   * (from server 1.30 on), or they are pinned to a version without workers. A worker that ended counts for 90 seconds.
   * `timeoutMs` is for each request.
   */
  stuck(options: CallOptions = {}): AsyncIterable<StuckJob> {
    return listStuck(this.client, this.#limits(options));
  }

  /**
   * Reads the queues in which writes wait for their turn: of one project, or all of the namespace, with that of the
   * exports. None if the upstream holds nothing back and no budget is set. `timeoutMs` is for each request.
   */
  queues(filter: QueueFilter = {}, options: CallOptions = {}): AsyncIterable<QueueReport> {
    return listQueues(this.client, filter ?? {}, this.#limits(options));
  }

  /** Starts the export of a date range into a snapshot, or joins the one that is running. Throws InvalidInputError. */
  async exportVisitors(range: VisitorExportRangeInput, options: CallOptions = {}): Promise<VisitorExportHandle> {
    const start = () => startVisitorExport(this.#context, range);
    return temporalCall(this.client, this.#limits(options, {}, START_TIMEOUT_MS), start);
  }

  /** Makes or changes the Schedule of a project's nightly exports; a paused one stays so. Throws InvalidInputError. */
  async scheduleExports(
    settings: ExportScheduleSettings,
    options: CallOptions = {},
  ): Promise<ExportSchedule & { isNew: boolean }> {
    const ensure = () => scheduleExports(this.client, this.taskQueue, settings);
    return temporalCall(this.client, this.#limits(options, {}, START_TIMEOUT_MS), ensure);
  }

  /** Reads the Schedules of all projects' nightly exports, by project. */
  async exportSchedules(options: CallOptions = {}): Promise<ExportSchedule[]> {
    return listExportSchedules(this.client, this.#limits(options));
  }

  #limits(options: CallOptions, more?: object, defaultMs?: number): CallOptions {
    return limitsOf(this.#context, options, more, defaultMs);
  }
}
