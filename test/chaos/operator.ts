import { setTimeout as pause } from 'node:timers/promises';
import type { AgentJobs, AttentionItem } from '../../src/starter.js';
import type { ResolveUnknownInput, InDoubtWrite } from '../../src/contract.js';
import type { UpstreamJournal } from './upstream-journal.js';
import { Draw } from './draw.js';

/** A request that was given up a moment ago may still be on its way to the upstream's journal. */
const LOOK_AFTER_MS = 3_000;
/** The wait if nothing says when a look can be trusted. */
const MAX_LOOK_AFTER_MS = 120_000;
const BETWEEN_ROUNDS_MS = 1_000;

/** An unknown write as the list of what needs attention showed it. */
interface ShownUnknown {
  workflowId: string;
  unknown: InDoubtWrite;
  action: string;
}

interface OperatorOptions {
  jobs: AgentJobs;
  journal: UpstreamJournal;
  /** Prompt of a create by workflow id, and of a follow-up by its id. */
  promptOf: (workflowId: string, followUpId: string | undefined) => string;
  /** Throws if the upstream is down. */
  isUpstreamUp: () => Promise<unknown>;
  seed: number;
  /**
   * Whether to wait until a look upstream can be trusted: only a worker that was suspended can send later than the
   * usual moment.
   */
  waitsToLook: boolean;
}

/** A person who settles every unknown write of this run truthfully, after a look into the upstream's journal. */
export class Operator {
  readonly shown = new Map<string, ShownUnknown>();
  readonly #options: OperatorOptions;
  #isClosing = false;
  #working: Promise<void> | undefined;

  constructor(options: OperatorOptions) {
    this.#options = options;
  }

  start(): void {
    this.#working = this.#work();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#working;
  }

  async #work(): Promise<void> {
    while (!this.#isClosing) {
      // While Temporal or all workers are away there is nothing to list; the next round will.
      await this.#round().catch(() => {});
      await pause(BETWEEN_ROUNDS_MS);
    }
  }

  async #round(): Promise<void> {
    const settled: Promise<void>[] = [];
    for await (const item of this.#options.jobs.needsAttention()) {
      const { workflowId, unknown } = item;
      const isOurs = this.#options.promptOf(workflowId, undefined) !== '';
      if (!isOurs || !unknown || Date.now() < this.#lookAfter(unknown)) continue;
      settled.push(this.#settle(item).catch(() => {}));
    }
    await Promise.all(settled);
  }

  #lookAfter({ since, lookAfter }: InDoubtWrite & { lookAfter?: string }): number {
    const soon = Date.parse(since) + LOOK_AFTER_MS;
    if (!this.#options.waitsToLook) return soon;
    return lookAfter === undefined ? Date.parse(since) + MAX_LOOK_AFTER_MS : Math.max(soon, Date.parse(lookAfter));
  }

  async #settle({ workflowId, jobId, unknown }: AttentionItem): Promise<void> {
    if (!unknown) return;
    await this.#options.isUpstreamUp();
    this.#options.journal.refresh();
    const decision = this.#decide(workflowId, jobId, unknown);
    const { since, followUpId = null } = unknown;
    this.shown.set(`${workflowId} ${since}`, { workflowId, unknown, action: decision.action });
    const job = this.#options.jobs.handle(workflowId);
    await job.resolve({ ...decision, since, followUpId }, { signal: AbortSignal.timeout(30_000) });
  }

  #decide(workflowId: string, jobId: string | null, { kind, followUpId, since }: InDoubtWrite): ResolveUnknownInput {
    const { journal, promptOf, seed } = this.#options;
    const draw = new Draw(seed, `operator ${workflowId} ${followUpId} ${since}`);
    const prompt = promptOf(workflowId, followUpId);
    if (draw.chance(0.04)) return { action: 'abandon' };
    if (kind === 'create') {
      const [created] = journal.jobsOfPrompt.get(prompt) ?? [];
      return created === undefined ? { action: 'retry' } : { action: 'adopt', jobId: created };
    }
    const isDelivered = journal.messagesOfJob.get(jobId ?? '')?.includes(prompt);
    return { action: isDelivered ? 'delivered' : 'retry' };
  }
}
