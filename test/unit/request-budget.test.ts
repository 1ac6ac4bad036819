import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RequestBudget } from '../../src/agent-job/request-budget.js';
import { RollingHour } from '../../src/agent-job/rolling-hour.js';
import { burst, evenly, HOUR, MINUTE, mostInAnHour, simulate } from './simulated-budget.js';

const LIMIT = 100;
/** What a moment's delay adds to the hours that the budget takes. */
const SLACK = 1.03;

/** Answers 429 to requests that were in flight together are one refusal. */
function refusals(times: number[]): number[] {
  return times.filter((at, i) => i === 0 || at - times[i - 1]! > 5_000);
}

describe('300 requests where the upstream takes 100 an hour', () => {
  test('all go through within two hours, with at most three answers 429 an hour', () => {
    const { accepted, throttled } = simulate({ limits: { create: LIMIT }, asked: evenly(300, 500) });
    expect(accepted).toHaveLength(300);
    expect(accepted.at(-1)).toBeLessThanOrEqual(2 * HOUR * SLACK);
    expect(mostInAnHour(accepted)).toBe(LIMIT);
    expect(mostInAnHour(throttled)).toBeLessThanOrEqual(3);
  });

  test('all go through in a fixed window, too, with at most three refusals an hour', () => {
    const limits = { create: LIMIT, window: 'fixed' } as const;
    for (const asked of [evenly(300, 500), burst(300), evenly(300, 30_000)]) {
      const { accepted, throttled } = simulate({ limits, asked });
      expect(accepted).toHaveLength(300);
      expect(accepted.at(-1)).toBeLessThanOrEqual(Math.max(2 * HOUR, asked.at(-1)! + HOUR) * SLACK);
      expect(mostInAnHour(refusals(throttled))).toBeLessThanOrEqual(3);
    }
  });

  test('a Retry-After needs fewer answers 429', () => {
    const limits = { create: LIMIT, retryAfter: 'seconds' } as const;
    const { accepted, throttled } = simulate({ limits, asked: evenly(300, 500) });
    expect(accepted.at(-1)).toBeLessThanOrEqual(2 * HOUR * SLACK);
    expect(refusals(throttled)).toHaveLength(2);
  });

  test('a budget that is set needs no answer 429', () => {
    const { accepted, throttled, looks } = simulate({ limits: { create: LIMIT }, asked: burst(300), perHour: LIMIT });
    expect(accepted.at(-1)).toBeLessThanOrEqual(2 * HOUR * SLACK);
    expect(throttled).toEqual([]);
    // One for the answers of five that were in flight together, and a few for the hours.
    expect(looks).toBeLessThanOrEqual(300 / 5 + 10);
  });

  test('a set budget is never exceeded, whatever the upstream would take', () => {
    const { accepted, throttled } = simulate({ limits: { create: LIMIT }, asked: burst(300), perHour: 50 });
    expect(throttled).toEqual([]);
    expect(mostInAnHour(accepted)).toBe(50);
    expect(accepted.at(-1)).toBeLessThanOrEqual(5 * HOUR * SLACK);
  });

  test('a set budget that is too high is corrected by the first answers 429', () => {
    const { accepted, throttled, budget } = simulate({ limits: { create: LIMIT }, asked: burst(300), perHour: 120 });
    expect(accepted.at(-1)).toBeLessThanOrEqual(2 * HOUR * SLACK);
    expect(mostInAnHour(refusals(throttled))).toBeLessThanOrEqual(3);
    expect(budget).toMatchObject({ perHour: LIMIT, isLearned: true });
  });

  test('a set budget that is far too high draws a few answers 429 at once, not all that are beyond', () => {
    for (const perHour of [101, 150, 200]) {
      const { accepted, throttled } = simulate({ limits: { create: LIMIT }, asked: burst(300), perHour });
      expect(accepted.at(-1)).toBeLessThanOrEqual(2 * HOUR * SLACK);
      expect(throttled.length).toBeLessThanOrEqual(Math.ceil(perHour / 25) + 2);
    }
  });
});

test('of an upstream that takes fewer than ten an hour, all is used, with few refusals once it is known', () => {
  for (const create of [1, 2, 5, 9]) {
    for (const asked of [burst(6 * create), evenly(6 * create, HOUR / (1.3 * create))]) {
      const { accepted, throttled } = simulate({ limits: { create }, asked });
      expect(accepted).toHaveLength(6 * create);
      expect(accepted.at(-1)).toBeLessThanOrEqual(Math.max(5 * HOUR, asked.at(-1)! + HOUR) * SLACK);
      expect(mostInAnHour(refusals(throttled))).toBeLessThanOrEqual(10);
      expect(mostInAnHour(refusals(throttled.filter((at) => at > throttled[0]! + HOUR)))).toBeLessThanOrEqual(3);
    }
  }
});

test('requests that keep coming a little faster than the budget cost one answer 429 an hour', () => {
  const { accepted, throttled } = simulate({ limits: { create: LIMIT }, asked: evenly(660, HOUR / 110) });
  expect(accepted.at(-1)).toBeLessThanOrEqual(6.6 * HOUR * SLACK);
  expect(mostInAnHour(accepted)).toBe(LIMIT);
  expect(mostInAnHour(throttled)).toBe(1);
});

test('requests that keep within the limit never meet the queue', () => {
  const { throttled, looks } = simulate({ limits: { create: LIMIT }, asked: evenly(300, HOUR / 99) });
  expect([throttled, looks]).toEqual([[], 0]);
});

test('of a limit that is shared with somebody else, the rest is used', () => {
  const others = evenly(400, 2 * MINUTE);
  const { accepted, throttled } = simulate({ limits: { create: LIMIT }, asked: burst(490), others });
  // A hundred at first, then seventy an hour at least.
  expect(accepted.at(-1)).toBeLessThanOrEqual((1 + 390 / 70) * HOUR * SLACK);
  expect(mostInAnHour(refusals(throttled))).toBeLessThanOrEqual(4);
});

test('whatever the limit, the pace and the others, all requests go through, none beyond a set budget', () => {
  const simulations = fc.record({
    limits: fc.record({
      create: fc.integer({ min: 12, max: 150 }),
      window: fc.constantFrom('sliding' as const, 'fixed' as const),
      retryAfter: fc.constantFrom('none' as const, 'seconds' as const),
    }),
    asked: fc.oneof(
      fc.integer({ min: 1, max: 400 }).map((count) => burst(count)),
      fc.tuple(fc.nat(300), fc.integer({ min: 50, max: MINUTE })).map(([count, every]) => evenly(count, every)),
    ),
    perHour: fc.option(fc.integer({ min: 1, max: 200 }), { nil: 1_000 }),
    roundTripMs: fc.integer({ min: 10, max: 20_000 }),
    others: fc.tuple(fc.nat(40), fc.integer({ min: 1_000, max: 10 * MINUTE })).map(([n, every]) => evenly(n, every)),
  });
  fc.assert(
    fc.property(simulations, (simulation) => {
      const { accepted } = simulate(simulation);
      expect(accepted).toHaveLength(simulation.asked.length);
      expect(mostInAnHour(accepted)).toBeLessThanOrEqual(simulation.perHour);
    }),
    { numRuns: 150 },
  );
});

/** A budget with a clock that stands until it is moved. */
function budgetAt(start = 1_000 * HOUR) {
  const clock = { now: start };
  const budget = new RequestBudget(null, () => clock.now);
  const answer = (kind: 'accepted' | 'throttled', retryAfterMs?: number) => {
    const allowance = budget.allowance(1)!;
    const times = { at: clock.now + 1_000, givenAt: clock.now };
    budget.begin(allowance);
    clock.now += 1_000;
    budget.end(allowance);
    if (kind === 'accepted') budget.accepted(times, 1, allowance.isBeyond);
    else budget.throttled(times, retryAfterMs);
  };
  return { clock, budget, answer };
}
const untold = (at: number) => ({ at, givenAt: null });

test('what was sent with a turn counts from when the queue is told, or from the end of its turn', () => {
  const { clock, budget } = budgetAt();
  budget.hear({ perHour: 1 });
  const sentAt = clock.now;
  clock.now += 40_000;
  // The worker's task had waited, and its clock does not know.
  budget.accepted({ at: sentAt + 1_000, givenAt: sentAt, until: sentAt + MINUTE }, 1);
  expect(budget.nextTurnAt(1)).toBe(sentAt + 40_000 + HOUR);
  clock.now = sentAt + 2 * HOUR;
  const { at, until } = { at: clock.now + 1_000, until: clock.now + MINUTE };
  clock.now += 30 * MINUTE;
  budget.accepted({ at, givenAt: at - 1_000, until }, 1);
  expect(budget.nextTurnAt(1)).toBe(until + HOUR);
});

test('where nothing is known, three turns are in flight at most', () => {
  const { budget } = budgetAt();
  for (let i = 0; i < 3; i++) budget.begin(budget.allowance(1)!);
  expect([budget.allowance(1), budget.nextTurnAt(1), budget.perHour]).toEqual([null, null, null]);
});

test('where little was accepted, a 429 teaches nothing: the waits double from 5 seconds to 5 minutes', () => {
  const { clock, budget, answer } = budgetAt();
  const waits = Array.from({ length: 8 }, () => {
    answer('throttled');
    const wait = budget.nextTurnAt(1)! - clock.now;
    clock.now += wait;
    return wait / 1_000;
  });
  expect(waits).toEqual([5, 10, 20, 40, 80, 160, 300, 300]);
  expect(budget.perHour).toBeNull();
});

test('fewer than ten teach the budget after seven refusals in a row, and it is tried 20 minutes later', () => {
  const { clock, budget, answer } = budgetAt();
  for (let i = 0; i < 3; i++) answer('accepted');
  for (let i = 0; i < 7; i++) {
    expect(budget.perHour).toBeNull();
    answer('throttled');
    if (i < 6) clock.now = budget.nextTurnAt(1)!;
  }
  expect(budget).toMatchObject({ perHour: 3, isLearned: true });
  const waits = Array.from({ length: 2 }, () => {
    const wait = budget.nextTurnAt(1)! - clock.now;
    clock.now += wait;
    answer('throttled');
    return wait / MINUTE;
  });
  expect(waits).toEqual([20, 20]);
  expect(budget.perHour).toBe(3);
});

test('a budget is learned from what was accepted in the hour before a 429, and tried again 20 minutes later', () => {
  const { clock, budget, answer } = budgetAt();
  for (let i = 0; i < 30; i++) answer('accepted');
  answer('throttled');
  expect(budget).toMatchObject({ perHour: 30, isLearned: true });
  expect(budget.nextTurnAt(1)! - clock.now).toBe(20 * MINUTE);
  clock.now += 20 * MINUTE;
  answer('throttled');
  clock.now += 20 * MINUTE;
  answer('throttled');
  // Three in an hour: now the hour of the first accepted ones ends first.
  expect(budget.nextTurnAt(1)! - clock.now).toBeGreaterThan(18 * MINUTE);
  expect(budget.nextTurnAt(1)! - clock.now).toBeLessThan(20 * MINUTE);
});

test('after a refusal one request is tried alone, and each that is accepted lets twice as many go', () => {
  const { clock, budget, answer } = budgetAt();
  const inFlight = () => {
    const allowances = [];
    for (let allowance; (allowance = budget.allowance(1));) {
      budget.begin(allowance);
      allowances.push(allowance);
    }
    for (const allowance of allowances) budget.end(allowance);
    return allowances.length;
  };
  budget.hear({ perHour: 1_000 });
  expect(inFlight()).toBe(40);
  answer('throttled');
  clock.now = budget.nextTurnAt(1)!;
  const windows = Array.from({ length: 6 }, () => {
    const window = inFlight();
    answer('accepted');
    return window;
  });
  expect(windows).toEqual([1, 2, 4, 8, 16, 20]);
});

test('a Retry-After is obeyed from 1 second to 1 hour, and a short one doubled when it comes again', () => {
  const cases = [
    [0, [1_000, 2_000, 4_000]],
    [30_000, [30_000, 60_000, 120_000]],
    [5 * HOUR, [HOUR, HOUR, HOUR]],
  ] as const;
  for (const [told, expected] of cases) {
    const { clock, budget, answer } = budgetAt();
    const waits = expected.map(() => {
      answer('throttled', told);
      expect(budget.waitsAsTold).toBe(true);
      const wait = budget.nextTurnAt(1)! - clock.now;
      clock.now += wait;
      return wait;
    });
    expect(waits).toEqual(expected);
  }
});

test('answers 429 to requests that were in flight together double the wait once', () => {
  const { clock, budget } = budgetAt();
  const start = clock.now;
  for (let i = 0; i < 5; i++) budget.throttled(untold(start));
  expect(budget.nextTurnAt(1)).toBe(start + 5_000);
  expect(budget.throttledLastHour).toBe(5);
  clock.now = start + 5_000;
  budget.throttled({ at: clock.now, givenAt: start - 1_000 });
  expect(budget.nextTurnAt(1)).toBe(clock.now);
  budget.throttled({ at: clock.now, givenAt: start + 5_000 });
  expect(budget.nextTurnAt(1)).toBe(clock.now + 10_000);
});

test('an answer to a request that was sent before a refusal does not open the window again', () => {
  const { clock, budget } = budgetAt();
  budget.hear({ perHour: 100 });
  budget.throttled({ at: clock.now, givenAt: clock.now - 2_000 });
  budget.accepted({ at: clock.now, givenAt: clock.now - 1_000 }, 1);
  clock.now += 5_000;
  budget.begin(budget.allowance(1)!);
  expect(budget.allowance(1)).toBeNull();
});

test('what a worker tells late of the time before a refusal still teaches the budget', () => {
  const { clock, budget } = budgetAt();
  const refusedAt = clock.now;
  budget.throttled(untold(refusedAt));
  expect(budget.perHour).toBeNull();
  clock.now += 2_000;
  budget.hear({ accepted: [[refusedAt - 30_000, 9]] });
  expect(budget.perHour).toBeNull();
  budget.hear({ accepted: [[refusedAt - 20_000, 41]] });
  expect(budget.perHour).toBe(50);
  budget.hear({ accepted: [[refusedAt - 10_000, 50]] });
  expect(budget.perHour).toBe(100);
  expect(budget.nextTurnAt(1)).toBe(refusedAt + 20 * MINUTE);
});

test('an hour after the last refusal one request beyond the learned budget is tried, and then more', () => {
  const { clock, budget, answer } = budgetAt();
  const start = clock.now;
  budget.hear({ accepted: [[start - 50 * MINUTE, 20]] });
  budget.throttled(untold(start));
  clock.now = start + 10 * MINUTE;
  for (let i = 0; i < 20; i++) answer('accepted');
  expect(budget.nextTurnAt(1)).toBe(start + HOUR);
  clock.now = start + HOUR;
  expect(budget.allowance(1)).toEqual({ requests: 1, isBeyond: true });
  // The limit was raised: what goes beyond the budget is accepted, one after the other.
  for (let i = 0; i < 30; i++) answer('accepted');
  expect(budget).toMatchObject({ perHour: 50, spentLastHour: 50 });
  answer('throttled');
  expect(budget.perHour).toBe(50);
  // The first twenty leave the hour before another try.
  expect(budget.nextTurnAt(1)! - start).toBeLessThan(HOUR + 11 * MINUTE);
});

test('a try beyond the budget that was not made is made again at once, one that showed nothing a minute later', () => {
  const { clock, budget, answer } = budgetAt();
  for (let i = 0; i < 20; i++) answer('accepted');
  answer('throttled');
  clock.now = budget.nextTurnAt(1)!;
  const tried = budget.allowance(1)!;
  budget.begin(tried);
  expect(budget.nextTurnAt(1)).toBeNull();
  budget.end(tried);
  budget.unsent(tried);
  expect(budget.allowance(1)).toEqual(tried);
  budget.begin(tried);
  budget.end(tried);
  budget.spent(untold(clock.now), 1);
  expect(budget.nextTurnAt(1)).toBe(clock.now + MINUTE);
});

test('a request beyond the budget is not tried where the hour frees one within a minute', () => {
  const { clock, budget, answer } = budgetAt();
  const start = clock.now;
  for (let i = 0; i < 20; i++) answer('accepted');
  clock.now = start + 39.5 * MINUTE;
  budget.throttled({ at: clock.now, givenAt: clock.now - 1_000 });
  // 20 minutes later the first of the twenty are 59.5 minutes old.
  expect(budget.nextTurnAt(1)).toBeGreaterThanOrEqual(start + HOUR);
});

test('a turn for many requests waits for a tenth of the budget, and gets what is left', () => {
  const { clock, budget } = budgetAt();
  budget.hear({ perHour: 100, accepted: [[clock.now, 95]] });
  expect(budget.allowance(4)).toEqual({ requests: 4, isBeyond: false });
  expect(budget.allowance(25)).toBeNull();
  clock.now = budget.nextTurnAt(25)!;
  expect(budget.allowance(25)).toEqual({ requests: 25, isBeyond: false });
  budget.begin({ requests: 85, isBeyond: false });
  expect(budget.allowance(25)).toEqual({ requests: 15, isBeyond: false });
});

test('a set budget stays while some workers name none, and goes when nobody names it for a quarter of an hour', () => {
  const { clock, budget } = budgetAt();
  budget.hear({ perHour: 100 });
  budget.hear({ perHour: null });
  budget.hear({});
  expect(budget.perHour).toBe(100);
  budget.hear({ perHour: 200 });
  clock.now += 14 * MINUTE;
  budget.hear({ perHour: null });
  expect(budget.perHour).toBe(200);
  clock.now += MINUTE;
  budget.hear({});
  expect(budget.perHour).toBe(200);
  budget.hear({ perHour: null });
  expect(budget.perHour).toBeNull();
});

test('"unlimited" takes a number back at once, and the newest message with either wins', () => {
  const { budget } = budgetAt();
  budget.hear({ perHour: 2 });
  budget.hear({ perHour: null, isUnlimited: true });
  expect(budget.perHour).toBeNull();
  budget.hear({ perHour: 3 });
  budget.hear({ perHour: null, isUnlimited: false });
  budget.hear({ perHour: null });
  expect(budget.perHour).toBe(3);
});

test('"unlimited" is no reason to send more than what answers 429 have taught', () => {
  const { clock, budget } = budgetAt();
  budget.hear({ perHour: 100, accepted: [[clock.now - MINUTE, 20]] });
  budget.throttled({ at: clock.now, givenAt: null });
  budget.hear({ perHour: null, isUnlimited: true });
  expect(budget).toMatchObject({ perHour: 20, isLearned: true });
});

test("a worker's clock may be wrong: nothing counts as sent in the future, nor before its turn", () => {
  const { clock, budget } = budgetAt();
  const start = clock.now;
  budget.hear({ perHour: 3, accepted: [[start + 10 * HOUR, 1]] });
  budget.accepted({ at: start - 10 * HOUR, givenAt: start - 1_000 }, 1);
  budget.accepted({ at: Number.MAX_SAFE_INTEGER, givenAt: start }, 1);
  expect(budget.spentLastHour).toBe(3);
  expect(budget.nextTurnAt(1)).toBe(start - 1_000 + HOUR);
  budget.throttled(untold(start - HOUR));
  expect(budget.throttledLastHour).toBe(0);
});

test('what is handed on goes on the same', () => {
  const { clock, budget, answer } = budgetAt();
  for (let i = 0; i < 25; i++) answer('accepted');
  answer('throttled');
  const next = new RequestBudget(JSON.parse(JSON.stringify(budget.carry())), () => clock.now);
  expect(next.carry()).toEqual(budget.carry());
  expect(next.nextTurnAt(1)).toBe(budget.nextTurnAt(1));
});

test('nothing need be remembered an hour after the last request and the last 429', () => {
  const { clock, budget, answer } = budgetAt();
  expect(budget.forgettableAt).toBe(clock.now);
  budget.hear({ accepted: [[clock.now, 5]] });
  expect(budget.forgettableAt).toBe(clock.now);
  answer('throttled');
  expect(budget.forgettableAt).toBe(clock.now + HOUR);
  budget.hear({ perHour: 100 });
  clock.now += 10 * MINUTE;
  budget.spent(untold(clock.now), 1);
  expect(budget.forgettableAt).toBe(clock.now + HOUR);
});

test('a forecast tells when each request is sent, in the hours to come, too', () => {
  const { clock, budget } = budgetAt();
  expect(budget.forecast()).toBeNull();
  const start = clock.now;
  budget.hear({ perHour: 10, accepted: [[start - 30 * MINUTE, 4]] });
  budget.begin({ requests: 2, isBeyond: false });
  const at = budget.forecast()!;
  const minutes = [1, 4, 5, 8, 9, 10, 11, 15, 29].map((nth) => (at(nth) - start) / MINUTE);
  expect(minutes).toEqual([0, 0, 30, 30, 60, 60, 60, 90, 180]);
});

test('what a refusal holds back is not forecast earlier, though a request is in flight to find out', () => {
  const { clock, budget } = budgetAt();
  budget.hear({ perHour: 100, accepted: [[clock.now, 20]] });
  budget.begin(budget.allowance(1)!);
  budget.throttled({ at: clock.now, givenAt: clock.now - 1_000 }, 30 * MINUTE);
  expect(budget.nextTurnAt(1)).toBeNull();
  expect(budget.forecast()!(1)).toBeGreaterThanOrEqual(clock.now + 30 * MINUTE);
});

test('an hour of requests is kept in at most 361 steps, and none leaves early', () => {
  const times = fc.array(fc.tuple(fc.nat(2 * HOUR), fc.integer({ min: 1, max: 5 })), { maxLength: 1_000 });
  fc.assert(
    fc.property(times, (events) => {
      const start = 1_000 * HOUR;
      const end = start + 2 * HOUR;
      const hour = new RollingHour([]);
      for (const [at, count] of events) hour.add(start + at, count, end);
      const exact = events.reduce((sum, [at, count]) => (at > HOUR ? sum + count : sum), 0);
      expect(hour.countAt(end)).toBe(exact);
      expect(hour.steps(end).length).toBeLessThanOrEqual(361);
      expect(hour.steps(end)).toEqual(hour.steps(end).toSorted(([a], [b]) => a - b));
      for (const most of [0, 3, 50]) {
        const at = hour.leavesAt(most, end);
        expect(hour.countAt(at)).toBeLessThanOrEqual(most);
        expect(at === end || hour.countAt(at - 1) > most).toBe(true);
      }
    }),
    { numRuns: 200 },
  );
});
