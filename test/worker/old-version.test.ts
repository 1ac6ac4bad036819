/** Worker versioning with workers of two releases, whose workflow code does not fit, on a real server. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client } from '@temporalio/client';
import { bundleWorkflowCode, type WorkflowBundle } from '@temporalio/worker';
import { afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import {
  AGENT_JOB_WORKFLOW,
  followUpSignal,
  jobStateQuery,
  pollNowSignal,
  type AgentJobInput,
} from '../../src/contract.js';
import { listStuck, type StuckJob } from '../../src/client/agent-job/attention.js';
import { findDevServer } from '../../src/local/find-dev-server.js';
import { workflowBundleOptions } from '../../src/temporal/workflow-bundle.js';
import { createLogger } from '../../src/worker/logging.js';
import { watchVersion } from '../../src/worker/old-version.js';
import { makeCurrent as makeVersionCurrent } from '../support/current-version.js';
import { connectPrivateDevServer } from '../support/dev-server.js';
import { failedTasks } from '../support/failed-tasks.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { ProjectQueue } from '../support/project-queue.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { useForFile } from '../support/use.js';
import { until } from '../support/worker-process.js';

const MOST_MS = 240_000;
const JOBS = 8;
/** No task of a job comes soon by itself. */
const HOURLY = { min: '1 hour', max: '1 hour' };
const server = useForFile(() =>
  connectPrivateDevServer({
    dynamicConfig: {
      // The server looks every few minutes whether a version has drained.
      'matching.wv.VersionDrainageStatusRefreshInterval': '"1s"',
      'matching.wv.VersionDrainageStatusVisibilityGracePeriod': '"1s"',
    },
  }),
);
let version2: WorkflowBundle;
let deploymentName: string;
let taskQueue: string;
let upstream: ScriptedUpstream;
const ends: (() => unknown)[] = [];

beforeAll(async () => {
  const workflowsPath = fileURLToPath(new URL('./version-2/index.ts', import.meta.url));
  const source = fileURLToPath(new URL('../../src/', import.meta.url));
  const { preloadModules: _, ...options } = workflowBundleOptions(source, '.ts');
  version2 = await bundleWorkflowCode({ ...options, workflowsPath });
}, MOST_MS);
beforeEach(() => {
  deploymentName = `deployment-${randomUUID()}`;
  taskQueue = `test-${randomUUID()}`;
  upstream = new ScriptedUpstream();
});
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

/** A worker of a release, which drains as the production worker does. */
async function startRelease(buildId: string, workflowBundle?: WorkflowBundle): Promise<JobBench> {
  const version = { deploymentName, buildId };
  const versioning = { version, useWorkerVersioning: true, defaultVersioningBehavior: 'PINNED' } as const;
  const worker = { workerDeploymentOptions: versioning, ...(workflowBundle && { workflowBundle }) };
  const bench = await startJobBench(server, upstream, { holdsPolls: true, taskQueue, worker });
  const config = { deployment: { name: deploymentName, buildId } };
  const client = new Client({ connection: server.nativeConnection, namespace: server.namespace });
  const log = createLogger({ level: 'warn', format: 'text' });
  const stopWatch = watchVersion({ config, client, heldPolls: null, log });
  let isStopped = false;
  const stop = async () => {
    if (isStopped) return;
    isStopped = true;
    stopWatch();
    await bench.stop();
  };
  ends.push(stop);
  return { ...bench, stop };
}

const makeCurrent = (buildId: string) => makeVersionCurrent(server, { deploymentName, buildId });

async function openOn(buildId: string): Promise<number> {
  const query = `TemporalWorkerDeploymentVersion = '${deploymentName}:${buildId}' AND ExecutionStatus = 'Running'`;
  return (await server.client.workflow.count(query)).count;
}

async function drainage(buildId: string): Promise<number> {
  const { workerDeploymentVersionInfo: info } = await server.client.workflowService.describeWorkerDeploymentVersion({
    namespace: server.namespace,
    deploymentVersion: { deploymentName, buildId },
  });
  return Number(info?.status);
}

const DRAINED = 5; // temporal.api.enums.v1.WorkerDeploymentVersionStatus
const latest = (workflowId: string) =>
  server.client.workflow.getHandle<(input: AgentJobInput) => Promise<{ outcome: string }>>(workflowId);

/** The events of all runs of a job. */
async function eventsOf(workflowId: string) {
  const events = [];
  const { runId: newest } = await latest(workflowId).describe();
  for (let runId: string | null | undefined = newest; runId;) {
    const history = await server.client.workflow.getHandle(workflowId, runId).fetchHistory();
    events.unshift(...(history.events ?? []));
    runId = history.events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId;
  }
  return events;
}

/** Starts a job on the shared task queue; the worker of one release may end before it. */
async function startJob(options: object = {}): Promise<string> {
  const workflowId = `agent-job/test/${randomUUID()}`;
  const input = { projectId: 'p1', prompt: 'Fix it', polling: HOURLY, settle: 0, ...options };
  await server.client.workflow.start<(input: AgentJobInput) => Promise<unknown>>(AGENT_JOB_WORKFLOW, {
    taskQueue,
    workflowId,
    args: [input],
  });
  return workflowId;
}

const isWatching = async (id: string) => (await latest(id).query(jobStateQuery)).phase === 'watching';

test('open jobs leave for a release that fits none of their histories', async () => {
  const before = await startRelease('1');
  await makeCurrent('1');
  upstream.show = () => ({ status: 'active' });
  const ids = await Promise.all(Array.from({ length: JOBS }, () => startJob()));
  for (const id of ids) await until(() => isWatching(id), id);
  const followUp = { prompt: 'And a test', id: 'one' };
  await Promise.all(ids.map((id) => latest(id).signal(followUpSignal, followUp)));
  await until(() => upstream.messages.length === JOBS, 'the follow-ups');
  await until(async () => (await openOn('1')) === JOBS, 'all on version 1');

  await startRelease('2', version2);
  await makeCurrent('2');
  await until(
    async () => (await openOn('1')) === 0,
    'version 1 to drain',
    () => '',
    120_000,
  );
  await until(async () => (await drainage('1')) === DRAINED, 'the server to see it');
  // A new run is listed with its version once its first task is done.
  await until(async () => (await openOn('2')) === JOBS, 'all on version 2');
  await before.stop();

  // The ids of follow-ups came along: the same one is not sent again.
  await Promise.all(ids.map((id) => latest(id).signal(followUpSignal, followUp)));
  upstream.show = () => ({ status: 'completed' });
  await Promise.all(ids.map((id) => latest(id).signal(pollNowSignal)));
  const results = await Promise.all(ids.map((id) => latest(id).result()));
  expect(new Set(results.map(({ outcome }) => outcome))).toEqual(new Set(['completed']));
  expect([upstream.created.length, upstream.messages.length]).toEqual([JOBS, JOBS]);
  for (const id of ids) {
    const events = await eventsOf(id);
    expect(failedTasks(events)).toEqual([]);
    // Each left once, at the first task that came: the one that the wake made, or an earlier one.
    const left = events.findIndex((event) => event.workflowExecutionContinuedAsNewEventAttributes);
    const leftOnly = events.filter((event) => event.workflowExecutionContinuedAsNewEventAttributes);
    expect(leftOnly).toHaveLength(1);
    const wakes = events.slice(0, left).filter(({ workflowExecutionSignaledEventAttributes: signal }) => {
      return signal?.signalName === 'versionChanged';
    });
    // A second one where the first came before the server had sent the change to its task queues.
    expect(wakes.length).toBeLessThanOrEqual(2);
  }
});

test('a queue whose version has no worker any more goes on with the current one', async () => {
  const before = await startRelease('1');
  await makeCurrent('1');
  const queue = new ProjectQueue(server.client, taskQueue, 'p2');
  ends.push(() => queue.handle.terminate());
  await queue.usedUp(1, 3_600_000);
  await until(async () => (await queue.state()).spentLastHour === 1, 'the queue to know');
  await before.stop();
  await startRelease('2');
  await makeCurrent('2');
  const id = await startJob({ projectId: 'p2' });
  await queue.report({ outcome: 'unsent', perHour: 2 });
  expect((await latest(id).result()).outcome).toBe('completed');
});

test('a job whose write is in flight leaves after it, and the write is sent once', async () => {
  await startRelease('1');
  await makeCurrent('1');
  upstream.show = () => ({ status: 'active' });
  const id = await startJob();
  await until(() => isWatching(id), 'the job to be watched');
  let answer = () => {};
  const isAnswered = new Promise<void>((resolve) => (answer = resolve));
  const { sendMessage } = upstream;
  upstream.sendMessage = async (...request) => {
    const outcome = await sendMessage.apply(upstream, request);
    await isAnswered;
    return outcome;
  };
  await latest(id).signal(followUpSignal, { prompt: 'And a test', id: 'one' });
  await until(() => upstream.messages.length === 1, 'the message to be sent');
  await startRelease('2', version2);
  await makeCurrent('2');
  const isWoken = async () =>
    (await eventsOf(id)).some(
      (event) => event.workflowExecutionSignaledEventAttributes?.signalName === 'versionChanged',
    );
  await until(isWoken, 'the job to be woken');
  await until(async () => (await openOn('1')) === 1, 'the job to be listed on version 1');
  answer();
  await until(async () => (await openOn('1')) === 0, 'the job to leave');
  // The other release has its handlers a moment later.
  await until(() => isWatching(id).catch(() => false), 'the job to go on');
  expect((await latest(id).query(jobStateQuery)).followUps).toEqual([{ id: 'one', state: 'sent' }]);
  expect(upstream.messages).toEqual(['And a test']);
  expect(failedTasks(await eventsOf(id))).toEqual([]);
  await latest(id).terminate();
});

test('a later release answers for jobs that ended on a version without workers', async () => {
  const before = await startRelease('1');
  await makeCurrent('1');
  const ended = await startJob();
  await latest(ended).result();
  const invalid = await startJob({ projectId: '..' });
  await expect(latest(invalid).result()).rejects.toThrow();
  // The same code under another name, which fits: a release without a change of the workflows.
  await startRelease('2');
  await makeCurrent('2');
  await before.stop();
  for (const id of [ended, invalid]) expect((await latest(id).query(jobStateQuery)).phase).toBe('done');
});

test('a job whose version has no worker any more goes on where an operator moves it', async () => {
  const before = await startRelease('1');
  await makeCurrent('1');
  upstream.show = () => ({ status: 'active' });
  const id = await startJob();
  await until(() => isWatching(id), 'the job to be watched');
  // It ends before it can wake its jobs.
  await before.stop();
  await startRelease('2');
  await makeCurrent('2');
  await latest(id).signal(followUpSignal, { prompt: 'And a test', id: 'one' });
  await until(async () => (await openOn('1')) === 1, 'the job to be listed on version 1');
  forgetPollersOf('1');
  const pinnedTo = `${deploymentName}:1`;
  const lost = {
    workflowId: id,
    workflowType: AGENT_JOB_WORKFLOW,
    projectId: 'p1',
    problems: [],
    pinnedTo,
    paused: null,
  };
  expect(await stuck()).toEqual([lost]);
  vi.restoreAllMocks();
  await temporalCli([
    'workflow',
    'update-options',
    '--query',
    `TemporalWorkerDeploymentVersion = '${deploymentName}:1'`,
  ]);
  await until(() => upstream.messages.length === 1, 'the follow-up');
  await until(async () => (await openOn('2')) === 1, 'the job to be on version 2');
  upstream.show = () => ({ status: 'completed' });
  await latest(id).signal(pollNowSignal);
  expect((await latest(id).result()).outcome).toBe('completed');
  expect(failedTasks(await eventsOf(id))).toEqual([]);
});

/** As the server does some minutes after they ended. */
function forgetPollersOf(buildId: string): void {
  const { workflowService } = server.client;
  const describe = workflowService.describeTaskQueue.bind(workflowService);
  vi.spyOn(workflowService, 'describeTaskQueue').mockImplementation(async (request: object) => {
    const { pollers, ...described } = await describe(request);
    return { ...described, pollers: pollers.filter(({ deploymentOptions: of }) => of?.buildId !== buildId) } as never;
  });
}

/** What `attention` names of this test's task queue. */
async function stuck(): Promise<StuckJob[]> {
  const found: StuckJob[] = [];
  for await (const job of listStuck(server.client)) if (job.pinnedTo?.startsWith(deploymentName)) found.push(job);
  return found;
}

/** As docs/operations.md says it, on this test's server and deployment. */
async function temporalCli(args: string[]): Promise<void> {
  const target = ['--versioning-override-deployment-name', deploymentName, '--versioning-override-build-id', '2'];
  const move = ['--versioning-override-behavior', 'one_time', ...target, '--reason', 'test', '--yes'];
  const program = await findDevServer({ env: process.env });
  await promisify(execFile)(program, [...args, ...move, '--address', server.address], { timeout: 120_000 });
}
