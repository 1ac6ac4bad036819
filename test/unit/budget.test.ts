import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Budget, type GivenAllowance } from '../../src/workflows/request-queue/budget.js';
import { RollingHour } from '../../src/workflows/request-queue/rolling-hour.js';
import { burst, evenly, HOUR, MINUTE, mostInAnHour, SECOND, simulate, type Limit } from './simulated-budget.js';

const HOURLY: Limit = { requests: 100, windowMs: HOUR };
/** What a moment's delay adds to the hours that the budget takes. */
const SLACK = 1.03;

/** How many of the times lie in each hour. */
function byHour(times: readonly number[]): number[] {
  const hours = Math.max(0, ...times.map((at) => Math.ceil(at / HOUR)));
  return Array.from({ length: hours }, (_, i) => times.filter((at) => Math.ceil(at / HOUR) === i + 1).length);
}

/** Of an hour that begins with a first burst, in which eight are sent at once. */
const FIRST_HOUR = 8 + 8;

test('60 requests at 10 in 20 seconds, with Retry-After: all within 150 seconds, at most 40 answers 429', () => {
  for (const perHour of [undefined, 1_800]) {
    for (const isFixed of [false, true]) {
      const limits = [{ requests: 10, windowMs: 20 * SECOND, isFixed }];
      const set = perHour === undefined ? {} : { perHour };
      const { accepted, refused } = simulate({ limits, saysRetryAfter: true, asked: burst(60), ...set });
      expect(accepted.at(-1)).toBeLessThanOrEqual(150 * SECOND);
      expect(refused.length).toBeLessThanOrEqual(40);
    }
  }
});

test('90 requests at 30 a minute, without Retry-After: all within eight minutes', () => {
  for (const isFixed of [false, true]) {
    const limits = [{ requests: 30, windowMs: MINUTE, isFixed }];
    const { accepted, refused } = simulate({ limits, asked: burst(90) });
    expect(accepted.at(-1)).toBeLessThanOrEqual(8 * MINUTE);
    expect(refused.length).toBeLessThanOrEqual(2 * 8);
  }
});

describe('300 requests at 100 an hour', () => {
  test('without Retry-After: at most 8 answers 429 in the hour after the first burst, and 3 in each later one', () => {
    for (const asked of [burst(300), burst(600), evenly(300, 500)]) {
      const { accepted, refused } = simulate({ limits: [HOURLY], asked });
      expect(accepted.at(-1)).toBeLessThanOrEqual((asked.length / 100 - 1) * HOUR * SLACK);
      const [first = 0, ...later] = byHour(refused);
      expect(first).toBeLessThanOrEqual(FIRST_HOUR);
      expect(Math.max(...later)).toBeLessThanOrEqual(3);
    }
  });

  test('in hours of the clock: no later than two hours, with few answers 429', () => {
    const { accepted, refused } = simulate({ limits: [{ ...HOURLY, isFixed: true }], asked: burst(300) });
    expect(accepted.at(-1)).toBeLessThanOrEqual(2 * HOUR * SLACK);
    expect(mostInAnHour(refused)).toBeLessThanOrEqual(FIRST_HOUR);
  });

  test('with Retry-After nothing is probed', () => {
    const { accepted, refused } = simulate({ limits: [HOURLY], saysRetryAfter: true, asked: burst(300) });
    expect(accepted.at(-1)).toBeLessThanOrEqual(2 * HOUR * SLACK);
    expect(refused.length).toBeLessThanOrEqual(12);
  });

  test('a budget that is set needs no answer 429, and is never exceeded', () => {
    for (const perHour of [100, 50]) {
      const { accepted, refused } = simulate({ limits: [HOURLY], asked: burst(300), perHour });
      expect(accepted.at(-1)).toBeLessThanOrEqual((300 / perHour - 1) * HOUR * SLACK);
      expect(refused).toEqual([]);
      expect(mostInAnHour(accepted)).toBe(perHour);
    }
  });

  test('a set budget that is too high is corrected by answers 429', () => {
    for (const perHour of [101, 120, 200]) {
      const { accepted, refused, budget } = simulate({ limits: [HOURLY], asked: burst(600), perHour });
      expect(accepted.at(-1)).toBeLessThanOrEqual(5 * HOUR * SLACK);
      const [first = 0, ...later] = byHour(refused);
      expect(first).toBeLessThanOrEqual(FIRST_HOUR);
      expect(Math.max(...later)).toBeLessThanOrEqual(3);
      expect(budget).toMatchObject({ perHour: 100, isLearned: true });
    }
  });

  test('with 5 in 10 seconds besides: the burst guard does not become the budget', () => {
    const limits = [HOURLY, { requests: 5, windowMs: 10 * SECOND }];
    const { accepted } = simulate({ limits, asked: burst(300) });
    expect(accepted.filter((at) => at < HOUR)).toHaveLength(100);
    expect(accepted.at(-1)).toBeLessThanOrEqual(2.5 * HOUR);
    const told = simulate({ limits, saysRetryAfter: true, asked: burst(300) });
    expect(told.accepted.at(-1)).toBeLessThanOrEqual(2.1 * HOUR);
  });
});

test('requests that keep coming a little faster than the budget cost few answers 429', () => {
  for (const perHour of [110, 150, 200]) {
    const { accepted, refused } = simulate({ limits: [HOURLY], asked: evenly(660, HOUR / perHour) });
    expect(accepted.at(-1)).toBeLessThanOrEqual(6.6 * HOUR * SLACK);
    const [, , ...later] = byHour(refused);
    expect(Math.max(...byHour(refused))).toBeLessThanOrEqual(FIRST_HOUR);
    expect(Math.max(...later)).toBeLessThanOrEqual(4);
  }
});

test('of an upstream that takes fewer than ten an hour, all is used, with few refusals once it is known', () => {
  for (const requests of [1, 2, 5, 9]) {
    const { accepted, refused } = simulate({ limits: [{ requests, windowMs: HOUR }], asked: burst(6 * requests) });
    expect(accepted.at(-1)).toBeLessThanOrEqual(5 * HOUR * SLACK);
    const [first = 0, ...later] = byHour(refused);
    expect(first).toBeLessThanOrEqual(FIRST_HOUR);
    expect(Math.max(...later)).toBeLessThanOrEqual(3);
  }
});

test('requests that keep within the limit never meet the queue', () => {
  expect(simulate({ limits: [HOURLY], asked: evenly(300, HOUR / 99) }).refused).toEqual([]);
});

test('of a limit that is shared with somebody else, the rest is used', () => {
  const others = evenly(400, 2 * MINUTE);
  const { accepted, refused } = simulate({ limits: [HOURLY], asked: burst(490), others });
  // A hundred at first, then seventy an hour at least.
  expect(accepted.at(-1)).toBeLessThanOrEqual((1 + 390 / 70) * HOUR * SLACK);
  expect(Math.max(...byHour(refused).slice(1))).toBeLessThanOrEqual(4);
});

test('whatever the limits, the pace and the others, all requests go through, none beyond a set budget', () => {
  const limit = fc.record({
    requests: fc.integer({ min: 1, max: 150 }),
    windowMs: fc.constantFrom(10 * SECOND, MINUTE, 10 * MINUTE, HOUR),
    isFixed: fc.boolean(),
  });
  const simulations = fc.record({
    limits: fc.array(limit, { minLength: 1, maxLength: 2 }),
    saysRetryAfter: fc.boolean(),
    asked: fc.oneof(
      fc.integer({ min: 1, max: 200 }).map((count) => burst(count)),
      fc.tuple(fc.nat(200), fc.integer({ min: 50, max: MINUTE })).map(([count, every]) => evenly(count, every)),
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
  const budget = new Budget(null, () => clock.now);
  const give = (): GivenAllowance => {
    const turn = { ...budget.allowance(1)!, givenAt: clock.now };
    budget.begin(turn);
    return turn;
  };
  const answer = (kind: 'accepted' | 'throttled', retryAfterMs?: number) => {
    const turn = give();
    clock.now += SECOND;
    budget.end(turn);
    if (kind === 'accepted') budget.accepted(1, clock.now, turn);
    else budget.throttled(retryAfterMs, turn);
  };
  /** How long the next turn is waited for, again and again. */
  const waits = (count: number, retryAfterMs?: number) =>
    Array.from({ length: count }, () => {
      answer('throttled', retryAfterMs);
      const wait = budget.nextTurnAt(1)! - clock.now;
      clock.now += wait;
      return wait / SECOND;
    });
  return { clock, budget, give, answer, waits };
}

test('what was sent counts from when the queue is told, and at the latest from the end of its turn', () => {
  const { clock, budget } = budgetAt();
  budget.hear({ perHour: 1 });
  const sentAt = clock.now;
  clock.now += 40 * SECOND;
  budget.spent(1, sentAt + MINUTE);
  expect(budget.nextTurnAt(1)).toBe(clock.now + HOUR);
  clock.now = sentAt + 2 * HOUR;
  const until = clock.now;
  clock.now += 30 * MINUTE;
  budget.spent(1, until);
  expect(budget.nextTurnAt(1)).toBe(until + HOUR);
});

test('where nothing is known, eight turns are in flight at most', () => {
  const { budget, give } = budgetAt();
  for (let i = 0; i < 8; i++) give();
  expect([budget.allowance(1), budget.nextTurnAt(1), budget.perHour]).toEqual([null, null, null]);
});

test('after a 429 one request is tried at a time, at waits that grow from 30 seconds to 20 minutes', () => {
  const { budget, waits } = budgetAt();
  // The last of the first hour comes when that hour is over.
  expect(waits(7).slice(0, 6)).toEqual([30, 60, 120, 240, 480, 960]);
  expect(waits(3).slice(1)).toEqual([1_200, 1_200]);
  expect(budget.perHour).toBeNull();
});

test('a probe that is accepted says that the budget was learned wrong, and what is taken then is learned anew', () => {
  const { clock, budget, answer } = budgetAt();
  for (let i = 0; i < 5; i++) answer('accepted');
  answer('throttled');
  expect(budget).toMatchObject({ perHour: 5, isLearned: true });
  clock.now = budget.nextTurnAt(1)!;
  expect(budget.allowance(1)).toMatchObject({ isProbe: true });
  answer('accepted');
  expect(budget.perHour).toBeNull();
  for (let i = 0; i < 3; i++) answer('accepted');
  answer('throttled');
  expect(budget).toMatchObject({ perHour: 9, isLearned: true });
});

test('after a 429 one is in flight, and one more with each 125 that are accepted', () => {
  const { clock, budget, give, answer } = budgetAt();
  answer('throttled', SECOND);
  clock.now = budget.nextTurnAt(1)!;
  for (let i = 0; i < 124; i++) answer('accepted');
  give();
  expect(budget.allowance(1)).toBeNull();
  budget.end({ requests: 1, isProbe: false });
  answer('accepted');
  give();
  give();
  expect(budget.allowance(1)).toBeNull();
});

test('a Retry-After is obeyed from 1 second to 1 hour, and a short one doubled when it comes again', () => {
  for (const [told, expected] of [
    [0, [1, 2, 4]],
    [30 * SECOND, [30, 60, 120]],
    [3 * 24 * HOUR, [3_600, 3_600, 3_600]],
  ] as const) {
    const { clock, budget, answer, waits } = budgetAt();
    expect(waits(expected.length, told)).toEqual(expected);
    clock.now = budget.nextTurnAt(1)!;
    answer('accepted');
    answer('throttled', told);
    expect(budget.waitsAsTold).toBe(true);
    expect(budget.nextTurnAt(1)! - clock.now).toBe(expected[0] * SECOND);
  }
});

test('a Retry-After opens the queue when it says, whatever was learned', () => {
  const { clock, budget, answer } = budgetAt();
  answer('accepted');
  answer('throttled');
  clock.now = budget.nextTurnAt(1)!;
  answer('throttled');
  clock.now = budget.nextTurnAt(1)!;
  answer('throttled', 20 * SECOND);
  expect(budget).toMatchObject({ perHour: null });
  clock.now = budget.nextTurnAt(1)!;
  for (let i = 0; i < 5; i++) answer('accepted');
});

test('answers 429 to requests that were in flight together are one refusal', () => {
  const { clock, budget, give } = budgetAt();
  const turns = Array.from({ length: 8 }, give);
  for (const turn of turns) {
    budget.end(turn);
    budget.throttled(undefined, turn);
  }
  budget.throttled(undefined);
  expect(budget.nextTurnAt(1)).toBe(clock.now + 30 * SECOND);
  expect(budget.throttledLastHour).toBe(9);
});

test('what was accepted before a 429, and is told after it, raises what is learned and opens nothing', () => {
  const { clock, budget, give } = budgetAt();
  const [refused, accepted] = [give(), give()];
  clock.now += SECOND;
  budget.end(refused);
  budget.throttled(undefined, refused);
  budget.end(accepted);
  budget.accepted(1, clock.now, accepted);
  expect(budget.perHour).toBe(1);
  expect(budget.nextTurnAt(1)).toBe(clock.now + 30 * SECOND);
});

test('a 429 counts from when the queue hears of it, however long that took', () => {
  const { clock, budget, give } = budgetAt();
  const turn = give();
  clock.now += 3 * HOUR;
  budget.end(turn);
  budget.throttled(30 * MINUTE, turn);
  expect(budget.nextTurnAt(1)).toBe(clock.now + 30 * MINUTE);
});

test('a probe that was not made is made again at once', () => {
  const { clock, budget, give, answer } = budgetAt();
  answer('throttled');
  clock.now = budget.nextTurnAt(1)!;
  const probe = give();
  expect(budget.nextTurnAt(1)).toBeNull();
  budget.end(probe);
  expect(budget.nextTurnAt(1)).toBe(clock.now);
});

test('a turn for many requests waits until so many are free', () => {
  const { clock, budget } = budgetAt();
  budget.hear({ perHour: 100 });
  budget.spent(95, clock.now);
  expect(budget.allowance(5)).toEqual({ requests: 5, isProbe: false });
  expect(budget.allowance(25)).toBeNull();
  clock.now = budget.nextTurnAt(25)!;
  expect(budget.allowance(25)).toEqual({ requests: 25, isProbe: false });
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

test('another budget that is set says that what was learned is old, but the wait after a 429 stays', () => {
  const { clock, budget, answer } = budgetAt();
  budget.hear({ perHour: 100 });
  for (let i = 0; i < 20; i++) answer('accepted');
  answer('throttled');
  expect(budget).toMatchObject({ perHour: 20, isLearned: true });
  budget.hear({ perHour: 100 });
  expect(budget.perHour).toBe(20);
  budget.hear({ perHour: 200 });
  expect(budget).toMatchObject({ perHour: 200, isLearned: false });
  expect(budget.nextTurnAt(1)).toBe(clock.now + 30 * SECOND);
});

test('where the clock is set back, or was ahead for a while, nothing waits for it longer than it would have', () => {
  const { clock, budget, answer } = budgetAt();
  budget.hear({ perHour: 30 });
  clock.now += 30 * 24 * HOUR;
  for (let i = 0; i < 30; i++) answer('accepted');
  answer('throttled');
  clock.now -= 30 * 24 * HOUR;
  budget.clockWasSetBack();
  expect(budget.nextTurnAt(1)! - clock.now).toBeLessThanOrEqual(HOUR);
  expect(new Budget(budget.carry(), () => clock.now + HOUR).spentLastHour).toBe(0);
});

test('what is handed on goes on the same', () => {
  const { clock, budget, answer } = budgetAt();
  for (let i = 0; i < 25; i++) answer('accepted');
  answer('throttled');
  const next = new Budget(JSON.parse(JSON.stringify(budget.carry())), () => clock.now);
  expect(next.carry()).toEqual(budget.carry());
  expect(next.nextTurnAt(1)).toBe(budget.nextTurnAt(1));
});

test('nothing need be remembered an hour after the last request under a budget, and the last 429', () => {
  const { clock, budget, answer } = budgetAt();
  expect(budget.forgettableAt).toBe(clock.now);
  budget.spent(5, clock.now);
  expect(budget.forgettableAt).toBe(clock.now);
  answer('throttled');
  expect(budget.forgettableAt).toBe(clock.now + HOUR);
  budget.hear({ perHour: 100 });
  clock.now += 10 * MINUTE;
  budget.spent(1, clock.now);
  expect(budget.forgettableAt).toBe(clock.now + HOUR);
});

test('a forecast tells when each request is sent, in the hours to come, too', () => {
  const { clock, budget } = budgetAt();
  expect(budget.forecast()).toBeNull();
  const start = clock.now;
  budget.hear({ perHour: 10 });
  budget.spent(4, start - 30 * MINUTE);
  budget.begin({ requests: 2, isProbe: false });
  const at = budget.forecast()!;
  const minutes = [1, 4, 5, 8, 9, 10, 11, 15, 29].map((nth) => (at(nth) - start) / MINUTE);
  expect(minutes).toEqual([0, 0, 30, 30, 60, 60, 60, 90, 180]);
});

test('what a refusal holds back is not forecast earlier, though a request is in flight to find out', () => {
  const { clock, budget, give } = budgetAt();
  budget.hear({ perHour: 100 });
  const turn = give();
  give();
  budget.end(turn);
  budget.throttled(30 * MINUTE, turn);
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
      for (const max of [0, 3, 50]) {
        const at = hour.leavesAt(max, end);
        expect(hour.countAt(at)).toBeLessThanOrEqual(max);
        expect(at === end || hour.countAt(at - 1) > max).toBe(true);
      }
    }),
    { numRuns: 200 },
  );
});
