import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, type WorkflowBundleWithSourceMap } from '@temporalio/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { replayHistories } from '../../src/cli/replay-histories.js';
import { WORKFLOW_TYPES } from '../../src/temporal/visibility.js';
import { joinQueueSignal, jobStateQuery, pollNowSignal, requestQueueId, type JoinRequest } from '../../src/contract.js';
import * as workflows from '../../src/workflows/index.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { shared } from '../support/shared.js';
import { createTestWorker } from '../support/worker.js';
import { until } from '../support/worker-process.js';
import { envOf, jsonLines, runCli } from './run-cli.js';
import { useForFile } from '../support/use.js';

const PROMPT = 'Fix the login page of the swordfish shop';
const BROKEN = fileURLToPath(new URL('./broken-workflows/index.ts', import.meta.url));
const OTHER = fileURLToPath(new URL('./other-workflows/index.ts', import.meta.url));
let otherWorkflows: Promise<WorkflowBundleWithSourceMap> | undefined;
const server = useForFile(connectOwnNamespace);
let bench: JobBench;

beforeAll(async () => {
  bench = await startLives();
});
afterAll(async () => {
  await bench?.stop();
});

/** Histories of jobs and of a queue, of open runs and a closed one. */
async function startLives(): Promise<JobBench> {
  const upstream = new ScriptedUpstream();
  const jobs = await startJobBench(server, upstream, { holdsPolls: true });
  const job = { projectId: 'p1', prompt: PROMPT, polling: { min: 1_000, max: 1_000 }, settle: 0 };
  await (await jobs.start(job)).result();
  upstream.show = () => ({ status: 'active' });
  const open = await jobs.start(job);
  await until(async () => (await open.query(jobStateQuery)).phase === 'watching', 'a poll');
  await open.signal(pollNowSignal);
  // Its budget is spent: it stays open.
  const spent: Partial<JoinRequest> = { perHour: 1, report: { turn: null, outcome: 'accepted', at: Date.now() } };
  await server.client.workflow.signalWithStart('requestQueue', {
    taskQueue: jobs.taskQueue,
    workflowId: requestQueueId({ operation: 'create', projectId: 'p1' }),
    args: [{ operation: 'create', projectId: 'p1' }],
    signal: joinQueueSignal,
    signalArgs: [{ workflowId: open.workflowId, priority: 3, askedAt: Date.now(), ...spent }],
  });
  return jobs;
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

test('replays what is left of jobs and queues, and says by type that all fits', async () => {
  expect([...WORKFLOW_TYPES].toSorted()).toEqual(Object.keys(workflows).toSorted());
  await until(async () => (await server.client.workflow.count()).count >= 3, 'the list to show all runs');
  const { code, stdout, stderr } = await cli('--since', '7d');
  expect(stderr).toBe('');
  for (const row of [/^agentJob +2$/m, /^requestQueue +1$/m]) expect(stdout).toMatch(row);
  expect(stdout).toMatch(/This release may be rolled out: 3 runs replayed, and all fit\.\n$/);
  expect(code).toBe(0);
});

test('a bundle whose code throws is a misfit, and no word of a prompt is shown', async () => {
  const report = await replay({ workflowsPath: BROKEN });
  expect(report).toMatchObject({ fits: {}, unread: [] });
  expect(report.misfits[0]).toMatchObject({
    problem: expect.stringMatching(/^the workflow code threw \w*Error/),
  });
  expect(JSON.stringify(report)).not.toMatch(/swordfish|broken on purpose/);
});

test('the first event that does not fit is named', async () => {
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

test('a limit keeps the open runs, and says that it left others out', async () => {
  const { code, stdout } = await cli('--limit', '2');
  expect(stdout).toMatch(/^Not replayed: the runs above --limit$/m);
  expect(stdout).toContain('2 runs replayed, and all fit.');
  expect(code).toBe(0);
  const bundle = { workflowBundle: { codePath: (await shared('workflow-bundle')).path } };
  expect((await replay(bundle, 2)).fits).toEqual({ agentJob: 1, requestQueue: 1 });
  const none = await cli('--task-queue', randomUUID());
  expect(none).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Nothing was replayed/) as string });
});
