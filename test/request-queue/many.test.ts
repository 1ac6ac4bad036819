import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { queuePlaceQuery } from '../../src/contract.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { startQueueBench, type QueueBench } from './queue-bench.js';

const COUNT = 600;
const PATIENCE = { timeout: 120_000 };
let server: TestServer;
let bench: QueueBench;

beforeAll(async () => {
  server = await connectDevServer();
});
afterAll(() => server.close());
afterEach(() => bench.stop());

const senders = () => bench.sent.map(({ workflowId }) => workflowId);

test('600 may wait, are ordered at once, and get their turns by hundreds', async () => {
  bench = await startQueueBench(server);
  const spent = { turn: null, outcome: 'accepted', at: Date.now() } as const;
  await bench.join({ workflowId: 'ended', askedAt: 0, perHour: 1, report: spent });
  for (let i = 1; i < COUNT; i += 50) {
    const ids = Array.from({ length: Math.min(50, COUNT - i) }, (_, j) => i + j);
    await Promise.all(ids.map((id) => bench.join({ workflowId: `ended-${id}`, askedAt: id })));
  }
  await expect.poll(async () => (await bench.state()).waitingCount, PATIENCE).toBe(COUNT);
  const [last] = await bench.wait(1, { askedAt: COUNT, priority: 4 });
  expect(await bench.handle.query(queuePlaceQuery, last!)).toMatchObject({ position: COUNT + 1 });
  const [first] = await bench.wait(1, { askedAt: COUNT, priority: 1, perHour: 2 });
  await expect.poll(senders, PATIENCE).toEqual([first]);
  expect((await bench.state()).waitingCount).toBe(COUNT + 1);
  // All but the last have ended: a higher budget passes over them, and they cost it nothing.
  await bench.wait(1, { askedAt: COUNT, priority: 1, perHour: COUNT });
  await expect.poll(senders, PATIENCE).toContain(last);
  await expect.poll(bench.state, PATIENCE).toMatchObject({ spentLastHour: 4, inFlight: 0, waitingCount: 0 });
  const runs = await bench.runs();
  expect(runs.length).toBeGreaterThan(1);
  expect(runs.flatMap(({ causes }) => causes)).toEqual([]);
  // Asked, given a turn that reached nobody, and the tasks for many at once.
  expect(runs.reduce((sum, { eventCount }) => sum + eventCount, 0)).toBeLessThan(6 * COUNT);
}, 480_000);
