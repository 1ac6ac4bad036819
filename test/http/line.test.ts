/** Turns to work: who comes after whom, however much the others ask for. */
import { setImmediate } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { Line } from '../../src/http/line.js';
import { headOf, LIST, openRequests, peer, useHttp } from './http-server.js';

const used = useHttp();

test('however many requests of a key are in line, one of another key comes after one of them', async () => {
  const line = new Line();
  const turns: string[] = [];
  const go = (key: string, of: 'begun' | 'fresh' = 'fresh') =>
    line.turn(key, of).then(() => turns.push(`${key} ${of}`));
  const all = Array.from({ length: 200 }, () => go('a'));
  await setImmediate();
  const before = turns.length;
  await Promise.all([go('b'), go('c'), go('a', 'begun'), go('b')]);
  // What has begun goes before what has not.
  expect(turns.slice(before, before + 5)).toEqual(['a begun', 'b fresh', 'c fresh', 'a fresh', 'b fresh']);
  await Promise.all(all);
  expect(turns.length).toBe(204);
});

test('a request that was in line for too long is told to come back, and those after it get their turns', async () => {
  const line = new Line(20);
  await line.turn('a', 'fresh');
  const late = Array.from({ length: 3 }, () => line.turn('a', 'fresh'));
  const outcomes = Promise.allSettled(late);
  // Neither turns nor timers come while this thread works. Then one turn may come first.
  for (const until = performance.now() + 60; performance.now() < until;);
  const reason = { status: 503, body: { retryable: true }, headers: { 'retry-after': '2' } };
  expect((await outcomes).slice(1)).toMatchObject([{ reason }, { reason }]);
  // A busy machine may make one of these late, too.
  for (const key of ['a', 'b']) await vi.waitFor(() => line.turn(key, 'fresh'), { timeout: 60_000 });
});

test('large bodies of one key keep a request of another key waiting for few of them', async () => {
  const { bench } = used;
  const start = (key: string, body: string) => {
    const headers = ['content-type: application/json', `content-length: ${body.length}`, 'idempotency-key: k'];
    return headOf({ ...bench, own: key }, `POST ${LIST}`, ...headers) + body;
  };
  const large = start(bench.own, JSON.stringify({ prompt: 1, metadata: { a: 'x'.repeat(100_000) } }));
  const peers = Array.from({ length: 40 }, () => peer(bench, large.slice(0, -1)));
  const ask = start(bench.operator, '{"prompt":1}');
  const other = peer(bench, ask);
  expect(await other.statuses(1)).toEqual([422]);
  await expect.poll(() => openRequests(bench)).toBe(40);
  for (const { socket } of peers) socket.write('}');
  other.socket.write(ask);
  const before = new Promise<number>((resolve) => {
    other.socket.once('data', () => resolve(peers.filter(({ answer }) => answer() !== '').length));
  });
  expect(await before).toBeLessThan(10);
  for (const one of peers) expect(await one.statuses(1)).toEqual([422]);
  for (const { socket } of [...peers, other]) socket.destroy();
});
