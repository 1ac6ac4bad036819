/**
 * The part of a run in which the upstream takes only so many writes an hour: what the upstream answers, what the
 * workers know of it, and whose queue an operator terminates. The hour is a short one, see short-hour.ts.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { requestQueueId } from '../../src/contract.js';
import type { ProjectBudget } from '../../src/config/fields.js';
import type { RateLimits } from '../../src/testing.js';
import { Draw } from './draw.js';

export interface ShortBudget {
  /** Creates, and messages, that the upstream takes from a project in an hour. */
  perHour: number;
  hourMs: number;
}

/** So few that dozens wait in each. */
export const PROJECTS_OF_SHORT_BUDGET = 4;
/** What an operator has set for each project, as a share of what the upstream takes; null where none is set. */
const SET_SHARES = [1, null, 1.5, 0.8];

export class ShortBudgetRun {
  readonly #seed: number;
  readonly #runName: string;
  readonly #budget: ShortBudget;
  readonly #draw: Draw;

  constructor(seed: number, runName: string, budget: ShortBudget) {
    this.#seed = seed;
    this.#runName = runName;
    this.#budget = budget;
    this.#draw = new Draw(seed, 'queues');
  }

  /** Writes the workers' file of budgets; returns what their environment holds of it. */
  async settings(folder: string): Promise<Record<string, string>> {
    const file = join(folder, 'budgets.json');
    const budgets: Record<string, ProjectBudget> = {};
    for (const [number, share] of SET_SHARES.entries()) {
      if (share === null) continue;
      const perHour = Math.max(1, Math.floor(share * this.#budget.perHour));
      budgets[this.#projectId(number)] = { createsPerHour: perHour, messagesPerHour: perHour };
    }
    await writeFile(file, JSON.stringify(budgets));
    return { PROJECT_BUDGETS_FILE: file };
  }

  /** What the upstream answers after its nth start: each start draws another kind of window, and of `Retry-After`. */
  rateLimits(start: number): RateLimits {
    const draw = new Draw(this.#seed, `limits ${start}`);
    const { perHour, hourMs } = this.#budget;
    return {
      create: perHour,
      message: perHour,
      windowMs: hourMs,
      window: draw.pick(['sliding', 'fixed']),
      retryAfter: draw.pick(['none', 'none', 'seconds', 'seconds']),
    };
  }

  /** Terminates one of the run's queues; false where it did not run. */
  async terminateQueue(client: Client): Promise<boolean> {
    const projectId = this.#projectId(this.#draw.between(0, PROJECTS_OF_SHORT_BUDGET - 1));
    const operation = this.#draw.pick(['create', 'message'] as const);
    try {
      await client.workflow.getHandle(requestQueueId({ operation, projectId })).terminate('the crash suite');
      return true;
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return false;
      throw error;
    }
  }

  #projectId(number: number): string {
    return `${this.#runName}-${number}`;
  }
}
