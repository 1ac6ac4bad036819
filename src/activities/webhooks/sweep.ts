/**
 * Finds events by what Temporal lists, so that none needs a worker that was there when it happened: jobs and exports
 * that closed, however, and jobs that wait for a person. What is announced again has the same id, and starts nothing.
 */
import { type Client, WorkflowExecutionAlreadyStartedError, type WorkflowExecutionInfo } from '@temporalio/client';
import { concurrently } from '../../client/concurrently.js';
import { TemporalJobHandle } from '../../client/agent-job/handle.js';
import { type JobSummary, listJobs, listRuns } from '../../client/agent-job/list.js';
import { nullIfGone } from '../../client/agent-job/run-record.js';
import { loggerOf } from '../../client/settings.js';
import { listWorkflows } from '../../client/temporal-call.js';
import { quoted } from '../../client/visibility-query.js';
import type { WebUi } from '../../client/web-ui.js';
import { VISITOR_EXPORT_WORKFLOW, visitorExportScheduleId } from '../../contract.js';
import {
  WEBHOOK_DELIVERY_WORKFLOW,
  type WebhookDelivery,
  webhookDeliveryId,
  type WebhookSweepState,
} from '../../contract/webhooks.js';
import { lenientWorkflowClient } from '../../temporal/workflow-clients.js';
import type { Endpoints } from './endpoints.js';
import { exportEnded, jobEnded, needsAttention } from './events.js';

type WebhookEvent = ReturnType<typeof jobEnded>;

interface SweepOptions {
  client: Client;
  /** Of the jobs. */
  taskQueue: string;
  endpoints: Endpoints;
  webUi: WebUi | null;
}

/** One look at Temporal's lists. */
interface Look {
  /** Milliseconds, by Temporal's clock or before it: a clock that is ahead would leave ends out. */
  now: number;
  /** Once it is aborted, nothing more is announced, and the look fails. */
  signal: AbortSignal;
}

/** So late an end may be listed, clocks that differ included. */
const OVERLAP_MS = 5 * 60_000;
/** But most are listed at once: so often all of that time is read again, else the last half minute. */
const READ_ALL_EVERY_MS = 60_000;
const LATELY_MS = 30_000;
/** After an outage, the ends of so long are announced in one look. */
const MAX_READ_MS = 60 * 60_000;
/** A job may be in doubt again between two looks at the list. */
const ASK_AGAIN_MS = 10_000;
/** For the state of one job. */
const ASK_LIMIT_MS = 5_000;
/** Runs, and deliveries, that this process knows to be told. */
const MOST_KNOWN = 100_000;
const PAGE_SIZE = 1_000;

/** Lives as long as the worker's process: what it knows to be told, it does not start again. */
export class EventSweep {
  readonly #options: SweepOptions;
  readonly #isOwn: string;
  readonly #known = new Set<string>();
  #readAllAt = -Infinity;
  /** When each job in doubt was asked last. */
  readonly #askedAt = new Map<string, number>();
  /** The round of questions that is under way; null where there is none. */
  #round: Promise<void> | null = null;
  /** What the last round failed with. */
  #failure: { error: unknown } | null = null;

  constructor(options: SweepOptions) {
    this.#options = options;
    this.#isOwn = `TaskQueue = ${quoted(options.taskQueue)}`;
  }

  /** Looks once, and returns how far it came. */
  async look(state: WebhookSweepState, { now, signal }: Look): Promise<WebhookSweepState> {
    const { endsFrom } = state;
    this.#askDoubts(signal);
    await this.#announceEnds(Math.max(endsFrom, now - LATELY_MS), null, signal);
    const isBehind = endsFrom + MAX_READ_MS < now;
    if (!isBehind && now - this.#readAllAt < READ_ALL_EVERY_MS) return state;
    await this.#announceEnds(endsFrom, isBehind ? endsFrom + MAX_READ_MS : null, signal);
    this.#readAllAt = now;
    const reached = isBehind ? endsFrom + MAX_READ_MS : now;
    return { ...state, endsFrom: Math.max(endsFrom, Math.min(reached, now - OVERLAP_MS)) };
  }

  async #announceEnds(from: number, until: number | null, signal: AbortSignal): Promise<void> {
    const { client } = this.#options;
    const times = `CloseTime >= ${timeOf(from)}${until === null ? '' : ` AND CloseTime < ${timeOf(until)}`}`;
    const jobs = listRuns(client, {}, { condition: `${times} AND ${this.#isOwn}`, pageSize: PAGE_SIZE });
    await each(jobs, signal, (job) => this.#announceJob(job));
    const isExport = `WorkflowType = ${quoted(VISITOR_EXPORT_WORKFLOW)} AND ExecutionStatus != 'ContinuedAsNew'`;
    const exports = listWorkflows(client, `${isExport} AND ${times} AND ${this.#isOwn}`, {});
    await each(exports, signal, (run) => this.#announceExport(run));
  }

  async #announceJob(job: JobSummary): Promise<void> {
    const { workflowId, runId, workflowStatus, endedAt } = job;
    if (endedAt === null || this.#known.has(runId)) return;
    if (!(await this.#isReset(workflowId, runId, workflowStatus))) await this.#announce(jobEnded(job));
    this.#remember(runId);
  }

  async #announceExport(run: WorkflowExecutionInfo): Promise<void> {
    const { workflowId, runId, status, parentExecution } = run;
    if (this.#known.has(runId)) return;
    // What another export had exported is told with that one's end.
    const isPart = parentExecution?.workflowId?.startsWith(visitorExportScheduleId('')) ?? false;
    if (!isPart && !(await this.#isReset(workflowId, runId, status.name))) {
      await this.#announce(await exportEnded(this.#options.client, run));
    }
    this.#remember(runId);
  }

  /** It was terminated to go on as another run. */
  async #isReset(workflowId: string, runId: string, status: string): Promise<boolean> {
    if (status !== 'TERMINATED') return false;
    const client = lenientWorkflowClient(this.#options.client);
    // One that is deleted meanwhile was none that went on.
    const run = await client.getHandle(workflowId, runId).describe().catch(nullIfGone);
    return Boolean(run?.raw.workflowExtendedInfo?.resetRunId);
  }

  /** Not awaited: a job that no worker answers holds no end up. The next look throws what a round failed with. */
  #askDoubts(signal: AbortSignal): void {
    const failure = this.#failure;
    this.#failure = null;
    if (failure !== null) throw failure.error;
    if (this.#round !== null) return;
    this.#round = this.#announceDoubts(signal)
      .catch((error: unknown) => {
        if (!signal.aborted) this.#failure = { error };
      })
      .finally(() => (this.#round = null));
  }

  async #announceDoubts(signal: AbortSignal): Promise<void> {
    const filter = { phase: 'needsAttention', isRunning: true } as const;
    const found = new Map<string, JobSummary>();
    const jobs = listJobs(this.#options.client, filter, { condition: this.#isOwn });
    for await (const job of jobs) found.set(job.workflowId, job);
    for (const id of this.#askedAt.keys()) if (!found.has(id)) this.#askedAt.delete(id);
    const isDue = (id: string) => performance.now() - (this.#askedAt.get(id) ?? -Infinity) >= ASK_AGAIN_MS;
    const due = [...found.values()].filter(({ workflowId }) => isDue(workflowId));
    await each(due, signal, (job) => this.#announceDoubt(job));
  }

  async #announceDoubt({ workflowId, runId }: JobSummary): Promise<void> {
    const { client, taskQueue, webUi } = this.#options;
    const timeoutMs = ASK_LIMIT_MS;
    const context = { client, taskQueue, webUi, hidePrompts: true, timeoutMs, logger: loggerOf(undefined) };
    // A job that does not answer is asked again with the next look.
    const state = await new TemporalJobHandle(context, workflowId).state().catch(() => null);
    if (state === null) return;
    const { projectId, outcome } = state;
    const unknown = outcome === null ? state.unknown : null;
    if (unknown) await this.#announce(needsAttention({ workflowId, runId, projectId, unknown }, webUi));
    this.#askedAt.set(workflowId, performance.now());
  }

  async #announce(event: WebhookEvent): Promise<void> {
    const { endpoints } = this.#options;
    for (const endpoint of await endpoints.of(event.projectId)) {
      if (!endpoint.events.includes(event.type)) continue;
      const { id, url } = endpoint;
      await this.#startDelivery(event, { id, origin: url.origin });
    }
  }

  async #startDelivery(event: WebhookEvent, endpoint: WebhookDelivery['endpoint']): Promise<void> {
    const { client, taskQueue } = this.#options;
    const { id: eventId, type, projectId, workflowId: of, body } = event;
    const workflowId = webhookDeliveryId(eventId, endpoint.id);
    if (this.#known.has(workflowId)) return;
    try {
      await client.workflow.start(WEBHOOK_DELIVERY_WORKFLOW, {
        workflowId,
        taskQueue,
        args: [{ eventId, type, projectId, endpoint, body } satisfies WebhookDelivery],
        workflowIdReusePolicy: 'REJECT_DUPLICATE',
        memo: { type, of, to: endpoint.origin },
        staticSummary: `${type} to ${endpoint.origin}`,
      });
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    }
    this.#remember(workflowId);
  }

  #remember(id: string): void {
    this.#known.add(id);
    if (this.#known.size > MOST_KNOWN) this.#known.delete(this.#known.values().next().value!);
  }
}

function timeOf(millis: number): string {
  return quoted(new Date(millis).toISOString());
}

/** Some at once. */
async function each<T>(
  items: Iterable<T> | AsyncIterable<T>,
  signal: AbortSignal,
  work: (item: T) => Promise<void>,
): Promise<void> {
  for await (const _ of concurrently(items, { signal }, work));
}
