import { randomUUID } from 'node:crypto';
import type { Payload } from '@temporalio/common';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { FAILURE, queuePlaceQuery, reportRequestSignal, type Turn } from '../../src/contract.js';
import { startTimeSkipping } from '../support/time-skipping.js';
import { createTestWorker } from '../support/worker.js';
import { startQueueBench, type QueueBench } from './queue-bench.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
let environment: TestWorkflowEnvironment;
let bench: QueueBench;

// This server skips no time any more once a signal was sent to a workflow that has ended: one for each test.
beforeEach(async () => {
  environment = await startTimeSkipping();
});
afterEach(async () => {
  await bench.stop();
  await environment.teardown();
});

const now = () => environment.currentTimeMs();
/** A budget that is used up for an hour. */
const usedUp = async (perHour: number) => {
  return { perHour, report: { turn: null, outcome: 'accepted', at: await now(), requests: perHour } as const };
};
const senders = () => bench.sent.map(({ workflowId }) => workflowId);

test('a set budget lets so many go at once, and the others when the hour frees their turns', async () => {
  bench = await startQueueBench(environment, { limits: { create: 10 } });
  const ids = await bench.wait(20, { perHour: 10 });
  const first = { perHour: 10, spentLastHour: 10, throttledLastHour: 0, waitingCount: 10 };
  await expect.poll(() => bench.state()).toMatchObject(first);
  expect(await bench.handle.query(queuePlaceQuery, ids[15]!)).toMatchObject({ for: 'turn', position: 6 });
  await environment.sleep('61 minutes');
  expect(bench.sent.filter(({ isAccepted }) => isAccepted)).toHaveLength(20);
  expect(senders().slice(0, 10).toSorted()).toEqual(ids.slice(0, 10).toSorted());
  const late = bench.sent.slice(10).map(({ at }) => at);
  expect(Math.min(...late) - bench.sent[0]!.at).toBeGreaterThanOrEqual(HOUR);
  // When nothing need be remembered, the queue ends.
  await environment.sleep('61 minutes');
  expect((await bench.handle.describe()).status.name).toBe('COMPLETED');
});

test('what is over the budget of a day waits for a day, and its place says so', async () => {
  bench = await startQueueBench(environment);
  const ids = await bench.wait(5, { perHour: 10, perDay: 3 });
  await expect
    .poll(() => bench.state())
    .toMatchObject({ perDay: 3, spentLastDay: 3, spentLastHour: 3, waitingCount: 2 });
  const places = await Promise.all(ids.map((id) => bench.handle.query(queuePlaceQuery, id)));
  const reason = "the day's budget of 3 creates is used";
  expect(places.slice(3)).toMatchObject([
    { for: 'turn', position: 1, reason },
    { for: 'turn', position: 2, reason },
  ]);
  const expectedAt = places.slice(3).map((place) => Date.parse(place!.expectedAt!));
  await environment.sleep('23 hours');
  expect(bench.sent).toHaveLength(3);
  expect(await bench.state(await now())).toMatchObject({ spentLastDay: 3, spentLastHour: 0, waitingCount: 2 });
  await environment.sleep('61 minutes');
  expect(senders().slice(3).toSorted()).toEqual(ids.slice(3).toSorted());
  for (const [i, { at }] of bench.sent.slice(3).entries()) {
    expect(at).toBeGreaterThanOrEqual(bench.sent[0]!.at + 24 * HOUR);
    expect(Math.abs(at - expectedAt[i]!)).toBeLessThanOrEqual(10 * MINUTE);
  }
  await environment.sleep('25 hours');
  expect((await bench.handle.describe()).status.name).toBe('COMPLETED');
});

test('60 waiters at 20 an hour go in order, with few answers 429 and 13 events a request', async () => {
  bench = await startQueueBench(environment, { limits: { create: 20 } });
  const first = await bench.wait(4, { priority: 1, askedAt: 1 });
  await expect.poll(() => bench.sent.length).toBe(4);
  await bench.wait(56, { askedAt: 1_000 });
  // Real time passes besides: the simulation checks how long it takes.
  const sentWell = () => bench.sent.filter(({ isAccepted }) => isAccepted);
  for (let hours = 0; hours < 8 && sentWell().length < 60; hours++) await environment.sleep('1 hour');
  const accepted = sentWell();
  const throttled = bench.sent.filter(({ isAccepted }) => !isAccepted).map(({ at }) => at);
  expect(accepted).toHaveLength(60);
  expect(new Set(accepted.map(({ workflowId }) => workflowId)).size).toBe(60);
  expect(senders().slice(0, 4).toSorted()).toEqual(first.toSorted());
  for (const from of throttled) {
    expect(throttled.filter((at) => at >= from && at < from + HOUR).length).toBeLessThanOrEqual(16);
  }
  const events = (await bench.runs()).reduce((sum, { eventCount }) => sum + eventCount, 0);
  expect(events).toBeLessThanOrEqual(13 * (60 + throttled.length));
});

test('those of a higher priority go first, and within one those who asked first', async () => {
  bench = await startQueueBench(environment);
  const budget = await usedUp(5);
  const late = await bench.wait(5, { askedAt: 1_000, ...budget });
  const early = await bench.wait(3, { askedAt: 500 });
  const urgent = await bench.wait(5, { priority: 1, askedAt: 2_000 });
  const { waiting } = await bench.state();
  expect(waiting.map(({ workflowId }) => workflowId)).toEqual([...urgent, ...early, ...late]);
  expect(waiting.map(({ position }) => position)).toEqual(waiting.map((_, i) => i + 1));
  await environment.sleep('61 minutes');
  expect(senders().toSorted()).toEqual(urgent.toSorted());
  await environment.sleep('61 minutes');
  expect(senders().slice(5).toSorted()).toEqual([...early, ...late.slice(0, 2)].toSorted());
});

test('who asks again keeps the place, and may change the priority', async () => {
  bench = await startQueueBench(environment);
  const [a, b, c] = (await bench.wait(3, { askedAt: 1_000, ...(await usedUp(5)) })) as [string, string, string];
  await bench.join({ workflowId: a, askedAt: 9_000 });
  await bench.join({ workflowId: c, askedAt: 9_000, priority: 2 });
  const { waiting, waitingCount } = await bench.state();
  expect(waiting.map(({ workflowId }) => workflowId)).toEqual([c, a, b]);
  expect(waiting.map(({ since }) => Date.parse(since))).toEqual([1_002, 1_000, 1_001]);
  expect(waitingCount).toBe(3);
});

test('a turn for a workflow that is not there goes to the next one at once', async () => {
  bench = await startQueueBench(environment);
  const full = await usedUp(2);
  for (let i = 0; i < 20; i++) await bench.join({ workflowId: `gone-${i}`, askedAt: i, ...(i === 0 && full) });
  const alive = await bench.wait(2, { askedAt: 1_000 });
  await environment.sleep('61 minutes');
  expect(senders().toSorted()).toEqual(alive.toSorted());
  expect(await bench.state()).toMatchObject({ spentLastHour: 2, inFlight: 0, waitingCount: 0 });
});

test('a workflow that is started again keeps its place, though a turn for the run before finds none', async () => {
  const queueTaskQueue = `test-${randomUUID()}`;
  bench = await startQueueBench(environment, { queueTaskQueue });
  let sent = 0;
  // It asks while the first turn leaves: the queue learns of that before it learns that the turn found no workflow.
  const encode = async (payloads: Payload[]) => {
    if ((sent += 1) === 1) await bench.join({ workflowId: 'gone' });
    if (sent === 2) await bench.wait(1, { workflowId: 'gone' });
    return payloads;
  };
  const dataConverter = { payloadCodecs: [{ encode, decode: (payloads: Payload[]) => Promise.resolve(payloads) }] };
  const connection = environment.nativeConnection;
  const worker = await createTestWorker({ connection, taskQueue: queueTaskQueue, activities: {}, dataConverter });
  await worker.runUntil(async () => {
    await bench.join({ workflowId: 'gone', perHour: 1 });
    await expect.poll(senders).toEqual(['gone']);
  });
});

test('a turn that is not reported in time counts as used, and a late report corrects nothing', async () => {
  bench = await startQueueBench(environment);
  const [silent] = await bench.wait(1, { habit: 'silent', perHour: 1 });
  const [turn] = (await environment.client.workflow.getHandle(silent!).result()) as Turn[];
  const [next] = await bench.wait(1, { askedAt: 1 });
  await environment.sleep('95 seconds');
  await expect.poll(() => bench.state()).toMatchObject({ spentLastHour: 1, inFlight: 0, waitingCount: 1 });
  for (const outcome of ['accepted', 'unsent', 'other']) {
    await bench.signal(reportRequestSignal.name, { turn: turn!.id, outcome, at: turn!.until });
  }
  expect(await bench.state()).toMatchObject({ spentLastHour: 1, throttledLastHour: 0, waitingCount: 1 });
  await environment.sleep('61 minutes');
  expect(senders()).toEqual([silent, next]);
  expect(bench.sent[1]!.at - turn!.until).toBeGreaterThanOrEqual(HOUR);
});

test('a 429 that is reported after the end of its turn holds the others for as long as it said', async () => {
  bench = await startQueueBench(environment);
  const [silent] = await bench.wait(1, { habit: 'silent', perHour: 10 });
  const [turn] = (await environment.client.workflow.getHandle(silent!).result()) as Turn[];
  await environment.sleep('95 seconds');
  const at = await now();
  const refused = { turn: turn!.id, outcome: 'throttled', at, retryAfterMs: 30 * MINUTE } as const;
  await bench.signal(reportRequestSignal.name, refused);
  const [next] = await bench.wait(1, { askedAt: 1 });
  expect(await bench.handle.query(queuePlaceQuery, next!)).toMatchObject({ for: 'rateLimit', position: 1 });
  await environment.sleep('31 minutes');
  expect(senders()).toEqual([silent, next]);
  expect(bench.sent[1]!.at - at).toBeGreaterThanOrEqual(30 * MINUTE);
});

test('messages of a wrong shape are ignored, and the queue goes on', async () => {
  bench = await startQueueBench(environment);
  const join = { workflowId: 'w', priority: 3, askedAt: 0 };
  const at = await now();
  const report = { turn: 'of-another-queue:1', at };
  const wrongJoins = [
    ...[undefined, 'text', { ...join, workflowId: '' }, { ...join, workflowId: 'x'.repeat(1_001) }],
    ...[
      { ...join, priority: 0 },
      { ...join, priority: 2.5 },
      { ...join, askedAt: 'yesterday' },
    ],
    ...[
      { ...join, requests: 0 },
      { ...join, report: { turn: null, outcome: 'accepted', at: 'now' } },
    ],
  ];
  const wrongReports = [
    ...[null, { turn: 7, outcome: 'accepted', at }, { turn: null, outcome: 'accepted', at: null }],
    ...[
      { turn: 'x'.repeat(101), outcome: 'accepted', at },
      { ...report, outcome: 'throttled', retryAfterMs: '1' },
    ],
  ];
  for (const argument of wrongJoins) await bench.signal('joinQueue', argument);
  for (const argument of wrongReports) await bench.signal('reportRequest', argument);
  await bench.signal('unknown', {});
  const nothing = { perHour: null, spentLastHour: 0, throttledLastHour: 0, inFlight: 0, waitingCount: 0 };
  expect(await bench.state()).toMatchObject(nothing);
  expect(await bench.handle.query('queuePlace', { no: 'text' })).toBeNull();
  // A turn of before the queue's time counts by what came of it.
  await bench.signal('reportRequest', { ...report, outcome: 'accepted', requests: 3, perHour: 20 });
  await bench.signal('reportRequest', { ...report, outcome: 'unsent' });
  await bench.signal('reportRequest', { ...report, outcome: 'throttled', retryAfterMs: 30 * MINUTE });
  expect(await bench.state()).toMatchObject({ spentLastHour: 3, throttledLastHour: 1 });
  const ids = await bench.wait(1);
  expect(await bench.handle.query(queuePlaceQuery, ids[0]!)).toMatchObject({ for: 'rateLimit', position: 1 });
  await environment.sleep('31 minutes');
  expect(senders()).toEqual(ids);
});

test('while nothing can change, the history does not grow', async () => {
  bench = await startQueueBench(environment);
  await bench.wait(1, { perHour: 1 });
  await bench.wait(3, { askedAt: 1 });
  // The time at which the first turn would have been lost.
  await environment.sleep('2 minutes');
  const before = await bench.eventCount();
  await environment.sleep('55 minutes');
  expect(await bench.eventCount()).toBe(before);
});

test('an input of a wrong shape fails the queue', async () => {
  bench = await startQueueBench(environment);
  for (const input of [
    undefined,
    { operation: 'get', projectId: 'p' },
    { operation: 'create', projectId: '..' },
    { operation: 'create' },
    { operation: 'visitors', projectId: 'p' },
  ]) {
    const handle = await environment.client.workflow.start('requestQueue', { ...bench.starting, args: [input] });
    await expect(handle.result()).rejects.toMatchObject({ cause: { type: FAILURE.invalidInput } });
  }
});
