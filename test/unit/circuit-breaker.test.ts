/** A thousand creates against an upstream that takes a hundred an hour, with the real lanes on a clock that jumps. */
import { describe, expect, test } from 'vitest';
import { CircuitBreakers } from '../../src/activities/agent-job/circuit-breaker.js';
import { throttledWaitMs, spreadWaitMs, TURN_MS } from '../../src/agent-job/retry-waits.js';
import { seededRandom } from '../../src/sandbox/random.js';

const HOUR = 3_600_000;
const LANE = 'create p';

interface Rules {
  jobs: number;
  hours: number;
  workers: number;
  quota: number;
  /** What a 429 at this time says; undefined: nothing. */
  retryAfterMs: (now: number) => number | undefined;
}

interface Figures {
  accepted: number;
  posts429: number;
  /** After the first seconds, in which nobody knew of a limit. */
  most429InOneSecond: number;
  asks: number;
  mostAsksInOneSecond: number;
  heldSends: number;
  mostSendsOfOneJob: number;
}

/** As the workflow does it: send; after a 429 wait, then ask for a turn until one is given. */
class Simulation {
  readonly #rules: Rules;
  readonly #random = seededRandom(7);
  readonly #lanes: CircuitBreakers[];
  readonly #events: { at: number; happen: () => void }[] = [];
  readonly #refusedAt: number[] = [];
  readonly #askedAt: number[] = [];
  readonly #sends: number[];
  #now = 0;
  #accepted = 0;
  #heldSends = 0;
  readonly #usedInHour = new Map<number, number>();

  constructor(rules: Rules) {
    this.#rules = rules;
    this.#sends = Array.from({ length: rules.jobs }, () => 0);
    const options = { now: () => this.#now, random: () => this.#random() };
    this.#lanes = Array.from({ length: rules.workers }, () => new CircuitBreakers(options));
  }

  run(): Figures {
    for (let job = 0; job < this.#rules.jobs; job++) this.#in(this.#random() * 1_000, () => this.#send(job, 0, 0));
    for (let event = this.#next(); event && event.at <= this.#rules.hours * HOUR; event = this.#next()) {
      this.#now = event.at;
      event.happen();
    }
    const later = (times: number[]) => mostInOneSecond(times.filter((at) => at >= 30_000));
    return {
      accepted: this.#accepted,
      posts429: this.#refusedAt.length,
      most429InOneSecond: later(this.#refusedAt),
      asks: this.#askedAt.length,
      mostAsksInOneSecond: later(this.#askedAt),
      heldSends: this.#heldSends,
      mostSendsOfOneJob: Math.max(...this.#sends),
    };
  }

  #send(job: number, refusals: number, turnUntil: number): void {
    const lane = this.#anyWorker();
    const holder = `job ${job}`;
    if (lane.acquire(LANE, holder, this.#now < turnUntil) > 0) {
      this.#heldSends += 1;
      return this.#in(10, () => this.#ask(job, refusals));
    }
    this.#sends[job]! += 1;
    const hour = Math.floor(this.#now / HOUR);
    const used = this.#usedInHour.get(hour) ?? 0;
    if (used < this.#rules.quota) {
      this.#usedInHour.set(hour, used + 1);
      return this.#in(1_000, () => {
        lane.release(LANE, holder, true);
        this.#accepted += 1;
      });
    }
    this.#in(200, () => {
      this.#refusedAt.push(this.#now);
      const retryAfterMs = this.#rules.retryAfterMs(this.#now);
      lane.trip(LANE, holder, retryAfterMs);
      const waitMs = spreadWaitMs(throttledWaitMs(refusals + 1, retryAfterMs), this.#random());
      this.#in(waitMs, () => this.#ask(job, refusals + 1));
    });
  }

  #ask(job: number, refusals: number): void {
    this.#askedAt.push(this.#now);
    const waitMs = this.#anyWorker().reserve(LANE, `job ${job}`);
    if (waitMs > 0) this.#in(waitMs, () => this.#ask(job, refusals));
    else {
      const turnUntil = this.#now + TURN_MS;
      this.#in(10, () => this.#send(job, refusals, turnUntil));
    }
  }

  #anyWorker(): CircuitBreakers {
    return this.#lanes[Math.floor(this.#random() * this.#lanes.length)]!;
  }

  #in(ms: number, happen: () => void): void {
    this.#events.push({ at: this.#now + ms, happen });
  }

  #next(): { at: number; happen: () => void } | undefined {
    let first = 0;
    for (let i = 1; i < this.#events.length; i++) if (this.#events[i]!.at < this.#events[first]!.at) first = i;
    const [event] = this.#events.splice(first, 1);
    return event;
  }
}

function mostInOneSecond(times: number[]): number {
  const counts = new Map<number, number>();
  for (const at of times) counts.set(Math.floor(at / 1_000), (counts.get(Math.floor(at / 1_000)) ?? 0) + 1);
  return Math.max(0, ...counts.values());
}

const untilTheHour = (now: number) => HOUR - (now % HOUR);
const RULES: Rules = { jobs: 1_000, hours: 3, workers: 1, quota: 100, retryAfterMs: () => undefined };

describe('a thousand creates against a hundred an hour', () => {
  test.each([
    ['no Retry-After', 1, () => undefined],
    ['a Retry-After', 1, untilTheHour],
    ['a Retry-After of a second, again and again', 1, () => 1_000],
    ['no Retry-After and four workers', 4, () => undefined],
    ['a Retry-After and four workers', 4, untilTheHour],
  ] as const)('use it up and are refused a few at a time: %s', (_, workers, retryAfterMs) => {
    const figures = new Simulation({ ...RULES, workers, retryAfterMs }).run();
    expect(figures.accepted).toBe(300);
    expect(figures.most429InOneSecond).toBeLessThanOrEqual(12);
    // At their first send alone: then they ask before they send.
    expect(figures.heldSends).toBeLessThanOrEqual(800 + 200 * workers);
    expect(figures.mostSendsOfOneJob).toBeLessThanOrEqual(25);
    expect(figures.mostAsksInOneSecond).toBeLessThanOrEqual(80 * workers);
  });
});

describe('a lane that a 429 has closed', () => {
  function setUp() {
    const clock = { now: 0 };
    const lanes = new CircuitBreakers({ now: () => clock.now, random: () => 0 });
    const take = (count: number) =>
      Array.from({ length: count }, (_, i) => `job ${i}`).filter((holder) => lanes.reserve(LANE, holder) === 0);
    lanes.acquire(LANE, 'first', false);
    lanes.trip(LANE, 'first', 3_000);
    return { clock, lanes, take };
  }

  test('lets nobody pass before its time, and then one, whether at their first send or after a wait', () => {
    const { clock, lanes, take } = setUp();
    expect([lanes.acquire(LANE, 'new', false), take(5)]).toEqual([3_000, []]);
    clock.now = 3_000;
    expect(take(5)).toEqual(['job 0']);
    expect(lanes.acquire(LANE, 'new', false)).toBeGreaterThan(0);
  });

  test('lets one more be under way for each success, and for nothing else', () => {
    const { clock, lanes, take } = setUp();
    clock.now = 3_000;
    for (let successes = 0; successes < 20; successes++) {
      const turns = take(100);
      expect(turns).toHaveLength(successes + 1);
      for (const holder of turns) expect(lanes.acquire(LANE, holder, true)).toBe(0);
      expect(take(100)).toEqual(turns.slice(0, 0));
      turns.forEach((holder, i) => lanes.release(LANE, holder, i === 0));
    }
  });

  test('closes for longer with each 429 in a row, and those under way together are one', () => {
    const { clock, lanes, take } = setUp();
    for (const waitMs of [3_000, 6_000, 12_000]) {
      expect(lanes.acquire(LANE, 'new', false)).toBe(waitMs);
      clock.now += waitMs;
      const [holder] = take(1);
      lanes.acquire(LANE, holder!, true);
      lanes.trip(LANE, holder!, 3_000);
      lanes.trip(LANE, 'another', 3_000);
    }
  });

  test('takes back a turn that nobody used, and keeps to one that another worker gave', () => {
    const { clock, lanes, take } = setUp();
    clock.now = 3_000;
    expect(take(2)).toEqual(['job 0']);
    clock.now += TURN_MS;
    expect(lanes.reserve(LANE, 'job 1')).toBe(0);
    expect(lanes.acquire(LANE, 'elsewhere', true)).toBe(0);
    expect(lanes.acquire(LANE, 'elsewhere', false)).toBeGreaterThan(0);
  });

  test('is open after an hour in which nobody wrote', () => {
    const { clock, lanes } = setUp();
    clock.now = 2 * HOUR;
    expect(['a', 'b', 'c'].map((holder) => lanes.acquire(LANE, holder, false))).toEqual([0, 0, 0]);
  });
});

test('in a worker that knows of no 429 those who wait go one by one all the same', () => {
  const lanes = new CircuitBreakers({ now: () => 0, random: () => 0 });
  expect(['a', 'b', 'c'].filter((holder) => lanes.reserve(LANE, holder) === 0)).toEqual(['a']);
});
