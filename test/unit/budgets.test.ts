/** The budgets that are set, and what a worker reports of them to the queues that run. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { Budgets } from '../../src/activities/agent-job/budgets.js';
import { type BudgetFacts, requestQueueId } from '../../src/contract.js';
import { watchBudgets, watchBudgetUse } from '../../src/worker/budgets.js';
import type { Meters } from '../../src/worker/metrics.js';
import { newFolder } from '../support/folder.js';

const folder = newFolder();

test('the file wins over what is set for all, where one of them says that any number may be sent', async () => {
  const path = join(folder, 'unlimited.json');
  const file = { any: { createsPerHour: 'unlimited' }, few: { messagesPerHour: 3, createsPerDay: 50 } };
  await writeFile(path, JSON.stringify(file));
  const forAll = { createsPerHour: 9, createsPerDay: 90, messagesPerHour: 'unlimited' } as const;
  const budgets = new Budgets({ ...forAll, projectBudgetsFile: path });
  const of = (project: string) => Promise.all([budgets.of('create', project), budgets.of('message', project)]);
  expect([await of('any'), await of('few')]).toEqual([
    [
      { perHour: 'unlimited', perDay: 90 },
      { perHour: 'unlimited', perDay: null },
    ],
    [
      { perHour: 9, perDay: 50 },
      { perHour: 3, perDay: null },
    ],
  ]);
  expect(await new Budgets().of('create', 'any')).toEqual({ perHour: null, perDay: null });
});

test('each new problem of the file is reported once, and its last good content holds', async () => {
  const path = join(folder, 'budgets.json');
  const problems: (string | null)[] = [];
  const options = { onProblem: (problem: string | null) => void problems.push(problem), checkEveryMs: 0 };
  const budgets = new Budgets({ projectBudgetsFile: path }, options);
  await expect(budgets.of('create', 'p')).rejects.toThrow(`PROJECT_BUDGETS_FILE ${path} cannot be read (ENOENT)`);
  await writeFile(path, '{"p": {"createsPerHour": 7}}');
  const seven = { perHour: 7, perDay: null };
  expect(await budgets.of('create', 'p')).toEqual(seven);
  const wrong = {
    '{': 'it is not valid JSON',
    '{"p": {"createsPerHour": 0}}': 'project "p", createsPerHour: should be a whole number above 0, or "unlimited"',
    '{"p": {"creates": 5}}':
      'project "p": should be an object with createsPerHour, createsPerDay, messagesPerHour or messagesPerDay, ' +
      'and no other field',
    '[]': 'it should hold a JSON object by projectId',
  };
  for (const content of Object.keys(wrong)) {
    await writeFile(path, content);
    for (let asked = 0; asked < 2; asked++) expect(await budgets.of('create', 'p')).toEqual(seven);
  }
  const told = (why: string) => `PROJECT_BUDGETS_FILE ${path} is wrong: ${why}; its last good content holds`;
  expect(problems).toEqual([null, ...Object.values(wrong).map(told)]);
});

describe('the queues that run', () => {
  const MINUTE = 60_000;
  afterEach(() => {
    vi.useRealTimers();
  });

  /** A worker on a Temporal server that lists `running`, and takes no signals to `silent`. */
  function watch(running: string[], silent: string[] = []) {
    vi.useFakeTimers();
    const reports: string[] = [];
    const warn = vi.fn<() => void>();
    const server = { isListing: true };
    let projects = new Map<string, number>();
    const signal = (id: string, { perHour, perDay }: BudgetFacts) =>
      silent.includes(id)
        ? Promise.reject(new Error('no'))
        : Promise.resolve(void reports.push(`${id} ${perHour} ${perDay}`));
    const workflow = {
      list: async function* () {
        await Promise.resolve();
        if (!server.isListing) throw new Error('visibility is away');
        for (const workflowId of running) yield { workflowId };
      },
      getHandle: (id: string) => ({ signal: (_: unknown, report: BudgetFacts) => signal(id, report) }),
    };
    const client = { workflow, withDeadline: (_: unknown, work: () => unknown) => work() } as unknown as Client;
    const budgets = {
      ofProjects: () => Promise.resolve(projects as Map<string, never>),
      of: (_: unknown, projectId: string) => Promise.resolve({ perHour: 1, perDay: projects.get(projectId) ?? 9 }),
    };
    const stop = watchBudgets({ client, taskQueue: 'q', log: { warn } }, budgets);
    const change = (given: Record<string, number>) => (projects = new Map(Object.entries(given)));
    return { reports, warn, server, change, stop };
  }

  const queueOf = (projectId: string) => requestQueueId({ operation: 'create', projectId });

  test('all know the budgets of a worker that starts, however many, and each change that concerns them', async () => {
    const running = Array.from({ length: 250 }, (_, index) => queueOf(`p${index}`));
    const { reports, warn, server, change, stop } = watch([...running, 'request-queue/visitors']);
    await vi.advanceTimersByTimeAsync(MINUTE);
    expect(reports.splice(0)).toEqual(running.map((id) => `${id} 1 9`));
    server.isListing = false;
    change({ p7: 100, other: 5 });
    await vi.advanceTimersByTimeAsync(MINUTE);
    server.isListing = true;
    await vi.advanceTimersByTimeAsync(MINUTE);
    stop();
    expect(reports).toEqual([`${queueOf('p7')} 1 100`]);
    expect(warn).toHaveBeenCalledTimes(1);
  });

  test('one that takes no report keeps none from the others, and gets it again', async () => {
    const silent = [queueOf('odd')];
    const { reports, stop } = watch([queueOf('odd'), queueOf('p')], silent);
    await vi.advanceTimersByTimeAsync(MINUTE);
    expect(reports).toEqual([`${queueOf('p')} 1 9`]);
    silent.pop();
    await vi.advanceTimersByTimeAsync(MINUTE);
    stop();
    expect(reports).toEqual([`${queueOf('p')} 1 9`, `${queueOf('odd')} 1 9`]);
  });

  test('what is used of each budget is recorded, and 0 of 0 once none is set or no queue runs', async () => {
    vi.useFakeTimers();
    const series = new Map<string, string>();
    const gauge = (kind: string) => ({
      set: (value: number, { project, per }: { project: string; per: string }) =>
        series.set(`${project} ${per} ${kind}`, String(value)),
    });
    const meters = { budgetLimit: gauge('limit'), budgetUsed: gauge('used') } as unknown as Meters;
    const warn = vi.fn<() => void>();
    const state = { perHour: null as number | null, perDay: 200 as number | null, spentLastHour: 5, spentLastDay: 160 };
    const running = new Set([queueOf('p'), queueOf('odd'), 'request-queue/visitors']);
    const query = (id: string) => (id === queueOf('odd') ? Promise.reject(new Error('no')) : Promise.resolve(state));
    const workflow = {
      list: async function* () {
        await Promise.resolve();
        for (const workflowId of running) yield { workflowId };
      },
      getHandle: (id: string) => ({ query: () => query(id) }),
    };
    const client = { workflow, withDeadline: (_: unknown, work: () => unknown) => work() } as unknown as Client;
    const stop = watchBudgetUse({ client, taskQueue: 'q', log: { warn } }, meters);
    await vi.advanceTimersByTimeAsync(MINUTE);
    expect(Object.fromEntries(series)).toEqual({ 'p day limit': '200', 'p day used': '160' });
    Object.assign(state, { perHour: 10, perDay: null });
    running.delete(queueOf('odd'));
    await vi.advanceTimersByTimeAsync(MINUTE);
    const ofHour = { 'p hour limit': '10', 'p hour used': '5' };
    expect(Object.fromEntries(series)).toEqual({ ...ofHour, 'p day limit': '0', 'p day used': '0' });
    running.clear();
    await vi.advanceTimersByTimeAsync(MINUTE);
    stop();
    expect([...series.values()]).toEqual(['0', '0', '0', '0']);
    expect(warn).toHaveBeenCalledTimes(1);
  });
});
