import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LOST_AFTER, plannedPolls, pollWaitMs, untilLostMs, type PollPlan } from '../../src/agent-job/poll-waits.js';
import { throttledWaitMs, resendWaitMs } from '../../src/agent-job/waits.js';

const HOUR = 3_600_000;
const plans: fc.Arbitrary<PollPlan> = fc
  .record({
    minMs: fc.integer({ min: 1_000, max: 10 * HOUR }),
    extraMs: fc.integer({ min: 0, max: 10 * HOUR }),
    ratio: fc.double({ min: 0, max: 10, noNaN: true }),
  })
  .map(({ minMs, extraMs, ratio }) => ({ minMs, maxMs: minMs + extraMs, ratio }));
const random = fc.double({ min: 0, max: 1, noNaN: true });
const sinceChangeMs = fc.integer({ min: 0, max: 1_000 * HOUR });

test('a wait follows the time since the last change, within the bounds and the jitter, never above max', () => {
  fc.assert(
    fc.property(plans, sinceChangeMs, random, (plan, since, at) => {
      const wait = pollWaitMs(plan, { sinceChangeMs: since, failures: 0, random: at });
      const planned = Math.min(Math.max(plan.ratio * since, plan.minMs), plan.maxMs);
      expect(wait).toBeGreaterThanOrEqual(Math.floor(planned * 0.9));
      expect(wait).toBeLessThanOrEqual(Math.min(Math.ceil(planned * 1.1), plan.maxMs));
    }),
  );
});

test('a failing upstream is never asked sooner than a healthy one, and at least every 5 minutes or as planned', () => {
  fc.assert(
    fc.property(plans, sinceChangeMs, random, fc.integer({ min: 1, max: 2_000 }), (plan, since, at, failures) => {
      const situation = { sinceChangeMs: since, random: at };
      const healthy = pollWaitMs(plan, { ...situation, failures: 0 });
      const failing = pollWaitMs(plan, { ...situation, failures });
      expect(failing).toBeGreaterThanOrEqual(healthy);
      expect(failing).toBeLessThanOrEqual(Math.max(healthy, 300_000));
      expect(pollWaitMs(plan, { ...situation, failures: failures + 1 })).toBeGreaterThanOrEqual(failing);
    }),
  );
});

test('a wait among answers 404 grows no longer than until the next one makes the job lost', () => {
  const untilLost = fc.integer({ min: -HOUR, max: HOUR });
  fc.assert(
    fc.property(plans, sinceChangeMs, random, untilLost, (plan, since, at, untilLostMs) => {
      const situation = { sinceChangeMs: since, random: at };
      const healthy = pollWaitMs(plan, { ...situation, failures: 0 });
      const failing = pollWaitMs(plan, { ...situation, failures: 5 });
      const wait = pollWaitMs(plan, { ...situation, failures: 5, untilLostMs });
      expect(wait).toBe(Math.max(healthy, Math.min(failing, untilLostMs)));
    }),
  );
  expect(untilLostMs({ count: LOST_AFTER.count - 1, since: 1_000 }, 11_000)).toBe(50_000);
  expect(untilLostMs({ count: LOST_AFTER.count - 2, since: 1_000 }, 11_000)).toBeUndefined();
  expect(untilLostMs(null, 11_000)).toBeUndefined();
  expect(untilLostMs({ count: LOST_AFTER.count, since: 1_000, isLost: true }, 99_000)).toBeUndefined();
});

/** The wait after a poll that showed an end, which then had stood for `forMs`. */
function standingWait(plan: PollPlan, forMs: number, settleMs: number, failures = 0): number {
  const standing = { forMs, leftMs: Math.max(0, settleMs - forMs) };
  return pollWaitMs(plan, { sinceChangeMs: 0, failures, standing, random: 0.5 });
}

/** The waits until an end has stood for `settleMs`. */
function standingWaits(plan: PollPlan, settleMs: number, failures?: number): number[] {
  const waits: number[] = [];
  for (let forMs = 0; forMs < settleMs; forMs += waits.at(-1)!) {
    waits.push(standingWait(plan, forMs, settleMs, failures));
  }
  return waits;
}

test.for<[what: string, plan: PollPlan, settleMs: number, waits: number[], failures?: number]>([
  [
    'waits double from the shortest',
    { minMs: 2_000, maxMs: 60_000, ratio: 0.1 },
    30_000,
    [2_000, 4_000, 8_000, 16_000],
  ],
  ['up to the longest', { minMs: 1_000, maxMs: 3_000, ratio: 9 }, 10_000, [1_000, 2_000, 3_000, 3_000, 1_000]],
  ['one read falls at the end of `settle`', { minMs: 2_000, maxMs: 60_000, ratio: 0.1 }, 7_000, [2_000, 4_000, 1_000]],
  ['that read also comes to a rare plan', { minMs: HOUR, maxMs: HOUR, ratio: 0 }, 30_000, [30_000]],
  ['failures do not delay it', { minMs: 2_000, maxMs: 60_000, ratio: 0.1 }, 30_000, [30_000], 9],
])('while an end stands, %s', ([, plan, settleMs, waits, failures]) => {
  expect(standingWaits(plan, settleMs, failures)).toEqual(waits);
});

test('an end that had stood before a read was answered is read again at once, and after failures as planned', () => {
  const waits = (plan: PollPlan) => [0, 1, 2].map((failures) => standingWait(plan, 31_000, 30_000, failures));
  expect(waits({ minMs: 2_000, maxMs: 60_000, ratio: 0.1 })).toEqual([0, 2_000, 4_000]);
  expect(waits({ minMs: HOUR, maxMs: HOUR, ratio: 0 })).toEqual([0, HOUR, HOUR]);
});

test('Retry-After replaces a shorter wait, for at most an hour', () => {
  fc.assert(
    fc.property(plans, sinceChangeMs, random, fc.nat(10 * HOUR), (plan, since, at, retryAfterMs) => {
      const situation = { sinceChangeMs: since, failures: 0, random: at };
      const without = pollWaitMs(plan, situation);
      expect(pollWaitMs(plan, { ...situation, retryAfterMs })).toBe(Math.max(without, Math.min(retryAfterMs, HOUR)));
    }),
  );
});

test('after a 429 a write waits as long as it says, 1 second to 1 hour, else 5 seconds doubling to 5 minutes', () => {
  expect([1, 2, 3, 4, 5, 6, 7, 8, 999].map((tries) => throttledWaitMs(tries, undefined))).toEqual([
    5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000, 300_000,
  ]);
  fc.assert(
    fc.property(fc.nat(10 * HOUR), (told) => {
      expect(throttledWaitMs(1, told)).toBe(Math.min(Math.max(told, 1_000), HOUR));
    }),
  );
});

test('a short Retry-After that is given again and again is doubled to 5 minutes, a longer one stays as it is', () => {
  expect([1, 2, 3, 4, 5, 8, 9, 10, 999].map((tries) => throttledWaitMs(tries, 1_000))).toEqual([
    1_000, 2_000, 4_000, 8_000, 16_000, 128_000, 256_000, 300_000, 300_000,
  ]);
  expect([1, 2, 99].map((tries) => throttledWaitMs(tries, 0))).toEqual([1_000, 2_000, 300_000]);
  expect([1, 2, 99].map((tries) => throttledWaitMs(tries, 40 * 60_000))).toEqual([2_400_000, 2_400_000, 2_400_000]);
});

test('five sends that are answered at once fit into a minute', () => {
  expect([1, 2, 3, 4].map(resendWaitMs).reduce((sum, wait) => sum + wait, 0)).toBeLessThan(60_000);
});

test('reads of a cut poll are estimated: at least one, no more than its share or its time allows', () => {
  fc.assert(
    fc.property(plans, sinceChangeMs, fc.nat(HOUR), fc.integer({ min: 1, max: 60 }), (plan, since, duration, most) => {
      const reads = plannedPolls(plan, { sinceChangeMs: since }, duration, most);
      expect(reads).toBeGreaterThanOrEqual(1);
      expect(reads).toBeLessThanOrEqual(Math.min(most, 1 + duration / (0.9 * plan.minMs)));
    }),
  );
});

test('reads of a cut poll are estimated by the waits of an end that stands', () => {
  const plan = { minMs: 2_000, maxMs: 60_000, ratio: 0.1 };
  const began = { sinceChangeMs: 0, standing: { forMs: 0, leftMs: 30_000 } };
  expect([1, 15, 31].map((seconds) => plannedPolls(plan, began, seconds * 1_000, 120))).toEqual([1, 4, 5]);
});
