import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { InterceptingCall } from '@grpc/grpc-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loggerOf } from '../../src/client/settings.js';
import { watchJob } from '../../src/client/agent-job/wait.js';
import { AgentJobs, JobNotFoundError, type JobState } from '../../src/starter.js';
import { createTestWorker } from '../support/worker.js';
import { QUICK, startJobServer, type JobServer } from './job-server.js';
import { startScriptedServer, type ScriptedServer } from './scripted-server.js';

let server: ScriptedServer;
let real: JobServer;
beforeAll(async () => {
  [server, real] = await Promise.all([startScriptedServer(), startJobServer()]);
});
afterAll(async () => {
  await Promise.all([server?.close(), real?.close()]);
});

const QUICKLY = { minMs: 20, maxMs: 200, ratio: 1.5 };

async function statesOf(states: AsyncIterable<JobState>): Promise<JobState[]> {
  const seen: JobState[] = [];
  for await (const state of states) seen.push(state);
  return seen;
}

test('a job is watched from its start to its end, each state another one than that before', async () => {
  const { jobs, projectId } = real;
  const job = await jobs.start({ projectId, key: randomUUID(), prompt: 'Fix it', ...QUICK });
  const seen = await statesOf(job.watch());
  expect(seen.at(-1)).toMatchObject({
    phase: 'done',
    outcome: 'completed',
    waiting: null,
    job: { status: 'completed' },
  });
  expect(seen.slice(0, -1).every(({ phase, outcome }) => phase !== 'done' && outcome === null)).toBe(true);
  const told = seen.map(({ polls: _, ...state }) => JSON.stringify(state));
  expect(new Set(told).size).toBe(told.length);
  expect(seen.at(-1)).toEqual(await job.state());
  // An ended job has one state.
  expect(await statesOf(job.watch())).toEqual([seen.at(-1)]);
});

test('a job that does nothing costs one query, and ever fewer polls', async () => {
  const calls: Record<string, number> = {};
  const connection = await countingConnection(calls);
  const client = new Client({ connection, namespace: server.namespace });
  const job = await server.jobs.start({ projectId: server.projectId, key: randomUUID(), prompt: 'stay' });
  await job.state();
  const stop = new AbortController();
  const startedAt = performance.now();
  const context = { client, logger: loggerOf(null), timeoutMs: undefined };
  const watching = statesOf(
    watchJob(context, job.workflowId, { signal: stop.signal }, { ...QUICKLY, ratio: 2, maxMs: 1e6 }),
  );
  await pause(3_000);
  stop.abort('enough');
  await expect(watching).rejects.toBe('enough');
  // How many waits of 40, 80, 160 … ms fit into the time.
  const rounds = Math.ceil(Math.log2((performance.now() - startedAt) / QUICKLY.minMs)) + 1;
  const { QueryWorkflow, DescribeWorkflowExecution, GetWorkflowExecutionHistory, ...others } = calls;
  expect(QueryWorkflow).toBe(1);
  expect(DescribeWorkflowExecution).toBeGreaterThan(3);
  // One more by the state itself, which looks for a write that no worker has begun.
  expect(DescribeWorkflowExecution).toBeLessThanOrEqual(rounds + 1);
  // Temporal answers one that waits for long twice, the first time before its deadline.
  expect(GetWorkflowExecutionHistory).toBeLessThanOrEqual(2 * rounds);
  expect(Object.keys(others).filter((name) => name !== 'GetSystemInfo')).toEqual([]);
  await job.cancel();
  await connection.close();
});

test('a watch goes on over continue-as-new, and ends with the run that follows', async () => {
  const job = await server.jobs.start({ projectId: server.projectId, key: randomUUID(), prompt: 'continue' });
  const seen: JobState[] = [];
  for await (const state of watchQuickly(server.jobs.client, job.workflowId)) {
    seen.push(state);
    if (seen.length === 1) await job.followUp('go on');
    else if (state.followUps.length === 0) await job.cancel();
  }
  expect(await server.countRuns(job)).toBe(2);
  expect(new Set(seen.map(({ startedAt }) => startedAt)).size).toBe(2);
});

test('a run that a follow-up began belongs to the watch, and so do its states', async () => {
  const { jobs, projectId } = server;
  const job = await jobs.start({ projectId, key: randomUUID(), prompt: 'hello' });
  await job.result();
  await job.followUp('more');
  const { runId } = await server.client.workflow.getHandle(job.workflowId).describe();
  expect(runId).not.toBe(job.runId);
  const states = await statesOf(watchQuickly(jobs.client, job.workflowId));
  expect(states.at(-1)).toMatchObject({ followUps: [{ state: 'sent' }] });
});

test('a watch waits for a worker, warns a logger that throws, and needs none for the state of a result', async () => {
  const { client, namespace, nativeConnection, projectId } = server;
  const taskQueue = `later-${randomUUID()}`;
  const told: string[] = [];
  const logger = {
    warn: (message: string) => {
      told.push(message);
      throw new Error('the disk is full');
    },
  };
  const jobs = new AgentJobs({ client, taskQueue, timeoutMs: 5_000, logger });
  const job = await jobs.start({ projectId, key: randomUUID(), prompt: 'hello', settle: 1_000 });
  const watching = statesOf(job.watch());
  await expect.poll(() => told).not.toHaveLength(0);
  const workflowsPath = fileURLToPath(new URL('./workflows/index.ts', import.meta.url));
  const worker = await createTestWorker({
    connection: nativeConnection,
    namespace,
    taskQueue,
    workflowsPath,
    activities: {},
  });
  const running = worker.run();
  expect(await watching).not.toHaveLength(0);
  expect(new Set(told)).toEqual(new Set(['no answer; the wait goes on']));
  worker.shutdown();
  await running;
  const [state, ...others] = await statesOf(job.watch());
  expect(others).toEqual([]);
  expect(state).toMatchObject({ phase: 'done', outcome: 'completed', projectId, followUps: [], waiting: null });
});

test('a watch ends with the reason of its signal, and at once where there is no such job', async () => {
  const job = await server.jobs.start({ projectId: server.projectId, key: randomUUID(), prompt: 'stay' });
  const stop = new AbortController();
  const reason = new Error('enough');
  const watching = statesOf(job.watch({ signal: stop.signal }));
  setTimeout(() => stop.abort(reason), 300);
  await expect(watching).rejects.toBe(reason);
  await job.cancel();
  await expect(statesOf(server.jobs.handle(`none-${randomUUID()}`).watch())).rejects.toBeInstanceOf(JobNotFoundError);
});

function watchQuickly(client: Client, workflowId: string): AsyncIterable<JobState> {
  return watchJob({ client, logger: loggerOf(null), timeoutMs: undefined }, workflowId, {}, QUICKLY);
}

/** Counts the requests by the names of their methods. */
async function countingConnection(calls: Record<string, number>): Promise<Connection> {
  return Connection.connect({
    address: server.address,
    interceptors: [
      (options, nextCall) => {
        const name = options.method_definition.path.split('/').at(-1)!;
        calls[name] = (calls[name] ?? 0) + 1;
        return new InterceptingCall(nextCall(options));
      },
    ],
  });
}
