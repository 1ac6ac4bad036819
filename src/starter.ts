/** What services import: start or attach a job, steer it, and wait for its end. No side effect on import. */
import type { Client, ConnectionOptions } from '@temporalio/client';
import {
  agentJobWorkflowId,
  attachedJobWorkflowId,
  DEFAULT_TASK_QUEUE,
  type AgentJobInput,
  type AttachJobInput,
  type VisitorExportRangeInput,
} from './contract.js';
import { agentJobStartOptions, checkKey } from './agent-job/start-options.js';
import { listAttention, type AttentionItem } from './client/agent-job/attention.js';
import { JobHandle } from './client/agent-job/handle.js';
import { listJobs, type JobFilter, type JobSummary } from './client/agent-job/list.js';
import { startMany, type StartFate, type StartItem, type StartManyOptions } from './client/agent-job/start-many.js';
import { startJob } from './client/agent-job/start-or-join.js';
import { listQueues, type QueueFilter, type QueueReport } from './client/agent-job/queue.js';
import { listStuck, type StuckJob } from './client/agent-job/stuck-jobs.js';
import { connectClient } from './client/connection.js';
import { START_TIMEOUT_MS, temporalCall, type CallOptions } from './client/temporal-call.js';
import {
  JobScheduleHandle,
  ensureJobSchedule,
  listJobSchedules,
  type JobSchedule,
} from './client/recurring-job/schedule.js';
import type { JobScheduleSettings } from './client/recurring-job/schedule-spec.js';
import { startVisitorExport, type VisitorExportHandle } from './client/visitor-export/handle.js';
import type { ExportScheduleSettings } from './client/visitor-export/schedule-spec.js';
import { ensureExportSchedule } from './client/visitor-export/schedule.js';
import { webUiOf, type WebUi } from './client/web-ui.js';

export * from './contract.js';
export { inputHash } from './agent-job/input.js';
export { agentJobStartOptions, type AgentJobPlace, type AgentJobStartOptions } from './agent-job/start-options.js';
export type { AttentionItem } from './client/agent-job/attention.js';
export type { FollowUpOptions } from './client/agent-job/follow-up.js';
export { JobHandle } from './client/agent-job/handle.js';
export type { JobFilter, JobSummary } from './client/agent-job/list.js';
export type { QueueFilter, QueueReport } from './client/agent-job/queue.js';
export type { StartFate, StartManyOptions } from './client/agent-job/start-many.js';
export type { StuckJob } from './client/agent-job/stuck-jobs.js';
export * from './client/errors.js';
export type { RecurringRunSummary } from './client/recurring-job/runs.js';
export { JobScheduleHandle, type JobSchedule } from './client/recurring-job/schedule.js';
export { checkJobSchedule, type JobScheduleSettings } from './client/recurring-job/schedule-spec.js';
export type { CallOptions, WaitOptions } from './client/temporal-call.js';
export type { VisitorExportHandle } from './client/visitor-export/handle.js';
export * from './client/visitor-export/schedule.js';
export { checkExportSchedule, type ExportScheduleSettings } from './client/visitor-export/schedule-spec.js';
export { jobUrl, listUrl, webUiOf, webUiViews, type WebUi, type WebUiView } from './client/web-ui.js';
export { ConfigError, type ConfigProblem } from './config/config-error.js';
export { InvalidInputError } from './contract/input-checks.js';
export { ensureSearchAttributes, SearchAttributesRefusedError } from './temporal/search-attributes.js';

/** A job to start; the same key and input again answer with the same job. */
export type StartRequest = AgentJobInput & { key: string };

/** A job to attach to; without a key, attaching to the same job again answers with the same workflow. */
export type AttachRequest = AttachJobInput & { key?: string | undefined };

/** Where to connect; what is left out comes from the environment or the Temporal profile that it names. */
export interface ConnectSettings {
  /** `host:port`; else `TEMPORAL_ADDRESS` or the profile. */
  address?: string | undefined;
  /** Else `TEMPORAL_NAMESPACE` or the profile. */
  namespace?: string | undefined;
  /** Where the workers listen; else `AGENT_JOBS_TASK_QUEUE`. */
  taskQueue?: string | undefined;
  /** The address of Temporal's web UI, for links; else `AGENT_JOBS_WEB_UI_URL`, or its usual place. */
  webUiUrl?: string | undefined;
}

/** What to work over, where a service brings its own client. */
export interface AgentJobsSettings {
  client: Client;
  /** Where the workers listen; default `agent-jobs`. */
  taskQueue?: string | undefined;
  /** The address of Temporal's web UI, for links; default: that of Temporal Cloud, or of a dev server. */
  webUiUrl?: string | undefined;
}

/** The way in to agent jobs, over one Temporal client. */
export class AgentJobs {
  readonly client: Client;
  readonly taskQueue: string;
  /** Where Temporal's web UI shows the jobs; null where its address is neither given nor usual. */
  readonly webUi: WebUi | null;
  #closeConnection: (() => Promise<void>) | undefined;

  constructor({ client, taskQueue, webUiUrl }: AgentJobsSettings) {
    this.client = client;
    this.taskQueue = taskQueue ?? DEFAULT_TASK_QUEUE;
    this.webUi = webUiOf(client, webUiUrl);
  }

  /**
   * Connects as the standard `TEMPORAL_*` settings say, each overridden by what is given; call `close` at the end.
   * Throws ConfigError, which names each wrong setting, or, within seconds, TemporalCallError.
   */
  static async connect(settings: ConnectSettings = {}): Promise<AgentJobs> {
    // Loaded here: a caller that brings its own client needs no reader of the environment.
    const { readClientConfig } = await import('./config/client.js');
    const { temporal, taskQueue, webUiUrl } = readClientConfig();
    const connected = await connectClient({
      address: settings.address ?? temporal.address,
      namespace: settings.namespace ?? temporal.namespace,
      taskQueue: settings.taskQueue ?? taskQueue,
      connectionOptions: temporal.connectionOptions as ConnectionOptions,
    });
    const jobs = new AgentJobs({ ...connected, webUiUrl: settings.webUiUrl ?? webUiUrl });
    jobs.#closeConnection = connected.close;
    return jobs;
  }

  /** Closes the connection that `connect` opened; a client of the caller's own stays open. */
  async close(): Promise<void> {
    await this.#closeConnection?.();
  }

  /**
   * Starts a job, or answers with the one that this key and input already name. Throws InvalidInputError before
   * anything is sent, and KeyConflictError where the key names a job with another input.
   */
  async start({ key, ...input }: StartRequest, options: CallOptions = {}): Promise<JobHandle> {
    const startOptions = agentJobStartOptions(input, { key: checkKey(key), taskQueue: this.taskQueue });
    return startJob(this.client, startOptions, options);
  }

  /**
   * Starts many jobs, or joins those that are there, and tells the fate of each request as it comes. The same requests
   * again start nothing new. What is no valid request is told as refused. Throws where Temporal is away for long, or
   * refuses the caller: the same call then goes on.
   */
  startMany(
    requests: Iterable<StartRequest> | AsyncIterable<StartRequest>,
    options: StartManyOptions = {},
  ): AsyncIterable<StartFate> {
    return startMany(this, inPlaces(requests), options);
  }

  /** Attaches to a job that exists upstream already. Throws InvalidInputError, and KeyConflictError as `start` does. */
  async attach({ key, ...input }: AttachRequest, options: CallOptions = {}): Promise<JobHandle> {
    return startJob(this.client, agentJobStartOptions(input, { key, taskQueue: this.taskQueue }), options);
  }

  /** The handle of a workflow id, of a project's key, or of an attached job's id; sends no request. */
  handle(job: string | { projectId: string; key: string } | { projectId: string; jobId: string }): JobHandle {
    return new JobHandle(this.client, typeof job === 'string' ? job : workflowIdOf(job));
  }

  /** Lists jobs as Temporal's visibility shows them; `timeoutMs` is for each page. */
  list(filter: JobFilter = {}, options: CallOptions = {}): AsyncIterable<JobSummary> {
    return listJobs(this.client, filter, options);
  }

  /** Lists the running jobs that wait for a person, each with its write in doubt; `timeoutMs` is for each request. */
  needsAttention(options: CallOptions = {}): AsyncIterable<AttentionItem> {
    return listAttention(this.client, options);
  }

  /**
   * Lists running jobs that make no progress because their workflow task fails again and again, and the queues,
   * recurring jobs and exports of which the same is true. Servers from 1.30 on mark them after 5 failures; of the
   * others the newest 200 jobs are read, and as many of the rest. `timeoutMs` is for each request.
   */
  stuck(options: CallOptions = {}): AsyncIterable<StuckJob> {
    return listStuck(this.client, options);
  }

  /**
   * Reads the queues in which writes wait for their turn: of one project, or all of the namespace, with that of the
   * exports. None where the upstream holds nothing back and no budget is set. `timeoutMs` is for each request.
   */
  queues(filter: QueueFilter = {}, options: CallOptions = {}): AsyncIterable<QueueReport> {
    return listQueues(this.client, filter, options);
  }

  /** Starts the export of a date range into a snapshot, or joins the one that is running. Throws InvalidInputError. */
  exportVisitors(range: VisitorExportRangeInput, options: CallOptions = {}): Promise<VisitorExportHandle> {
    const start = () => startVisitorExport(this.client, this.taskQueue, range);
    return temporalCall(this.client, startLimits(options), start);
  }

  /**
   * Creates the Schedule of a project's nightly exports, or changes what is given; a paused one stays paused. Throws
   * InvalidInputError.
   */
  ensureExportSchedule(settings: ExportScheduleSettings, options: CallOptions = {}): Promise<'created' | 'updated'> {
    const ensure = () => ensureExportSchedule(this.client, this.taskQueue, settings);
    return temporalCall(this.client, startLimits(options), ensure);
  }

  /**
   * Creates a recurring job, or changes what is given of it; a paused one stays paused. Throws InvalidInputError, with
   * Temporal's own words where the server refuses a cron expression.
   */
  async schedule(settings: JobScheduleSettings, options: CallOptions = {}): Promise<JobScheduleHandle> {
    const ensure = () => ensureJobSchedule(this.client, this.taskQueue, settings);
    const done = await temporalCall(this.client, startLimits(options), ensure);
    return new JobScheduleHandle(this.client, settings, done === 'created');
  }

  /** The handle of a recurring job; sends no request. Throws InvalidInputError. */
  recurring(job: { projectId: string; name: string }): JobScheduleHandle {
    return new JobScheduleHandle(this.client, job);
  }

  /** Reads all recurring jobs, or those of one project, by project and name. */
  schedules(filter: { projectId?: string | undefined } = {}, options: CallOptions = {}): Promise<JobSchedule[]> {
    return listJobSchedules(this.client, filter, options);
  }
}

async function* inPlaces(requests: Iterable<unknown> | AsyncIterable<unknown>): AsyncGenerator<StartItem> {
  let index = 0;
  for await (const request of requests) yield { index: index++, request };
}

/** A start may read what runs already, and try again. */
function startLimits({ signal, timeoutMs = START_TIMEOUT_MS }: CallOptions): CallOptions {
  return { signal, timeoutMs };
}

function workflowIdOf(job: { projectId: string; key: string } | { projectId: string; jobId: string }): string {
  return 'key' in job ? agentJobWorkflowId(job.projectId, job.key) : attachedJobWorkflowId(job.projectId, job.jobId);
}
