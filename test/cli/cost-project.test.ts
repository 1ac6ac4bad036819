import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runMixedJobs } from '../../bench/mixed-jobs.js';
import { readActionsByKind } from '../../bench/temporal.js';
import { createActivities } from '../../src/activities/index.js';
import { noMetrics } from '../../src/activities/metrics.js';
import type { DevServer } from '../../src/local/dev-server.js';
import { freePort } from '../../src/local/free-ports.js';
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.js';
import { AgentJobs } from '../../src/starter.js';
import { createUpstream } from '../../src/upstream/client.js';
import { createKeySource } from '../../src/upstream/keys.js';
import { connectTo, startPrivateDevServer, type TestServer } from '../support/dev-server.js';
import { createTestWorker } from '../support/worker.js';
import { envOf, jsonLines, runCli, type CliRun } from './run-cli.js';

const MOST_MS = 300_000; // a busy machine starts a process slowly

let devServer: DevServer;
let server: TestServer;
let sandbox: Sandbox;
let jobs: AgentJobs;
let metricsUrl: string;
const cleanUp: (() => Promise<unknown>)[] = [];

// A server of one's own: its counter counts everything that happens in the namespace.
beforeAll(async () => {
  const metricsPort = await freePort();
  metricsUrl = `http://127.0.0.1:${metricsPort}/metrics`;
  devServer = await startPrivateDevServer({ metricsPort });
  cleanUp.unshift(() => devServer.stop());
  server = await connectTo(devServer);
  cleanUp.unshift(() => server.close());
  sandbox = await startSandbox();
  cleanUp.unshift(() => sandbox.close());
  const keys = createKeySource({ adminApiKey: sandbox.apiKey });
  const upstream = createUpstream({ baseUrl: sandbox.url, keys, timeoutMs: 5_000, notTakenStatuses: [] });
  cleanUp.unshift(() => upstream.close());
  const { nativeConnection: connection, taskQueue } = server;
  const activities = createActivities({ upstream, shutdownSignal: new AbortController().signal, metrics: noMetrics });
  const worker = await createTestWorker({ connection, taskQueue, activities });
  const running = worker.run();
  cleanUp.unshift(() => (worker.shutdown(), running));
  jobs = new AgentJobs({ client: server.client, taskQueue });
}, MOST_MS);

afterAll(async () => {
  for (const step of cleanUp) await step();
});

function cli(args: string[]): Promise<CliRun> {
  return runCli(['cost', ...args], { env: envOf(server) });
}

type Actions = Record<string, number>;

/** The server's counter once it stands still: it lags behind. */
async function settledActions(): Promise<Actions> {
  for (let before = ''; ; await pause(5_000)) {
    const now = await readActionsByKind(metricsUrl, devServer.namespace);
    if (JSON.stringify(now) === before) return now;
    before = JSON.stringify(now);
  }
}

const total = (actions: Actions) => Object.values(actions).reduce((sum, count) => sum + count, 0);

let projects: string[];

test(
  'the cost of the projects of 40 mixed jobs is within 2 % of what the server counts',
  async () => {
    const before = await settledActions();
    projects = [`one ${randomUUID()}`, `two "${randomUUID()}"`];
    const work = { jobs, control: sandbox, projects, tag: randomUUID(), n: 40, longMs: 12_000 };
    const { workflowIds, projects: used } = await runMixedJobs(work);
    const after = await settledActions();
    const runs = await Promise.all(used.map((project) => cli(['--project', project, '--json'])));
    const lines = runs.flatMap(({ stdout }) => jsonLines(stdout) as unknown as Line[]);
    const ids = lines.filter(({ workflow }) => workflow === 'agentJob').map(({ workflowId }) => workflowId);
    expect(ids.toSorted()).toEqual(workflowIds.toSorted());
    const counted = total(after) - total(before);
    const estimated = lines.reduce((sum, { billableActions }) => sum + billableActions, 0);
    expect(Math.abs(estimated - counted) / counted).toBeLessThanOrEqual(0.02);
    const increase = (kind: string) => (after[kind] ?? 0) - (before[kind] ?? 0);
    // What each event of a history stands for is no estimate.
    expect(sumsOf(lines)).toMatchObject({
      starts: increase('grpc_StartWorkflowExecution'),
      activities: increase('command_ScheduleActivityTask'),
      timers: increase('command_StartTimer'),
      updates: increase('message_UpdateWorkflowExecution_Acceptance'),
      searchAttributeUpserts: increase('command_UpsertWorkflowSearchAttributes'),
      memoUpserts: increase('command_ModifyWorkflowProperties'),
    });
  },
  MOST_MS,
);

test(
  'for people it is told by type of workflow and by kind of action, in all and per job',
  async () => {
    const [project = ''] = projects;
    const config = { workflowExecutionRetentionTtl: { seconds: 86_400 as never } };
    await server.client.workflowService.updateNamespace({ namespace: server.namespace, config });
    const { stdout, stderr, code } = await cli(['--project', project, '--days', '30']);
    expect({ stderr: stderr.replace(/\d+ workflows? read\n/g, ''), code }).toEqual({ stderr: '', code: 0 });
    expect(stdout).toMatch(/^Project +one \S+\nStarted since +\d{4}-\S+Z\n/);
    expect(stdout).toMatch(/\nWORKFLOW +COUNT +RUNS +EVENTS +BYTES +ACTIONS +ACTIONS EACH\nagentJob +19 +19 /);
    expect(stdout).toMatch(/\nBILLABLE ACTIONS +ALL +PER JOB\nstarts +19 +1\.0\n/);
    expect(stdout).toContain('(closed workflows are kept for 1 day: older ones are gone)');
  },
  MOST_MS,
);

test(
  'the cost of a recurring job is that of its run, its lock and its job; the Schedule adds two, and the trigger one',
  async () => {
    const projectId = `again ${randomUUID()}`;
    const handle = await jobs.schedule({ projectId, name: 'nightly', prompt: 'Tidy up', every: '1 day', paused: true });
    const before = await settledActions();
    await handle.trigger();
    await expect
      .poll(async () => (await handle.lastRuns(1))[0]?.fate, { timeout: 120_000, interval: 2_000 })
      .toBe('ended');
    const after = await settledActions();
    const lines = jsonLines((await cli(['--project', projectId, '--json'])).stdout) as unknown as Line[];
    const types = lines.map(({ workflow }) => workflow);
    expect(types.toSorted()).toEqual(['agentJob', 'recurringJob', 'recurringJobLock']);
    const estimated = lines.reduce((sum, { billableActions }) => sum + billableActions, 0);
    // A marker and a memo of the Schedule, and the request that triggered it.
    expect(total(after) - total(before) - estimated).toBe(3);
  },
  MOST_MS,
);

test(
  'a project of which nothing was started is an error, for its id may be mistyped',
  async () => {
    const { code, stdout, stderr } = await cli(['--project', 'nobody "here"', '--days', '1']);
    expect(stderr).toContain('nothing of the project "nobody \\"here\\"" was started in the last 1 day; check the id');
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  },
  MOST_MS,
);

test.each([
  [['--project', 'p', '--days', '0'], '--days must be a whole number of days, 1 to 3,650'],
  [['--project', 'p', '--days', '1.5'], '--days must be a whole number of days'],
  [['--project', '..'], '--project must not be'],
  [['--project', 'p', '--batch', 'b'], 'give a workflow id, --batch or --project, one of the three'],
  [['agent-job/p/k', '--project', 'p'], 'give a workflow id, --batch or --project, one of the three'],
  [['--batch', 'b', '--days', '2'], '--days goes with --project'],
  [['agent-job/p/k', '--follow-ups', '2'], '--follow-ups goes with --forecast'],
  [[], 'name a job by its workflow id, or jobs with --batch or --project; or give --forecast'],
])('cost %j says what is wrong, without a server', async (args, text) => {
  const { code, stderr } = await runCli(['cost', ...args], { env: { TEMPORAL_ADDRESS: '127.0.0.1:1' } });
  expect(stderr).toContain(text);
  expect(code).toBe(2);
});

interface Line {
  workflowId: string;
  workflow: string;
  billableActions: number;
  historyEvents: number;
  actions: Actions;
}

function sumsOf(lines: Line[]): Actions {
  const sums: Actions = {};
  for (const { actions } of lines) {
    for (const [kind, count] of Object.entries(actions)) sums[kind] = (sums[kind] ?? 0) + count;
  }
  return sums;
}
