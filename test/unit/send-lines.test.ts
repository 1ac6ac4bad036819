import { expect, test } from 'vitest';
import { SendLines } from '../../src/activities/agent-job/send-lines.js';

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
