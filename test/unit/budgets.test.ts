import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Budgets } from '../../src/activities/agent-job/budgets.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-test-'));
});
afterAll(() => rm(folder, { recursive: true }));

test('the file wins over what is set for all, where one of them says that any number may be sent', async () => {
  const path = join(folder, 'unlimited.json');
  await writeFile(path, '{"any": {"createsPerHour": "unlimited"}, "few": {"messagesPerHour": 3}}');
  const budgets = new Budgets({ createsPerHour: 9, messagesPerHour: 'unlimited', projectBudgetsFile: path });
  const of = (project: string) => Promise.all([budgets.of('create', project), budgets.of('message', project)]);
  expect([await of('any'), await of('few')]).toEqual([
    ['unlimited', 'unlimited'],
    [9, 3],
  ]);
  expect(await new Budgets().of('create', 'any')).toBeNull();
});

test('changes are told once, of the kinds and projects alone that have another budget than before', async () => {
  const path = join(folder, 'changes.json');
  const budgets = new Budgets({ createsPerHour: 9, projectBudgetsFile: path }, { checkEveryMs: 0 });
  const changed = async (projects: object) => {
    await writeFile(path, JSON.stringify(projects));
    // A write may read the file first.
    await budgets.of('create', 'p');
    const changes = await budgets.changes();
    expect(await budgets.changes()).toEqual([]);
    return changes.map(({ operation, projectId }) => `${projectId} ${operation}`);
  };
  const few = { createsPerHour: 2, messagesPerHour: 2 };
  expect(await changed({ p: few, q: few })).toEqual([]);
  expect(await changed({ p: { ...few, createsPerHour: 'unlimited' }, q: { ...few } })).toEqual(['p create']);
  expect(await changed({ q: { ...few, messagesPerHour: 30 }, r: few })).toEqual([
    'p create',
    'p message',
    'q message',
    'r create',
    'r message',
  ]);
  // As it is set for all.
  expect(await changed({ q: { ...few, messagesPerHour: 30 }, s: { createsPerHour: 9 } })).toEqual([
    'r create',
    'r message',
  ]);
});

test('each new problem of the file is told once', async () => {
  const path = join(folder, 'budgets.json');
  const problems: string[] = [];
  const budgets = new Budgets(
    { projectBudgetsFile: path },
    { onProblem: (problem) => problems.push(problem), checkEveryMs: 0 },
  );
  const ask = () => budgets.of('create', 'p');
  expect(await ask()).toBeNull();
  await writeFile(path, '{"p": {"createsPerHour": 7, "messagesPerHour": 9}}');
  expect([await ask(), await budgets.of('message', 'p'), await budgets.of('create', 'q')]).toEqual([7, 9, null]);
  for (const wrong of [
    '{',
    '{"p": {"createsPerHour": 0}}',
    '{"p": {"createsPerHour": "any"}}',
    '{"p": {"creates": 5}}',
    '{"\\u0000": {}}',
    '[]',
  ]) {
    await writeFile(path, wrong);
    expect([await ask(), await ask()]).toEqual([7, 7]);
  }
  expect(problems.map((problem) => problem.slice(path.length + 2))).toEqual([
    'it cannot be read (ENOENT)',
    'it is not valid JSON',
    'project "p": createsPerHour should be a whole number above 0, or "unlimited"',
    'project "p" has a field that is none of createsPerHour, messagesPerHour',
    'project "\\u0000" is none: projectId must be well-formed Unicode without control characters',
    'it should hold a JSON object of projectId to budgets',
  ]);
});
