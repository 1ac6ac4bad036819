/** What a worker reports of budgets to the queues that run, while Temporal answers only some of its calls. */
import type { Client } from '@temporalio/client';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { BudgetedWrites } from '../../src/activities/agent-job/budgets.js';
import { requestQueueId } from '../../src/contract.js';
import { watchBudgets } from '../../src/worker/budget-news.js';

const MINUTE = 60_000;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A worker on a Temporal server that lists `running`, and refuses signals to `silent`. */
function watch({ running, silent = [] }: { running: string[] | null; silent?: string[] }) {
  const reports: string[] = [];
  const warn = vi.fn<() => void>();
  let changes: BudgetedWrites[] = [];
  const signal = (id: string) =>
    silent.includes(id) ? Promise.reject(new Error('no')) : Promise.resolve(void reports.push(id));
  const workflow = {
    list: async function* () {
      await Promise.resolve();
      if (running === null) throw new Error('visibility is away');
      for (const workflowId of running) yield { workflowId };
    },
    getHandle: (id: string) => ({ signal: () => signal(id) }),
  };
  const client = { workflow, withDeadline: (_: unknown, work: () => unknown) => work() } as unknown as Client;
  const budgets = { changes: () => Promise.resolve(changes.splice(0)), of: () => Promise.resolve(100) };
  const stop = watchBudgets({ client, taskQueue: 'q', budgets, log: { warn } });
  const change = (...projectIds: string[]) => {
    changes = projectIds.map((projectId) => ({ operation: 'create', projectId }));
  };
  return { reports, warn, change, stop };
}

const queueOf = (projectId: string) => requestQueueId({ operation: 'create', projectId });

test('a changed budget is reported while Temporal lists no workflows', async () => {
  const { reports, warn, change, stop } = watch({ running: null });
  await vi.advanceTimersByTimeAsync(MINUTE);
  change('p');
  await vi.advanceTimersByTimeAsync(MINUTE);
  stop();
  expect(reports).toEqual([queueOf('p')]);
  expect(warn).toHaveBeenCalledTimes(1);
});

test('a queue that takes no report keeps none from the others, and is told again', async () => {
  const silent = [queueOf('odd')];
  const { reports, change, stop } = watch({ running: [], silent });
  await vi.advanceTimersByTimeAsync(MINUTE);
  change('odd', 'p');
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(reports).toEqual([queueOf('p')]);
  silent.pop();
  await vi.advanceTimersByTimeAsync(MINUTE);
  stop();
  expect(reports).toEqual([queueOf('p'), queueOf('odd')]);
});
