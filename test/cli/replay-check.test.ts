import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, type WorkflowBundleWithSourceMap } from '@temporalio/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { replayHistories, WORKFLOW_TYPES } from '../../src/cli/replay-histories.js';
import { joinQueueSignal, jobStateQuery, pollNowSignal, requestQueueId, type JoinRequest } from '../../src/contract.js';
import { WEBHOOK_DELIVERY_WORKFLOW, WEBHOOK_SWEEP_WORKFLOW, webhookTaskQueue } from '../../src/contract/webhooks.js';
import * as workflows from '../../src/workflows/index.js';
import { rangeOf, setUpExport, startExport, withWorkers } from '../export/export.js';
import { connectOwnNamespace, type TestServer } from '../support/dev-server.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { shared } from '../support/shared.js';
import { createTestWorker, createWorker } from '../support/worker.js';
import { until } from '../support/worker-process.js';
import { envOf, jsonLines, runCli } from './run-cli.js';

const MOST_MS = 180_000;
const PROMPT = 'Fix the login page of the swordfish shop';
const BROKEN = fileURLToPath(new URL('../chaos/broken-workflows/index.ts', import.meta.url));
const OTHER = fileURLToPath(new URL('./other-workflows/index.ts', import.meta.url));
let otherWorkflows: Promise<WorkflowBundleWithSourceMap> | undefined;
let server: TestServer;
let bench: JobBench;
const running: string[] = [];

beforeAll(async () => {
  server = await connectOwnNamespace();
  bench = await startLives();
}, MOST_MS);
afterAll(async () => {
  await bench?.stop();
  await server.close();
});

/** Histories of every workflow type, of open runs and closed ones. */
async function startLives(): Promise<JobBench> {
  const upstream = new ScriptedUpstream();
  const jobs = await startJobBench(server, upstream, { hasPoller: true });
  const job = { projectId: 'p1', prompt: PROMPT, polling: { min: 1_000, max: 1_000 }, settle: 0 };
  await (await jobs.start(job)).result();
  upstream.show = () => ({ status: 'active' });
  const open = await jobs.start(job);
  await until(async () => (await open.query(jobStateQuery)).phase === 'watching', 'a poll');
  await open.signal(pollNowSignal);
  running.push(open.workflowId);
  // Its budget is spent: it stays open.
  const spent: Partial<JoinRequest> = { perHour: 1, report: { turn: null, outcome: 'accepted', at: Date.now() } };
  await server.client.workflow.signalWithStart('requestQueue', {
    taskQueue: jobs.taskQueue,
    workflowId: requestQueueId({ operation: 'create', projectId: 'p1' }),
    args: [{ operation: 'create', projectId: 'p1' }],
    signal: joinQueueSignal,
    signalArgs: [{ workflowId: open.workflowId, priority: 3, askedAt: Date.now(), ...spent }],
  });
  await startWebhooks(jobs.taskQueue);
  const exporting = await setUpExport(server);
  try {
    await withWorkers(exporting, async () => (await startExport(exporting, rangeOf(exporting))).result());
  } finally {
    await exporting.close();
  }
  return jobs;
}

/** A delivery that was taken, and a sweep that stays open. */
async function startWebhooks(taskQueue: string): Promise<void> {
  const activities = {
    deliverWebhook: () => Promise.resolve('delivered'),
    sweepEvents: (state: unknown) => delay(1_000, state),
  };
  const { nativeConnection: connection, client } = server;
  const worker = await createWorker({ connection, taskQueue: webhookTaskQueue(taskQueue), activities });
  await worker.runUntil(async () => {
    const sweep = { taskQueue, workflowId: `webhook-sweep/${taskQueue}`, args: [null] };
    await client.workflow.start(WEBHOOK_SWEEP_WORKFLOW, sweep);
    running.push(sweep.workflowId);
    const endpoint = { id: 'e', origin: 'https://example.com' };
    const delivery = { eventId: 'evt_1', type: 'agent_job.ended', projectId: 'p1', endpoint, body: '{}' };
    await client.workflow.execute(WEBHOOK_DELIVERY_WORKFLOW, {
      ...{ taskQueue, workflowId: 'webhook/evt_1/e', args: [delivery] },
    });
    await delay(2_000);
  });
}

const cli = (...args: string[]) => runCli(['replay-check', ...args], { env: envOf(server) });
const replay = (options: Parameters<typeof replayHistories>[3], limit = Infinity) =>
  replayHistories(
    server.client,
    { since: new Date(0), limit, taskQueue: undefined },
    new AbortController().signal,
    options,
  );

/** Runs of a stranger's workflow code, under a type's name. */
async function runsOfOtherCode(workflowType: string, count: number): Promise<{ taskQueue: string; ids: string[] }> {
  const taskQueue = `other-${randomUUID()}`;
  const ids = Array.from({ length: count }, () => `other/${randomUUID()}`);
  const { nativeConnection: connection, client } = server;
  const workflowBundle = await (otherWorkflows ??= bundleWorkflowCode({ workflowsPath: OTHER }));
  const worker = await createTestWorker({ connection, taskQueue, workflowBundle, activities: {} });
  await worker.runUntil(
    Promise.all(
      ids.map((workflowId) =>
        client.workflow.execute(workflowType, { taskQueue, workflowId, args: [{ projectId: 'p1', prompt: PROMPT }] }),
      ),
    ),
  );
  return { taskQueue, ids };
}

test('replays what every workflow type has left, and says by type that all fits', { timeout: MOST_MS }, async () => {
  expect([...WORKFLOW_TYPES].toSorted()).toEqual(Object.keys(workflows).toSorted());
  for (const type of WORKFLOW_TYPES) {
    const count = async () => (await server.client.workflow.count(`WorkflowType = '${type}'`)).count;
    await until(async () => (await count()) > 0, `the list to show a ${type}`);
  }
  const { code, stdout, stderr } = await cli('--since', '7d');
  expect(stderr).toBe('');
  for (const type of WORKFLOW_TYPES) expect(stdout).toMatch(new RegExp(`^${type} +[1-9]\\d*$`, 'm'));
  expect(stdout).toMatch(/This release may be rolled out: \d+ runs replayed, and all fit\.\n$/);
  expect(code).toBe(0);
});

test('a bundle whose code throws is refused, and no word of a prompt is told', { timeout: MOST_MS }, async () => {
  const report = await replay({ workflowsPath: BROKEN });
  expect(report).toMatchObject({ fits: {}, unread: [] });
  expect(report.misfits[0]).toMatchObject({
    problem: expect.stringMatching(/^the workflow code threw \w*Error/),
  });
  expect(JSON.stringify(report)).not.toMatch(/swordfish|broken on purpose/);
});

test('the first event that does not fit is named', { timeout: MOST_MS }, async () => {
  const { taskQueue, ids } = await runsOfOtherCode('agentJob', 1);
  await until(async () => (await server.client.workflow.count(`TaskQueue = '${taskQueue}'`)).count === 1, 'the list');
  const { code, stdout, stderr } = await cli('--task-queue', taskQueue);
  expect(stderr).toMatch(
    new RegExp(`^agent-jobs: does not fit: agentJob ${ids[0]} \\(run [\\w-]+\\), event 5: .*TimerStarted`),
  );
  expect(stderr).toMatch(/^agent-jobs: do not roll out: 1 run can not be replayed$/m);
  expect(stdout + stderr).not.toContain('swordfish');
  expect(code).toBe(1);
  const [json] = jsonLines((await cli('--task-queue', taskQueue, '--json')).stdout);
  expect(json).toMatchObject({ mayRollOut: false, misfits: [{ workflowId: ids[0], eventId: 5 }] });
  for (const workflowId of ids) await server.client.workflowService.deleteWorkflowExecution(execution(workflowId));
});

const execution = (workflowId: string) => ({ namespace: server.namespace, workflowExecution: { workflowId } });

test('a limit keeps the open runs, and tells how many are left out', { timeout: MOST_MS }, async () => {
  const { code, stdout } = await cli('--limit', '3');
  expect(stdout).toMatch(/^Not replayed: the runs above --limit$/m);
  expect(stdout).toContain('3 runs replayed, and all fit.');
  expect(code).toBe(0);
  const bundle = { workflowBundle: { codePath: (await shared('workflow-bundle')).path } };
  const report = await replay(bundle, 3);
  expect(Object.keys(report.fits).toSorted()).toEqual(['agentJob', 'requestQueue', 'webhookSweep']);
  const none = await cli('--task-queue', randomUUID());
  expect(none).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Nothing was replayed/) as string });
});
