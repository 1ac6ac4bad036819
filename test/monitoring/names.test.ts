/** The rules and the dashboard name what a real worker shows: each metric, with the labels and values that they use. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import { freePort } from '../../src/local/child-process.js';
import { AgentJobs } from '../../src/starter.js';
import { usePrivateSystem } from '../e2e/system.js';
import { startHttp } from '../http/http-server.js';
import { SECRET } from '../webhooks/receiver.js';
import { readExpressions, readRules } from './files.js';
import { groupingOf, parseExposition, selectorsOf, type Sample } from './promql.js';
import { newFolder } from '../support/folder.js';

/** Prometheus adds them to what it scrapes. */
const TARGET_LABELS = ['job', 'instance'];
/** No series of it before the first failure. */
const AFTER_A_FAILURE = 'temporal_workflow_task_execution_failed';

describe('a real worker shows what rules and dashboard name', () => {
  const system = usePrivateSystem({ script: { steps: [{ status: 'odd' }, { afterMs: 2_500, status: 'failed' }] } });

  test('each metric, with every label that is matched or grouped by, and every value', async () => {
    const folder = newFolder();
    const port = await freePort();
    const { client, taskQueue } = system.server;
    const jobs = new AgentJobs({ client, taskQueue });
    await jobs.scheduleExports({ projectId: 'acme', timeZone: 'UTC', paused: true });
    const webhooks = join(folder, 'webhooks.json');
    // It is refused before it is sent, as an address of this machine.
    const receiver = { url: 'https://127.0.0.1:9/', secrets: [SECRET] };
    await writeFile(webhooks, JSON.stringify({ '*': [receiver] }));
    const settings = {
      METRICS_ADDRESS: `127.0.0.1:${port}`,
      SNAPSHOTS_URL: pathToFileURL(folder).href,
      WEBHOOKS_FILE: webhooks,
      CREATES_PER_DAY: '100',
    };
    const worker = system.startWorker(settings);
    await worker.wrote('The worker runs');
    const job = await jobs.start({
      key: 'a',
      projectId: 'acme',
      prompt: 'Say hello',
      polling: { min: 500, max: 500 },
    });
    await job.result();

    const http = await startHttp(jobs, 'acme');
    await http.send('/v1/projects/acme/jobs', { key: 'unknown' });
    await http.send('/v1/projects/other/jobs');
    const missing = async () => {
      const ofWorker = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      const samples = parseExposition(ofWorker + (await http.send('/metrics')).body);
      return [...new Set(readExpressions().flatMap((expression) => missingOf(expression, samples)))];
    };
    // Some appear within the first count, a minute apart.
    await expect.poll(missing, { timeout: 120_000, interval: 1_000 }).toEqual([]);
    await http.close();
  });
});

/** What an expression names and no series has. */
function missingOf(expression: string, samples: readonly Sample[]): string[] {
  const always = ({ metric }: { metric: string }) => metric !== 'up' && metric !== AFTER_A_FAILURE;
  const known = selectorsOf(expression).filter(always);
  const problems = known.flatMap(({ metric, matchers }) => {
    const series = samples.filter((sample) => sample.metric === metric);
    if (series.length === 0) return [`there is no ${metric}`];
    const ours = matchers.filter(({ label }) => !TARGET_LABELS.includes(label));
    return ours.flatMap(({ label, values }) =>
      values
        .filter((value) => !series.some(({ labels }) => labels[label] === value))
        .map((value) => `${metric} has no ${label}="${value}"`),
    );
  });
  const names = known.map(({ metric }) => metric);
  const ofThem = samples.filter(({ metric }) => names.includes(metric));
  const labels = groupingOf(expression).filter((label) => !TARGET_LABELS.includes(label));
  const unknown = labels.filter((label) => !ofThem.some((sample) => label in sample.labels));
  return names.length === 0 ? [] : [...problems, ...unknown.map((label) => `${names.join()}: no label ${label}`)];
}

test('a misspelt metric, label or value is noticed', () => {
  const samples = parseExposition('agent_jobs_open{phase="creating"} 1\nagent_jobs_ready 1\n# HELP x\n');
  expect(missingOf('sum by (job, phase) (agent_jobs_open{job="agent-jobs",phase=~"creating"})', samples)).toEqual([]);
  expect(missingOf('agent_jobs_opened > 0', samples)).toEqual(['there is no agent_jobs_opened']);
  expect(missingOf('agent_jobs_open{phase=~"creating|created"}', samples)).toEqual([
    'agent_jobs_open has no phase="created"',
  ]);
  expect(missingOf('sum by (state) (agent_jobs_open)', samples)).toEqual(['agent_jobs_open: no label state']);
});

test('every alert has a severity, a summary, and a section of the runbooks, and every section an alert', async () => {
  const page = await readFile(new URL('../../docs/runbooks.md', import.meta.url), 'utf8');
  const sections = [...page.matchAll(/^### (\w+)$/gm)].map(([, title]) => title!);
  const rules = readRules();
  expect(rules.map(({ alert }) => alert).toSorted()).toEqual(sections.toSorted());
  for (const { alert, labels, annotations } of rules) {
    expect(labels['severity'], alert).toMatch(/^(critical|warning)$/);
    expect(annotations['summary'], alert).toBeTruthy();
    expect(annotations['runbook_url']).toBe(`docs/runbooks.md#${alert.toLowerCase()}`);
  }
});
