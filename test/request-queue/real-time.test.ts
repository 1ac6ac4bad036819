import { fork, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { defineSearchAttributeKey, SearchAttributeType, TypedSearchAttributes } from '@temporalio/common';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { joinQueueSignal, reportRequestSignal, SEARCH_ATTRIBUTE, type Turn } from '../../src/contract.js';
import type { DevServer } from '../../src/local/dev-server.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { connectTo, startPrivateDevServer, type TestServer } from '../support/dev-server.js';
import { shared } from '../support/shared.js';
import { startQueueBench, type QueueBench } from './queue-bench.js';

vi.setConfig({ testTimeout: 240_000 });
const PROJECT = defineSearchAttributeKey(SEARCH_ATTRIBUTE.project, SearchAttributeType.KEYWORD);
let devServer: DevServer;
let server: TestServer;
let bench: QueueBench;
const workers: ChildProcess[] = [];

beforeAll(async () => {
  devServer = await startPrivateDevServer({
    dynamicConfig: {
      'history.timerProcessorMaxTimeShift': '"50ms"',
      'limit.historyCount.suggestContinueAsNew': '60',
    },
  });
  server = await connectTo(devServer);
  await ensureSearchAttributes(server.client.connection, server.namespace);
});
afterAll(async () => {
  await server.close();
  await devServer.stop();
});
afterEach(async () => {
  await killWorkers();
  await bench.stop();
});

async function startWorker(taskQueue: string): Promise<void> {
  const { address, namespace } = server;
  const { path: codePath } = await shared('workflow-bundle');
  const program = fileURLToPath(new URL('worker-process.ts', import.meta.url));
  const options = { address, namespace, taskQueue, codePath };
  workers.push(fork(program, [JSON.stringify(options)], { execArgv: ['--import', 'tsx'], stdio: 'ignore' }));
}

async function killWorkers(): Promise<void> {
  for (const worker of workers.splice(0)) {
    const exited = once(worker, 'exit');
    worker.kill('SIGKILL');
    await exited;
  }
}

const accepted = () => bench.sent.filter(({ isAccepted }) => isAccepted).map(({ workflowId }) => workflowId);

test('under traffic the queue continues as new again and again, and loses no place', async () => {
  const attributes = new TypedSearchAttributes([{ key: PROJECT, value: 'p1' }]);
  bench = await startQueueBench(server, { start: { typedSearchAttributes: attributes } });
  const waits = await Promise.all(Array.from({ length: 5 }, (_, i) => bench.wait(8, { askedAt: i, perHour: 1_000 })));
  await expect.poll(() => accepted().toSorted()).toEqual(waits.flat().toSorted());
  await expect
    .poll(() => bench.state())
    .toMatchObject({ spentLastHour: 40, inFlight: 0, waitingCount: 0, perHour: 1_000 });
  const runs = await bench.runs();
  expect(runs.length).toBeGreaterThan(2);
  expect(runs.flatMap(({ causes }) => causes)).toEqual([]);
  expect((await bench.handle.describe()).typedSearchAttributes.get(PROJECT)).toBe('p1');
});

test('killed workers of the queue cost no turn and double none', async () => {
  const queueTaskQueue = `test-${randomUUID()}`;
  bench = await startQueueBench(server, { queueTaskQueue, start: { workflowTaskTimeout: '2 seconds' } });
  await startWorker(queueTaskQueue);
  const waits: string[] = [];
  for (let round = 0; round < 2; round++) {
    waits.push(...(await bench.wait(15, { askedAt: round, perHour: 1_000 })));
    await killWorkers();
    await startWorker(queueTaskQueue);
  }
  await expect.poll(() => accepted().toSorted()).toEqual(waits.toSorted());
  await expect.poll(() => bench.state()).toMatchObject({ spentLastHour: 30, inFlight: 0, waitingCount: 0 });
});

test('a queue that was cancelled is started again by the next request, and learns how its turns ended', async () => {
  bench = await startQueueBench(server);
  const [silent] = await bench.wait(1, { habit: 'silent', perHour: 2 });
  const [turn] = (await server.client.workflow.getHandle(silent!).result()) as Turn[];
  await bench.handle.cancel();
  await expect(bench.handle.result()).rejects.toThrow('cancelled');
  await bench.signal(reportRequestSignal.name, { turn: turn!.id, outcome: 'accepted', at: Date.now(), perHour: 2 });
  expect(await bench.state()).toMatchObject({ perHour: 2, spentLastHour: 1, inFlight: 0 });
  const ids = await bench.wait(2);
  await expect.poll(accepted).toEqual([silent, ids[0]]);
  expect(await bench.state()).toMatchObject({ waitingCount: 1 });
});

test('a thousand workflows that have ended hold up the one behind them for few tasks of the queue', async () => {
  const queueTaskQueue = `test-${randomUUID()}`;
  bench = await startQueueBench(server, { queueTaskQueue });
  await bench.join({ workflowId: 'gone', perHour: 2, report: { turn: null, outcome: 'accepted', at: Date.now() } });
  for (let i = 0; i < 1_000; i += 50) {
    await Promise.all(Array.from({ length: 50 }, (_, j) => bench.join({ workflowId: `gone-${i + j}` })));
  }
  const alive = await bench.wait(1, { askedAt: 1 });
  await startWorker(queueTaskQueue);
  await expect.poll(accepted, { timeout: 200_000 }).toEqual(alive);
  await expect.poll(() => bench.state()).toMatchObject({ spentLastHour: 2, inFlight: 0, waitingCount: 0 });
  const runs = await bench.runs();
  expect(runs.reduce((sum, { taskCount }) => sum + taskCount, 0)).toBeLessThanOrEqual(100);
});

test('a payload that can’t be decoded is ignored', async () => {
  bench = await startQueueBench(server, { start: {} });
  await bench.join({ workflowId: 'w', perHour: 1, report: { turn: null, outcome: 'accepted', at: Date.now() } });
  await server.client.workflowService.signalWorkflowExecution({
    namespace: server.namespace,
    workflowExecution: { workflowId: bench.handle.workflowId },
    signalName: joinQueueSignal.name,
    input: { payloads: [{ metadata: { encoding: Buffer.from('binary/unknown') }, data: Buffer.from('?') }] },
  });
  const ids = await bench.wait(1, { perHour: 2 });
  expect(await bench.state()).toMatchObject({ perHour: 2 });
  await expect.poll(accepted).toEqual(ids);
});
