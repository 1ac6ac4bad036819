import { expect, test } from 'vitest';
import { ReadStarts } from '../../src/activities/agent-job/read-starts.js';

/** How many of these times fall into each second. */
function perSecond(times: readonly number[]): number[] {
  const counts: number[] = [];
  for (const time of times) counts[Math.floor(time / 1_000)] = (counts[Math.floor(time / 1_000)] ?? 0) + 1;
  return counts;
}

test('reads that come now and then begin at once', () => {
  let now = 0;
  const starts = new ReadStarts(new AbortController().signal, () => now);
  for (; now < 10_000; now += 5) expect(starts.reserve()).toMatchObject({ isShort: true, ms: 0 });
});

test('ten thousand reads that are due at once are spread over ten seconds, and each gets its turn', () => {
  let now = 0;
  const starts = new ReadStarts(new AbortController().signal, () => now);
  const due = Array.from({ length: 10_000 }, () => 0);
  const begun: number[] = [];
  for (let rounds = 0; due.length > 0; rounds++) {
    expect(rounds).toBeLessThan(20_000);
    now = due.shift()!;
    const { isShort, ms } = starts.reserve();
    if (isShort) begun.push(now + ms);
    else due.push(now + ms); // later than all before it
  }
  expect(begun).toHaveLength(10_000);
  expect(Math.max(...perSecond(begun))).toBeLessThanOrEqual(1_101);
  expect(perSecond(begun).length).toBeLessThanOrEqual(11);
});
