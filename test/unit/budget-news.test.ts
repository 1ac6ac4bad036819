/** Which queues a worker tells of its budgets, and when. */
import { Client, WorkflowNotFoundError, type Connection } from '@temporalio/client';
import { expect, test, vi } from 'vitest';
import type { BudgetedWrites } from '../../src/activities/agent-job/budgets.js';
import type { BudgetFacts } from '../../src/contract.js';
import { BudgetNews } from '../../src/worker/queue-news.js';

const RUNS = new AbortController().signal;
const MINUTE = 60_000;

/** A worker over queues that take what they are told, unless `refuse` throws. */
function worker() {
  const told: string[] = [];
  const clock = { now: 0 };
  const set = new Map<string, BudgetFacts>();
  let changed: BudgetedWrites[] = [];
  const refuse = vi.fn<(workflowId: string) => void>();
  const client = new Client({ connection: {} as Connection });
  vi.spyOn(client, 'withDeadline').mockImplementation((_, work) => work());
  vi.spyOn(client.workflow, 'getHandle').mockImplementation(
    (workflowId) =>
      ({
        signal: (_: unknown, { turn, outcome, perHour }: Record<string, unknown>) => {
          refuse(workflowId);
          expect([turn, outcome]).toEqual([null, 'unsent']);
          told.push(`${workflowId} ${String(perHour)}`);
        },
      }) as never,
  );
  vi.spyOn(client.workflow, 'list').mockImplementation(async function* () {} as never);
  const news = new BudgetNews({
    client,
    taskQueue: 'q',
    budgets: {
      changes: () => Promise.resolve(changed.splice(0)),
      facts: (_, projectId) => Promise.resolve(set.get(projectId) ?? { perHour: null }),
    },
    log: { debug: () => {}, warn: () => {} },
    now: () => clock.now,
  });
  const change = (projectIds: string[], facts: BudgetFacts) => {
    for (const projectId of projectIds) set.set(projectId, facts);
    changed = projectIds.map((projectId) => ({ operation: 'create', projectId }));
  };
  return { news, told, clock, change, refuse };
}

const many = (count: number) => Array.from({ length: count }, (_, index) => `p${index}`);

test('whatever has changed, a look tells few, and each is told once', async () => {
  const { news, told, change } = worker();
  change(many(60), { perHour: 7 });
  const counts: number[] = [];
  for (let look = 0; look < 4; look++) {
    await news.look(RUNS);
    counts.push(told.length);
  }
  expect(counts).toEqual([25, 50, 60, 60]);
  expect(told.toSorted()).toEqual(
    many(60)
      .map((projectId) => `request-queue/${projectId}/create 7`)
      .toSorted(),
  );
});

test('what changes again before it is told is told as it is then', async () => {
  const { news, told, change, refuse } = worker();
  refuse.mockImplementationOnce(() => {
    throw new Error('away');
  });
  change(['p'], { perHour: 7 });
  await expect(news.look(RUNS)).rejects.toThrow('away');
  change(['p'], { perHour: null, isUnlimited: true });
  await news.look(RUNS);
  await news.look(RUNS);
  expect(told).toEqual(['request-queue/p/create null']);
});

test('one that takes no message is told later and keeps no other up, and one that does not run is left', async () => {
  const { news, told, change, refuse } = worker();
  refuse.mockImplementation((workflowId) => {
    if (workflowId.includes('/stuck/')) throw new Error('its history is full');
    if (workflowId.includes('/none/')) throw new WorkflowNotFoundError('no such queue', workflowId, undefined);
  });
  change(['none', 'stuck', 'p'], { perHour: 7 });
  for (let look = 0; look < 3; look++) await expect(news.look(RUNS)).rejects.toThrow('its history is full');
  expect(told).toEqual(['request-queue/p/create 7']);
  expect(refuse.mock.calls.filter(([workflowId]) => workflowId.includes('/none/'))).toHaveLength(1);
  refuse.mockReset();
  await news.look(RUNS);
  expect(told).toEqual(['request-queue/p/create 7', 'request-queue/stuck/create 7']);
});

test('that none is set any more is told when a queue believes it', async () => {
  const { news, told, clock, change } = worker();
  change(['p'], { perHour: null });
  await news.look(RUNS);
  clock.now += 16 * MINUTE;
  await news.look(RUNS);
  expect(told).toEqual([]);
  clock.now += MINUTE;
  await news.look(RUNS);
  expect(told).toEqual(['request-queue/p/create null']);
});
