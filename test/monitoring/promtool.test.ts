/** The recordings, by Prometheus' own engine: which alerts they raise, and that every panel has data. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { needToolchain } from '../support/toolchains.js';
import { readPanels, readRules, TESTS_FOLDER } from './files.js';
import { scenarios } from './scenarios.js';

const run = promisify(execFile);
const promtool = process.env['PROMTOOL'] ?? 'promtool';
const LIMIT = { timeout: 240_000 };

interface RecordedTest {
  rule_files: string[];
  evaluation_interval: string;
  tests: {
    name: string;
    interval: string;
    input_series: { series: string; values: string }[];
    promql_expr_test: { expr: string; eval_time: string; exp_samples: { labels: string; value: number }[] }[];
  }[];
}

const names = readdirSync(TESTS_FOLDER).map((name) => basename(name, '.yml'));
const read = (name: string) => parse(readFileSync(join(TESTS_FOLDER, `${name}.yml`), 'utf8')) as RecordedTest;

/** The recording that a panel has data in; the others have them in healthy.yml. */
const FAULT_OF_PANEL: Record<string, string> = {
  'Workflow tasks that failed, an hour': 'workflow-bug',
  'Projects with a refused key': 'key-refused',
};

test('there is a recording of every fault, and every alert fires in one of them', () => {
  expect(names.toSorted()).toEqual(scenarios.map(({ name }) => name).toSorted());
  const fired = names.flatMap((name) =>
    read(name).tests[0]!.promql_expr_test[0]!.exp_samples.map(({ labels }) => /"(\w+)"/.exec(labels)![1]!),
  );
  expect([...new Set(fired)].toSorted()).toEqual(
    readRules()
      .map(({ alert }) => alert)
      .toSorted(),
  );
  expect(read('healthy').tests[0]!.promql_expr_test[0]!.exp_samples).toEqual([]);
});

describe('by promtool', () => {
  let folder: string;
  beforeAll(() => (folder = mkdtempSync(join(tmpdir(), 'agent-jobs-promtool-'))));
  afterAll(() => rmSync(folder, { recursive: true }));

  /** What promtool says of a changed copy of a recording; null where all is as it should be. */
  async function problemsOf(name: string, change: (recorded: RecordedTest) => void): Promise<string | null> {
    const recorded = read(name);
    recorded.rule_files = recorded.rule_files.map((file) => join(TESTS_FOLDER, file));
    change(recorded);
    const file = join(folder, `${name}.yml`);
    writeFileSync(file, stringify(recorded, { lineWidth: 0 }));
    return run(promtool, ['test', 'rules', file]).then(
      () => null,
      (error: { stdout: string; stderr: string }) => error.stdout + error.stderr,
    );
  }

  test.for(names)('the recording %s raises the alerts of its fault, and no other', LIMIT, async (name, context) => {
    await needToolchain(context, 'promtool');
    expect(await problemsOf(name, () => {})).toBeNull();
  });

  test('an alert that does not fire, and one too many, are noticed', LIMIT, async (context) => {
    await needToolchain(context, 'promtool');
    const expectations = ({ tests }: RecordedTest) => tests[0]!.promql_expr_test[0]!.exp_samples;
    const other = { labels: '{alertname="AgentJobsNoWorker"}', value: 1 };
    expect(await problemsOf('in-doubt', (recorded) => expectations(recorded).push(other))).toMatch(/FAILED/);
    expect(await problemsOf('in-doubt', (recorded) => expectations(recorded).pop())).toMatch(/FAILED/);
  });

  test('that Prometheus knows of no worker at all raises an alert', LIMIT, async (context) => {
    await needToolchain(context, 'promtool');
    const problems = await problemsOf('in-doubt', ({ tests: [recorded] }) => {
      recorded!.input_series = [];
      recorded!.promql_expr_test[0]!.exp_samples = [{ labels: '{alertname="AgentJobsNoWorker"}', value: 1 }];
    });
    expect(problems).toBeNull();
  });

  test('that no worker could count the open jobs since its start raises an alert', LIMIT, async (context) => {
    await needToolchain(context, 'promtool');
    const problems = await problemsOf('healthy', ({ tests: [recorded] }) => {
      const isCount = ({ series }: { series: string }) => series.startsWith('agent_jobs_last_count_timestamp_seconds');
      const [expected] = recorded!.promql_expr_test;
      const labels = '{alertname="AgentJobsFiguresStale"}';
      expect(recorded!.input_series.some(isCount)).toBe(true);
      recorded!.input_series = recorded!.input_series.filter((series) => !isCount(series));
      expected!.exp_samples = [{ labels, value: 1 }];
    });
    expect(problems).toBeNull();
  });

  test('a task that fails every ten minutes raises its alert without a break', LIMIT, async (context) => {
    await needToolchain(context, 'promtool');
    const problems = await problemsOf('healthy', ({ tests: [recorded] }) => {
      const series = 'temporal_workflow_task_execution_failed{job="agent-jobs",instance="worker-1:9464"}';
      const values = Array.from({ length: 12 }, (_, failures) => `${failures}x40`).join(' ');
      recorded!.input_series = [{ series, values }];
      const alert = 'ALERTS{alertname="AgentJobsWorkflowTasksFail",alertstate="firing"}';
      recorded!.promql_expr_test = [
        {
          expr: `count(count_over_time(${alert}[1h]) == 240)`,
          eval_time: '100m',
          exp_samples: [{ labels: '{}', value: 1 }],
        },
      ];
    });
    expect(problems).toBeNull();
  });

  test('the query of every panel has data in the recording of a real run', LIMIT, async (context) => {
    await needToolchain(context, 'promtool');
    const panels = readPanels();
    for (const name of ['healthy', ...Object.values(FAULT_OF_PANEL)]) {
      const shown = panels.filter(({ title }) => (FAULT_OF_PANEL[title] ?? 'healthy') === name);
      const queries = shown.flatMap((panel) => panel.queries);
      const problems = await problemsOf(name, ({ tests: [recorded] }) => {
        const { eval_time } = recorded!.promql_expr_test[0]!;
        const exp_samples = [{ labels: '{}', value: 1 }];
        recorded!.promql_expr_test = queries.map((query) => ({
          expr: `count(${query}) >= bool 1`,
          eval_time,
          exp_samples,
        }));
      });
      expect([queries.length > 0, problems], name).toEqual([true, null]);
    }
  });
});
