/** Every alert has a test of its own, and Prometheus' own engine runs them and reads the dashboard's queries. */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { needToolchain } from '../support/toolchains.js';
import { readPanels, readRules, RULE_TESTS_FILE } from './files.js';
import { newFolder } from '../support/folder.js';

const run = promisify(execFile);

interface RuleTest {
  name: string;
  promql_expr_test: { expr: string; exp_samples: object[] }[];
}

/** What promtool says against a file; null if all is as it should be. */
function problemsOf(promtool: string, args: readonly string[]): Promise<string | null> {
  return run(promtool, args).then(
    () => null,
    (error: { stdout: string; stderr: string }) => error.stdout + error.stderr,
  );
}

test('every alert has one test, which expects it to fire', async () => {
  const { tests } = parse(await readFile(RULE_TESTS_FILE, 'utf8')) as { tests: RuleTest[] };
  expect(tests.map(({ name }) => name)).toEqual(readRules().map(({ alert }) => alert));
  for (const { name, promql_expr_test: expected } of tests) {
    for (const { expr } of expected) expect(expr).toContain(`ALERTS{alertname="${name}",alertstate="firing"}`);
    expect(
      expected.some(({ exp_samples: samples }) => samples.length > 0),
      name,
    ).toBe(true);
  }
});

test('each alert fires for its series, and not for their neighbours', async (context) => {
  const promtool = await needToolchain(context, 'promtool');
  expect(await problemsOf(promtool, ['test', 'rules', RULE_TESTS_FILE])).toBeNull();
});

test('every query of the dashboard is one that Prometheus reads', async (context) => {
  const promtool = await needToolchain(context, 'promtool');
  const folder = newFolder();
  const queries = readPanels().flatMap((panel) => panel.queries);
  const rules = queries.map((expr, index) => ({ record: `query_${index}`, expr }));
  await writeFile(join(folder, 'queries.yml'), stringify({ groups: [{ name: 'dashboard', rules }] }));
  expect(await problemsOf(promtool, ['check', 'rules', join(folder, 'queries.yml')])).toBeNull();
});
