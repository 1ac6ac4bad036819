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

test('each new problem of the file is told once', async () => {
  const path = join(folder, 'budgets.json');
  const problems: string[] = [];
  const budgets = new Budgets(
    { projectBudgetsFile: path },
    { onProblem: (problem) => problems.push(problem), checkEveryMs: 0 },
  );
  const ask = () => budgets.perHour('create', 'p');
  expect(await ask()).toBeNull();
  await writeFile(path, '{"p": {"createsPerHour": 7, "messagesPerHour": 9}}');
  expect([await ask(), await budgets.perHour('message', 'p'), await budgets.perHour('create', 'q')]).toEqual([
    7,
    9,
    null,
  ]);
  for (const wrong of ['{', '{"p": {"createsPerHour": 0}}', '{"p": {"creates": 5}}', '{"\\u0000": {}}', '[]']) {
    await writeFile(path, wrong);
    expect([await ask(), await ask()]).toEqual([7, 7]);
  }
  expect(problems.map((problem) => problem.slice(path.length + 2))).toEqual([
    'it cannot be read (ENOENT)',
    'it is not valid JSON',
    'project "p": createsPerHour should be a whole number above 0',
    'project "p" has a field that is none of createsPerHour, messagesPerHour',
    'project "\\u0000" is none: projectId must be well-formed Unicode without control characters',
    'it should hold a JSON object of projectId to budgets',
  ]);
});
