/** A run in which the upstream takes few writes an hour, and the workers know some of it. For the hour: builds.ts. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { requestQueueId } from '../../src/contract.js';
import type { RateLimits } from '../../src/testing.js';
import { Draw } from './draw.js';

export interface ShortBudget {
  /** Creates, and messages, that the upstream takes from a project in an hour. */
  perHour: number;
  hourMs: number;
}

/** So few that dozens of writes wait in each. */
export const PROJECTS_OF_SHORT_BUDGET = 4;
/** What an operator has set for each project, as a share of what the upstream takes; null if none is set. */
const SET_SHARES = [1, null, 1.5, 0.8];

/** Writes the workers' file of budgets; returns their settings. */
export async function budgetSettings(folder: string, runName: string, { perHour }: ShortBudget) {
  const file = join(folder, 'budgets.json');
  const budgets = SET_SHARES.flatMap((share, number) => {
    const set = Math.max(1, Math.floor((share ?? 0) * perHour));
    return share === null ? [] : [[`${runName}-${number}`, { createsPerHour: set, messagesPerHour: set }]];
  });
  await writeFile(file, JSON.stringify(Object.fromEntries(budgets)));
  return { PROJECT_BUDGETS_FILE: file };
}

/** What the upstream answers after its nth start: each start draws another kind of window, and of `Retry-After`. */
export function rateLimits(seed: number, start: number, { perHour, hourMs }: ShortBudget): RateLimits {
  const draw = new Draw(seed, `limits ${start}`);
  const window = draw.pick(['sliding', 'fixed'] as const);
  const retryAfter = draw.pick(['none', 'seconds'] as const);
  return { create: perHour, message: perHour, windowMs: hourMs, window, retryAfter };
}

/** Terminates one of the run's queues; false if it does not run. */
export async function terminateQueue(client: Client, runName: string, draw: Draw): Promise<boolean> {
  const projectId = `${runName}-${draw.between(0, PROJECTS_OF_SHORT_BUDGET - 1)}`;
  const queueId = requestQueueId({ operation: draw.pick(['create', 'message'] as const), projectId });
  try {
    await client.workflow.getHandle(queueId).terminate('the crash suite');
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}
