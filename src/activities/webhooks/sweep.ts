/**
 * Finds events in Temporal's lists: jobs and exports that closed, and jobs that wait for a person. So no worker need be
 * there when an event happens. Each event is found many times with one id: the server refuses a second delivery.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
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
import { WEBHOOK_DELIVERY_WORKFLOW, type WebhookDelivery, type WebhookSweepState } from '../../contract/webhooks.js';
import { startClock } from '../../temporal/activity-attempt.js';
import { lenientWorkflowClient } from '../../temporal/workflow-clients.js';
import type { Endpoints } from './endpoints.js';
import { exportEnded, jobEnded, needsAttention } from './events.js';

/** What a sweep works with. */
export interface SweepOptions {
  client: Client;
  /** The task queue of the jobs. */
  taskQueue: string;
  endpoints: Endpoints;
  webUi: WebUi | null;
  /** Called after each search for new ends. */
  onLook: () => void;
  /** Ends the sweep: another worker goes on. */
  signal: AbortSignal;
}

/** After so long the workflow gets a newer state. */
const SWEEP_MS = 60_000;
const NEW_ENDS_EVERY_MS = 5_000;
const DOUBTS_EVERY_MS = 10_000;
const HEARTBEAT_MS = 5_000;
/** Temporal lists most ends at once, and the others within minutes. A sweep reads those minutes once. */
const LATELY_MS = 30_000;
const MAX_LATE_MS = 5 * 60_000;
/** After an outage the ends are read hour by hour. */
const MAX_READ_MS = 60 * 60_000;
/** Limits the question for the state of one job. */
const ASK_LIMIT_MS = 5_000;
const PAGE_SIZE = 1_000;

/**
 * Announces events for a minute. All ends since `endsFrom` are read once, new ends and doubts again and again. Returns
 * how far the ends were read.
 */
export async function sweepEvents(options: SweepOptions, { endsFrom }: WebhookSweepState): Promise<WebhookSweepState> {
  const over = new AbortController();
  const signal = AbortSignal.any([options.signal, over.signal]);
  const sweep = new EventSweep({ ...options, signal }, endsFrom);
  const beats = setInterval(() => Context.current().heartbeat(), HEARTBEAT_MS);
  try {
    await Promise.race([
      Promise.all([sweep.readAll(), delay(SWEEP_MS, undefined, { signal })]),
      sweep.repeat(NEW_ENDS_EVERY_MS, () => sweep.readNew()),
      // Doubts have a loop of their own: a job whose workers do not answer holds up no end.
      sweep.repeat(DOUBTS_EVERY_MS, () => sweep.readDoubts()),
    ]);
  } catch (error) {
    if (!options.signal.aborted) throw error;
  } finally {
    over.abort();
    clearInterval(beats);
  }
  return { endsFrom: sweep.endsFrom };
}

class EventSweep {
  endsFrom: number;
  readonly #options: SweepOptions;
  readonly #now = startClock().server;

  constructor(options: SweepOptions, endsFrom: number) {
    this.#options = options;
    this.endsFrom = endsFrom;
  }

  /** Does the work again and again until the signal. */
  async repeat(pauseMs: number, work: () => Promise<void>): Promise<never> {
    for (;;) {
      await work();
      await delay(pauseMs, undefined, { signal: this.#options.signal });
    }
  }

  async readAll(): Promise<void> {
    const endsAt = this.#now() + SWEEP_MS;
    for (let isBehind = true; isBehind && this.#now() < endsAt;) {
      const now = this.#now();
      const until = this.endsFrom + MAX_READ_MS;
      isBehind = until < now;
      await this.#announceEnds(this.endsFrom, isBehind ? until : null);
      this.endsFrom = Math.max(this.endsFrom, Math.min(until, now - MAX_LATE_MS));
    }
  }

  async readNew(): Promise<void> {
    await this.#announceEnds(Math.max(this.endsFrom, this.#now() - LATELY_MS), null);
    this.#options.onLook();
  }

  async readDoubts(): Promise<void> {
    const filter = { phase: 'needsAttention', isRunning: true } as const;
    const doubts: { job: JobSummary; order: number }[] = [];
    for await (const job of listJobs(this.#options.client, filter, { condition: this.#isOwn })) {
      doubts.push({ job, order: Math.random() });
    }
    doubts.sort((a, b) => a.order - b.order); // jobs that do not answer must not stand first each time
    await this.#each(doubts, async ({ job: { workflowId, runId } }) => {
      const context = { ...this.#options, hidePrompts: true, timeoutMs: ASK_LIMIT_MS, logger: loggerOf(undefined) };
      // A job that does not answer is asked again in the next round.
      const state = await new TemporalJobHandle(context, workflowId).state().catch(() => null);
      if (!state?.unknown || state.outcome !== null) return;
      const { projectId, unknown } = state;
      await this.#announce(needsAttention({ workflowId, runId, projectId, unknown }, this.#options.webUi));
    });
  }

  async #announceEnds(from: number, until: number | null): Promise<void> {
    const { client } = this.#options;
    const before = until === null ? '' : ` AND CloseTime < ${timeOf(until)}`;
    const condition = `CloseTime >= ${timeOf(from)}${before} AND ${this.#isOwn}`;
    await this.#each(listRuns(client, {}, { condition, pageSize: PAGE_SIZE }), async (job: JobSummary) => {
      if (job.endedAt !== null && !(await this.#isReset(job, job.workflowStatus))) await this.#announce(jobEnded(job));
    });
    const isExport = `WorkflowType = ${quoted(VISITOR_EXPORT_WORKFLOW)} AND ExecutionStatus != 'ContinuedAsNew'`;
    await this.#each(listWorkflows(client, `${isExport} AND ${condition}`, {}), async (run: WorkflowExecutionInfo) => {
      // The export that started this one has this result in its own end.
      if (run.parentExecution?.workflowId?.startsWith(visitorExportScheduleId(''))) return;
      if (!(await this.#isReset(run, run.status.name))) await this.#announce(await exportEnded(client, run));
    });
  }

  /** Whether a reset terminated the run, so that another run goes on. */
  async #isReset(run: { workflowId: string; runId: string }, status: string): Promise<boolean> {
    if (status !== 'TERMINATED') return false;
    const handle = lenientWorkflowClient(this.#options.client).getHandle(run.workflowId, run.runId);
    const description = await handle.describe().catch(nullIfGone);
    return Boolean(description?.raw.workflowExtendedInfo?.resetRunId);
  }

  async #announce({ id: eventId, type, projectId, workflowId: of, body }: ReturnType<typeof jobEnded>): Promise<void> {
    const { client, endpoints, taskQueue } = this.#options;
    for (const { id, url, events } of await endpoints.of(projectId)) {
      if (!events.includes(type)) continue;
      const delivery: WebhookDelivery = { eventId, projectId, endpoint: { id, origin: url.origin }, body };
      const started = client.workflow.start(WEBHOOK_DELIVERY_WORKFLOW, {
        ...{ workflowId: `webhook/${eventId}/${id}`, taskQueue, args: [delivery] },
        workflowIdReusePolicy: 'REJECT_DUPLICATE',
        memo: { type, of, to: url.origin },
        staticSummary: `${type} to ${url.origin}`,
      });
      await started.catch((error: unknown) => {
        if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      });
    }
  }

  /** Works on some items at once. */
  async #each<T>(items: Iterable<T> | AsyncIterable<T>, work: (item: T) => Promise<void>): Promise<void> {
    for await (const _ of concurrently(items, this.#options, work));
  }

  get #isOwn(): string {
    return `TaskQueue = ${quoted(this.#options.taskQueue)}`;
  }
}

function timeOf(millis: number): string {
  return quoted(new Date(millis).toISOString());
}
