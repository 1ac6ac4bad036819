/**
 * Finds events in Temporal's lists: jobs and exports that closed, and jobs that wait for a person. So no worker need be
 * there when an event happens. Each event is found many times with one id: the server starts no second delivery.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Context, log } from '@temporalio/activity';
import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { TemporalCallError } from '../../client/errors.js';
import { concurrently } from '../../client/concurrently.js';
import { jobHandle } from '../../client/agent-job/handle.js';
import { type JobSummary, listJobs, listRuns } from '../../client/agent-job/list.js';
import { nullIfGone } from '../../client/agent-job/run-record.js';
import { loggerOf } from '../../client/settings.js';
import { listWorkflows } from '../../client/temporal-call.js';
import { quoted } from '../../temporal/visibility.js';
import type { WebUi } from '../../client/web-ui.js';
import { VISITOR_EXPORT_WORKFLOW, visitorExportScheduleId } from '../../contract.js';
import { WEBHOOK_DELIVERY_WORKFLOW, type WebhookDelivery, type WebhookSweepState } from '../../contract/webhooks.js';
import { startClock } from '../../temporal/activity-attempt.js';
import { lenientWorkflowClient } from '../../temporal/workflow-clients.js';
import type { Endpoints } from './endpoints.js';
import { exportEnded, jobEnded, needsAttention, type WebhookEvent } from './events.js';

/** What a sweep works with. */
export interface SweepOptions {
  client: Client;
  taskQueue: string;
  endpoints: Endpoints;
  webUi: WebUi | null;
  onSearch: () => void;
  /** The number of ends that are asked for at a time, from one sweep to the next. */
  page?: { size: number };
  /** Ends the sweep: another worker goes on. */
  signal: AbortSignal;
}

/** After this time the workflow gets a newer state. */
const SWEEP_MS = 60_000;
const ENDS_EVERY_MS = 5_000;
const DOUBTS_EVERY_MS = 10_000;
const SWEEP_HEARTBEAT_MS = 5_000;
/** Temporal lists most ends at once, and the others within minutes. Each sweep reads those minutes once. */
const LATELY_MS = 30_000;
const MAX_LATE_MS = 5 * 60_000;
/** After an outage the ends are read hour by hour. */
const MAX_READ_MS = 60 * 60_000;
/** Limits the question for the state of one job. Fifty jobs are asked at once: some may not answer. */
const STATE_LIMIT_MS = 5_000;
const ASKED_AT_ONCE = 50;
const ANNOUNCED_AT_ONCE = 10;
const LIST_PAGE_SIZE = { min: 50, max: 1_000 };

/** Announces events for a minute, longer only to catch up. Returns how far all ends were read. */
export async function sweepEvents(options: SweepOptions, { endsFrom }: WebhookSweepState): Promise<WebhookSweepState> {
  const over = new AbortController();
  const signal = AbortSignal.any([options.signal, over.signal]);
  const sweep = new EventSweep({ ...options, signal }, endsFrom);
  const beats = setInterval(() => Context.current().heartbeat(), SWEEP_HEARTBEAT_MS);
  try {
    // Doubts have a loop of their own: a job whose workers do not answer delays no end.
    await Promise.race([sweep.announceEnds(), sweep.announceDoubts()]);
  } catch (error) {
    // What was read on the way is kept: the next sweep goes on from there.
    if (!options.signal.aborted && sweep.endsFrom === endsFrom) throw error;
  } finally {
    over.abort();
    clearInterval(beats);
  }
  return { endsFrom: sweep.endsFrom };
}

interface RunName {
  workflowId: string;
  runId: string;
}

class EventSweep {
  endsFrom: number;
  readonly #options: SweepOptions;
  readonly #now = startClock().server;
  readonly #page: { size: number };

  constructor(options: SweepOptions, endsFrom: number) {
    this.#options = options;
    this.endsFrom = endsFrom;
    this.#page = options.page ?? { size: LIST_PAGE_SIZE.max };
    this.#page.size = Math.min(2 * this.#page.size, LIST_PAGE_SIZE.max);
  }

  /** Reads all ends since `endsFrom` once, and then new ones again and again. */
  async announceEnds(): Promise<void> {
    const endsAt = this.#now() + SWEEP_MS;
    const first = this.endsFrom;
    let [from, isBehind] = [first, true];
    for (let now = this.#now(); now < endsAt; now = this.#now()) {
      const until = from + MAX_READ_MS;
      await this.#inSmallerPages(() => this.#announceEndsBetween(from, until < now ? until : null));
      this.#options.onSearch();
      if (isBehind) this.endsFrom = Math.max(this.endsFrom, Math.min(until, now - MAX_LATE_MS));
      isBehind &&= until < now;
      from = isBehind ? until : Math.max(first, now - LATELY_MS);
      if (!isBehind) await this.#pause(ENDS_EVERY_MS);
    }
  }

  /** Asks the jobs that wait for a person, again and again: one that does not answer is asked in the next round. */
  async announceDoubts(): Promise<never> {
    const { client, webUi } = this.#options;
    const context = { ...this.#options, hidePrompts: true, timeoutMs: STATE_LIMIT_MS, logger: loggerOf(undefined) };
    for (;;) {
      const doubts: JobSummary[] = [];
      const listed = listJobs(client, { phase: 'needsAttention', isRunning: true }, { condition: this.#isOwn });
      // In a random order: jobs that do not answer must not be the first ones each time.
      for await (const job of listed) doubts.splice(Math.random() * (doubts.length + 1), 0, job);
      await this.#each(doubts, ASKED_AT_ONCE, async ({ workflowId, runId }) => {
        const state = await jobHandle(context, workflowId)
          .state()
          .catch(() => null);
        if (!state?.unknown || state.outcome !== null) return;
        const { projectId, unknown } = state;
        const job = { workflowId, runId, projectId, unknown };
        await this.#announceBuilt(job, () => needsAttention(job, webUi));
      });
      await this.#pause(DOUBTS_EVERY_MS);
    }
  }

  /** A page that a slow server does not list in time is asked for again in halves. */
  async #inSmallerPages(announce: () => Promise<void>): Promise<void> {
    try {
      await announce();
    } catch (error) {
      this.#options.signal.throwIfAborted();
      if (!(error instanceof TemporalCallError) || this.#page.size === LIST_PAGE_SIZE.min) throw error;
      this.#page.size = Math.max(Math.floor(this.#page.size / 2), LIST_PAGE_SIZE.min);
      log.warn('The ends of runs could not be listed: smaller pages are asked for', { error, page: this.#page.size });
      await this.#inSmallerPages(announce);
    }
  }

  async #announceEndsBetween(from: number, until: number | null): Promise<void> {
    const { client } = this.#options;
    const before = until === null ? '' : ` AND CloseTime < ${timeOf(until)}`;
    const condition = `CloseTime >= ${timeOf(from)}${before} AND ${this.#isOwn}`;
    const pageSize = this.#page.size;
    const jobs = listRuns(client, {}, { condition, pageSize });
    await this.#each(jobs, ANNOUNCED_AT_ONCE, async (job) => {
      if (job.endedAt === null || (await this.#isReset(job, job.workflowStatus))) return;
      await this.#announceBuilt(job, () => jobEnded(job));
    });
    const isExport = `WorkflowType = ${quoted(VISITOR_EXPORT_WORKFLOW)} AND ExecutionStatus != 'ContinuedAsNew'`;
    const exports = listWorkflows(client, `${isExport} AND ${condition}`, { pageSize });
    await this.#each(exports, ANNOUNCED_AT_ONCE, async (run) => {
      // The export that started this one has this result in its own end.
      if (run.parentExecution?.workflowId?.startsWith(visitorExportScheduleId(''))) return;
      if (await this.#isReset(run, run.status.name)) return;
      await this.#announceBuilt(run, () => exportEnded(client, run));
    });
  }

  /** A run that a stranger gave an odd memo or result costs its own event alone. */
  async #announceBuilt(
    { workflowId, runId }: RunName,
    build: () => WebhookEvent | Promise<WebhookEvent>,
  ): Promise<void> {
    let event: WebhookEvent;
    try {
      event = await build();
    } catch (error) {
      if (error instanceof TemporalCallError) throw error;
      log.error('An event could not be built, and is passed over', { ofWorkflow: workflowId, ofRun: runId, error });
      return;
    }
    await this.#announce(event);
  }

  /** Whether a reset terminated the run, so that another run goes on. */
  async #isReset(run: RunName, status: string): Promise<boolean> {
    if (status !== 'TERMINATED') return false;
    const handle = lenientWorkflowClient(this.#options.client).getHandle(run.workflowId, run.runId);
    const description = await handle.describe().catch(nullIfGone);
    return Boolean(description?.raw.workflowExtendedInfo?.resetRunId);
  }

  async #announce({ id: eventId, type, projectId, workflowId: of, body }: WebhookEvent): Promise<void> {
    const { client, endpoints, taskQueue } = this.#options;
    for (const { id, url, events } of await endpoints.of(projectId)) {
      if (!events.includes(type)) continue;
      const delivery: WebhookDelivery = { eventId, projectId, endpoint: { id, origin: url.origin }, body };
      const started = client.workflow.start(WEBHOOK_DELIVERY_WORKFLOW, {
        workflowId: `webhook/${eventId}/${id}`,
        taskQueue,
        args: [delivery],
        workflowIdReusePolicy: 'REJECT_DUPLICATE',
        memo: { type, of, to: url.origin },
        staticSummary: `${type} to ${url.origin}`,
      });
      await started.catch((error: unknown) => {
        if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      });
    }
  }

  async #each<T>(
    items: Iterable<T> | AsyncIterable<T>,
    limit: number,
    work: (item: T) => Promise<void>,
  ): Promise<void> {
    for await (const _ of concurrently(items, { limit, signal: this.#options.signal }, work));
  }

  #pause(ms: number): Promise<void> {
    return delay(ms, undefined, { signal: this.#options.signal });
  }

  get #isOwn(): string {
    return `TaskQueue = ${quoted(this.#options.taskQueue)}`;
  }
}

function timeOf(millis: number): string {
  return quoted(new Date(millis).toISOString());
}
