import { expect, test } from 'vitest';
import { RequestFacts } from '../../src/activities/request-facts.js';
import { SendLines } from '../../src/activities/agent-job/send-lines.js';

const HOUR_MS = 3_600_000;

test('a line sends one at a time, in order, and more once it is wider', async () => {
  const lines = new SendLines(new AbortController().signal);
  const order: number[] = [];
  const enter = (n: number) =>
    lines.enter('a', { forMs: 10_000, width: 1 }).then((leave) => {
      order.push(n);
      return leave!;
    });
  const first = await enter(1);
  const others = [2, 3, 4, 5].map(enter);
  await Promise.resolve();
  expect({ order, isBusy: lines.isBusy('a'), isOtherBusy: lines.isBusy('b') }).toEqual({
    order: [1],
    isBusy: true,
    isOtherBusy: false,
  });
  first(1);
  const second = await others[0]!;
  expect(order).toEqual([1, 2]);
  second(3);
  const rest = await Promise.all(others.slice(1));
  expect(order).toEqual([1, 2, 3, 4, 5]);
  expect(await lines.enter('a', { forMs: 1, width: 3 })).toBeNull();
  for (const leave of rest) leave(3);
  expect(lines.isBusy('a')).toBe(false);
  expect(await lines.enter('a', { forMs: 1, width: 1 })).not.toBeNull();
});

test('a line that is closed lets nobody wait, and whoever has room is sent', async () => {
  const closing = new AbortController();
  const lines = new SendLines(closing.signal);
  const options = { forMs: 60_000, width: 1 };
  const leave = await lines.enter('a', options);
  const waiting = lines.enter('a', options);
  closing.abort();
  expect(await waiting).toBeNull();
  expect(await lines.enter('a', options)).toBeNull();
  leave!(1);
  expect(await lines.enter('a', options)).not.toBeNull();
});

test('a line widens with what the upstream took in this hour, and is one again after a 429', () => {
  const facts = new RequestFacts();
  const widthAt = (now: number) => facts.lineWidth('a', now, false);
  const accept = (count: number, now: number) => facts.accepted('a', now, count);
  expect(widthAt(0)).toBe(1);
  accept(65, 0);
  expect(widthAt(0)).toBe(1);
  accept(1, 0);
  expect(widthAt(0)).toBe(2);
  accept(5_000, 10 * 60_000);
  expect(widthAt(10 * 60_000)).toBe(20);
  expect(facts.lineWidth('b', 0, true)).toBe(100);
  facts.throttled('b', 1, undefined);
  expect(facts.lineWidth('b', 2, true)).toBe(1);
  facts.throttled('a', 11 * 60_000, undefined);
  expect(widthAt(11 * 60_000)).toBe(1);
  expect(widthAt(11 * 60_000 + 2 * HOUR_MS)).toBe(1);
});
