/**
 * Finds events by what Temporal lists, so that none needs a worker that was there when it happened: jobs and exports
 * that closed, however, and jobs that wait for a person. What is announced again has the same id, and starts nothing.
 */
import {
  type Client,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
  type WorkflowExecutionInfo,
} from '@temporalio/client';
import { concurrently } from '../../client/concurrently.js';
import { JobNotFoundError } from '../../client/errors.js';
import { TemporalJobHandle } from '../../client/agent-job/handle.js';
import { listJobs } from '../../client/agent-job/list.js';
import { loggerOf } from '../../client/settings.js';
import { listWorkflows } from '../../client/temporal-call.js';
import { quoted } from '../../client/visibility-query.js';
import type { WebUi } from '../../client/web-ui.js';
import { type JobState, VISITOR_EXPORT_WORKFLOW } from '../../contract.js';
import {
  type AnnouncedDoubt,
  WEBHOOK_DELIVERY_WORKFLOW,
  type WebhookDelivery,
  webhookDeliveryId,
  type WebhookSweepState,
} from '../../contract/webhooks.js';
import type { Endpoints } from './endpoints.js';
import { exportEnded, jobEnded, needsAttention, settled } from './events.js';

type WebhookEvent = ReturnType<typeof jobEnded>;

interface SweepOptions {
  client: Client;
  /** Of the jobs. */
  taskQueue: string;
  endpoints: Endpoints;
  webUi: WebUi | null;
}

/** So late an end may be listed, clocks that differ included. */
const OVERLAP_MS = 5 * 60_000;
/** A job may be settled and in doubt again between two looks at the list. */
const ASK_AGAIN_MS = 60_000;
/** They are in the state, which has a limit; others are announced as these are settled. */
const MOST_DOUBTS = 500;
/** Deliveries that this process knows to be started. */
const MOST_KNOWN = 20_000;
const PAGE_SIZE = 1_000;

export class EventSweep {
  readonly #options: SweepOptions;
  readonly #isOwn: string;
  readonly #known = new Set<string>();
  /** When each job in doubt was asked last. */
  readonly #askedAt = new Map<string, number>();

  constructor(options: SweepOptions) {
    this.#options = options;
    this.#isOwn = `TaskQueue = ${quoted(options.taskQueue)}`;
  }

  /**
   * Looks once. `keep` makes a state outlast this process: a doubt is announced once it is kept, so that whoever goes
   * on from there tells that it is settled.
   */
  async look(state: WebhookSweepState, keep: (state: WebhookSweepState) => Promise<void>): Promise<WebhookSweepState> {
    const startedAt = Date.now();
    await this.#announceEnds(new Date(state.endsFrom));
    const endsFrom = Math.max(state.endsFrom, startedAt - OVERLAP_MS);
    const doubts = await this.#announceDoubts(state.doubts, (now) => keep({ endsFrom, doubts: now }));
    return { endsFrom, doubts };
  }

  async #announceEnds(from: Date): Promise<void> {
    const { client } = this.#options;
    const jobs = listJobs(client, { closedAfter: from }, { condition: this.#isOwn, pageSize: PAGE_SIZE });
    for await (const job of jobs) if (job.closedAt !== null) await this.#announce(jobEnded(job));
    const closed = `ExecutionStatus != 'ContinuedAsNew' AND CloseTime >= ${quoted(from.toISOString())}`;
    const query = `WorkflowType = ${quoted(VISITOR_EXPORT_WORKFLOW)} AND ${closed} AND ${this.#isOwn}`;
    for await (const run of listWorkflows(client, query, {})) {
      // What another run had exported is told with that one's end.
      if (!run.parentExecution) await this.#announceExport(run);
    }
  }

  async #announceExport(run: WorkflowExecutionInfo): Promise<void> {
    if (this.#known.has(run.runId)) return;
    await this.#announce(await exportEnded(this.#options.client, run));
    this.#remember(run.runId);
  }

  async #announceDoubts(
    before: readonly AnnouncedDoubt[],
    keep: (doubts: AnnouncedDoubt[]) => Promise<void>,
  ): Promise<AnnouncedDoubt[]> {
    const { webUi } = this.#options;
    const doubts = new Map(before.map((doubt) => [doubt.workflowId, doubt]));
    const found: AnnouncedDoubt[] = [];
    for await (const { workflowId, state } of this.#asked(doubts)) {
      const old = doubts.get(workflowId);
      const present = state?.outcome === null ? state.unknown : null;
      if (old && old.unknown.since !== present?.since) {
        await this.#announce(settled(old, state?.decisions ?? [], webUi));
        doubts.delete(workflowId);
        this.#askedAt.delete(workflowId);
      }
      if (!present || doubts.has(workflowId) || doubts.size === MOST_DOUBTS) continue;
      const doubt = { workflowId, runId: state!.runId, projectId: state!.projectId, unknown: present };
      doubts.set(workflowId, doubt);
      found.push(doubt);
    }
    const now = [...doubts.values()];
    if (found.length > 0) await keep(now);
    for (const doubt of found) await this.#announce(needsAttention(doubt, webUi));
    return now;
  }

  /** Asks the jobs whose doubt may have changed; a state is null of a job that is gone. */
  async *#asked(doubts: ReadonlyMap<string, AnnouncedDoubt>) {
    const { client } = this.#options;
    const ids = new Set<string>();
    const filter = { phase: 'needsAttention', isRunning: true } as const;
    for await (const { workflowId } of listJobs(client, filter, { condition: this.#isOwn })) ids.add(workflowId);
    const isDue = (id: string) => Date.now() - (this.#askedAt.get(id) ?? 0) >= ASK_AGAIN_MS;
    const due = [...ids].filter((id) => !doubts.has(id) || isDue(id));
    const gone = [...doubts.keys()].filter((id) => !ids.has(id));
    for await (const asked of concurrently([...due, ...gone], {}, (id) => this.#ask(id))) if (asked) yield asked;
  }

  /** Null where nobody answers: it is asked again. */
  async #ask(workflowId: string): Promise<{ workflowId: string; state: (JobState & { runId: string }) | null } | null> {
    const { client, taskQueue, webUi } = this.#options;
    const context = { client, taskQueue, webUi, hidePrompts: true, timeoutMs: undefined, logger: loggerOf(undefined) };
    try {
      const state = await new TemporalJobHandle(context, workflowId).state();
      const { runId } = await client.workflow.getHandle(workflowId).describe();
      this.#askedAt.set(workflowId, Date.now());
      return { workflowId, state: { ...state, runId } };
    } catch (error) {
      const isGone = error instanceof JobNotFoundError || error instanceof WorkflowNotFoundError;
      return isGone ? { workflowId, state: null } : null;
    }
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
