import { describe, expect, test } from 'vitest';
import { PollLease, type PollLeaseOptions } from '../../src/activities/agent-job/poller.js';
import { ReadStarts } from '../../src/activities/agent-job/read-starts.js';
import { Poller } from '../../src/activities/agent-job/poller.js';
import { noMetrics } from '../support/no-metrics.js';

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

describe('where the process stood still, reads that had to wait for their turn do not begin all at once', () => {
  /** A second's reads, those that may come together, and those whose turn is still good. */
  const MOST = 1_000 + 100 + 400;

  function standStill(ms: number): void {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  }

  /** The most of these times that lie in any second. */
  function mostInASecond(times: readonly number[]): number {
    return Math.max(...times.map((from) => times.filter((time) => time >= from && time < from + 1_000).length));
  }

  test('in the first poll of an attempt', async () => {
    const starts = new ReadStarts(new AbortController().signal);
    const begun: number[] = [];
    const waits = Array.from({ length: 2_000 }, () => starts.wait().then(() => begun.push(performance.now())));
    standStill(3_000);
    await Promise.allSettled(waits);
    expect(begun.length).toBeGreaterThan(1_500);
    expect(mostInASecond(begun)).toBeLessThan(MOST + 100);
  });

  test('in the poller', async () => {
    const poller = new Poller(new AbortController().signal, noMetrics);
    const begun: number[] = [];
    const read = () => Promise.resolve((begun.push(performance.now()), { kind: 'end', result: {} }));
    const run = { elapsedMs: 0, progress: { hasNews: false, saved: {} }, read };
    const attempt = { complete: () => Promise.resolve('accepted') };
    for (let i = 0; i < 3_000; i++) {
      const options = { name: `${i}`, workflowId: `${i}`, run, attempt, leaseMs: 290_000 };
      poller.take(() => new PollLease(options as unknown as PollLeaseOptions), 0);
    }
    await expect.poll(() => begun.length).toBeGreaterThan(0);
    standStill(3_000);
    await expect.poll(() => begun.length).toBe(3_000);
    expect(mostInASecond(begun)).toBeLessThan(MOST + 100);
  });
});
