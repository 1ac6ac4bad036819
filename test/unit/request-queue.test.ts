/** The pure parts of a queue of requests, before an upstream that limits them, in simulated time. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Priority } from '../../src/contract.js';
import { parseReport } from '../../src/request-queue/messages.js';
import { QueueRun, Waiters, type QueueData, type Waiter } from '../../src/request-queue/queue-run.js';
import { DAY, HOUR as LAST_HOUR, type setBack } from '../../src/request-queue/rolling-window.js';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const START = 1_000 * HOUR;
/** As a worker sends without a queue. */
const WITHOUT_QUEUE = 8;
const EMPTY: QueueData = { name: 'q', nextTurn: 1, waiters: [], turns: [], budget: null, wasUsed: false };

interface Simulation {
  /** The most that the upstream takes in any window. */
  limit: { requests: number; windowMs: number; saysRetryAfter?: boolean };
  /** When jobs begin to wait, in milliseconds after the start. */
  asked: readonly number[];
  perHour?: number | null;
  perDay?: number | null;
  roundTripMs?: number;
  /** What happens beside, after a number of sends. */
  troubles?: readonly {
    after: number;
    kind: 'worker killed' | 'continues' | 'terminated' | 'clock back';
    byMs: number;
  }[];
}

/** Sends until no job waits. The clock of the upstream goes on, while that of the queue may be set back. */
class SimulatedQueue {
  /** Times after the start, of the upstream's clock. */
  readonly accepted: number[] = [];
  readonly refused: number[] = [];
  /** With a turn, and without a `Retry-After`. */
  readonly refusedTurns: number[] = [];
  /** When each job was sent first, and when its queue expected that, when the job asked. */
  readonly sentAt = new Map<string, number>();
  readonly expectedAt = new Map<string, number>();
  #run: QueueRun;
  #now = START;
  #behindMs = 0;
  #sends = 0;
  #isEngaged: boolean;
  #inFlight: { id: string; answersAt: number; turn: string | null }[] = [];
  readonly #asked: number[];
  readonly #waiting: string[] = [];
  readonly #simulation: Simulation;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    this.#asked = simulation.asked.map((at) => START + at).toSorted((a, b) => a - b);
    this.#run = this.#open(EMPTY);
    this.#isEngaged = typeof (simulation.perHour ?? simulation.perDay) === 'number';
  }

  runToEnd(): this {
    for (let steps = 0; this.#asked.length + this.#waiting.length + this.#inFlight.length > 0 || this.#isWaiting;) {
      if (steps++ > 100_000) throw new Error('a job waits for ever');
      this.#step();
    }
    return this;
  }

  get #isWaiting(): boolean {
    return this.#run.waiters.count > 0;
  }

  #open(data: QueueData): QueueRun {
    return new QueueRun('create', data, () => this.#now - this.#behindMs);
  }

  #step(): void {
    while ((this.#asked[0] ?? Infinity) <= this.#now)
      this.#waiting.push(`w${this.#asked.shift()}-${2e6 - this.#asked.length}`);
    const ended = this.#inFlight.filter(({ answersAt }) => answersAt <= this.#now);
    this.#inFlight = this.#inFlight.filter(({ answersAt }) => answersAt > this.#now);
    for (const { id, turn } of ended) this.#answered(id, turn);
    if (this.#isEngaged) for (const id of this.#waiting.splice(0)) this.#join(id);
    while (!this.#isEngaged && this.#waiting.length > 0 && this.#inFlight.length < WITHOUT_QUEUE)
      this.#send(this.#waiting.shift()!, null);
    this.#run.expireTurns();
    if (this.#run.isOver) this.#run = this.#open({ ...EMPTY, name: `queue after ${this.#sends}` });
    for (let next; (next = this.#run.nextTurn());) this.#send(next.workflowId, next.turn.id);
    const queueAt = this.#isEngaged ? this.#run.wakeAt + this.#behindMs : Infinity;
    const next = Math.min(queueAt, this.#asked[0] ?? Infinity, ...this.#inFlight.map(({ answersAt }) => answersAt));
    this.#now = Math.max(this.#now + 1, next);
  }

  #join(workflowId: string, report?: object): void {
    const { perHour = null, perDay = null } = this.#simulation;
    const asked = { workflowId, priority: 3 as const, askedAt: this.#now, perHour, perDay };
    this.#run.join({ ...asked, ...(report && { report: report as never }) });
    const expected = this.#run.sendTimes(this.#run.waiters.placeOf(workflowId)!.requests).at(-1);
    if (expected !== undefined) this.expectedAt.set(workflowId, expected - START);
  }

  #send(id: string, turn: string | null): void {
    if (!this.sentAt.has(id)) this.sentAt.set(id, this.#now - START);
    const trouble = this.#simulation.troubles?.find(({ after }) => after === this.#sends);
    this.#sends += 1;
    if (trouble?.kind === 'continues')
      this.#run = this.#open(JSON.parse(JSON.stringify(this.#run.carry())) as QueueData);
    if (trouble?.kind === 'terminated') {
      // What waits asks again.
      const waiting = this.#run.waiters.head(Infinity);
      this.#run = this.#open({ ...EMPTY, name: `queue after ${this.#sends}` });
      for (const { workflowId } of waiting) this.#join(workflowId);
    }
    if (trouble?.kind === 'clock back') this.#behindMs += trouble.byMs;
    if (trouble?.kind === 'worker killed') {
      // It sent, and nothing is ever reported.
      if (this.#waitMs() === 0) this.accepted.push(this.#now - START);
      return;
    }
    this.#inFlight.push({ id, answersAt: this.#now + (this.#simulation.roundTripMs ?? SECOND), turn });
  }

  /** The upstream decides when it answers. */
  #answered(id: string, turn: string | null): void {
    const waitMs = this.#waitMs();
    const at = this.#now - this.#behindMs;
    if (waitMs === 0) {
      this.accepted.push(this.#now - START);
      // The queue knows nothing of what was accepted without a turn.
      if (turn !== null) this.#run.report({ turn, outcome: 'accepted', at });
      return;
    }
    const { saysRetryAfter = false } = this.#simulation.limit;
    this.#isEngaged = true;
    this.refused.push(this.#now - START);
    if (turn !== null && !saysRetryAfter) this.refusedTurns.push(this.#now - START);
    this.#join(id, { turn, outcome: 'throttled', at, ...(saysRetryAfter && { retryAfterMs: waitMs }) });
  }

  #waitMs(): number {
    const { requests, windowMs } = this.#simulation.limit;
    const taken = this.accepted.filter((at) => at > this.#now - START - windowMs);
    return taken.length < requests ? 0 : taken.at(-requests)! + windowMs - (this.#now - START);
  }
}

const simulate = (simulation: Simulation) => new SimulatedQueue(simulation).runToEnd();
const burst = (count: number) => Array.from({ length: count }, () => 0);
const evenly = (count: number, everyMs: number) => Array.from({ length: count }, (_, i) => i * everyMs);
const mostWithin = (spanMs: number, times: readonly number[]) =>
  Math.max(0, ...times.map((from) => times.filter((at) => at >= from && at < from + spanMs).length));
const mostInAnHour = (times: readonly number[]) => mostWithin(HOUR, times);
const HOURLY = { requests: 100, windowMs: HOUR };

test('300 creates at 100 an hour keep the promise, with the budget set and without', () => {
  const set = simulate({ limit: HOURLY, asked: burst(300), perHour: 100 });
  expect(set.accepted.at(-1)).toBeLessThanOrEqual(2 * HOUR * 1.03);
  expect(set.refused.length).toBeLessThanOrEqual(8);
  expect(mostInAnHour(set.accepted)).toBe(100);
  for (const roundTripMs of [100, SECOND, 5 * SECOND]) {
    const unset = simulate({ limit: HOURLY, asked: burst(300), roundTripMs });
    expect(unset.accepted.at(-1)).toBeLessThanOrEqual(2 * HOUR + 40 * MINUTE);
    expect(mostInAnHour(unset.refused)).toBeLessThanOrEqual(16);
  }
});

test('with Retry-After the queue opens when it says', () => {
  const hourly = simulate({ limit: { ...HOURLY, saysRetryAfter: true }, asked: burst(300) });
  expect(hourly.accepted.at(-1)).toBeLessThanOrEqual(2 * HOUR * 1.03);
  expect(hourly.refused.length).toBeLessThanOrEqual(3 * 8);
  const short = { requests: 10, windowMs: 20 * SECOND, saysRetryAfter: true };
  const { accepted, refused } = simulate({ limit: short, asked: burst(60) });
  expect(accepted.at(-1)).toBeLessThanOrEqual(150 * SECOND);
  expect(refused.length).toBeLessThanOrEqual(40);
});

test('90 creates at 30 a minute without Retry-After: all within eight minutes', () => {
  const { accepted, refused } = simulate({ limit: { requests: 30, windowMs: MINUTE }, asked: burst(90) });
  expect(accepted.at(-1)).toBeLessThanOrEqual(8 * MINUTE);
  expect(refused.length).toBeLessThanOrEqual(3 * 8);
});

test('whatever is killed, and however the clock is set back, all are served and no promise is broken', () => {
  const simulations = fc.record({
    limit: fc.record({
      requests: fc.integer({ min: 1, max: 120 }),
      windowMs: fc.constantFrom(10 * SECOND, MINUTE, HOUR),
      saysRetryAfter: fc.boolean(),
    }),
    asked: fc.oneof(
      fc.integer({ min: 1, max: 150 }).map(burst),
      fc.tuple(fc.nat(150), fc.integer({ min: 50, max: 2 * MINUTE })).map(([count, every]) => evenly(count, every)),
    ),
    perHour: fc.option(fc.integer({ min: 1, max: 150 })),
    roundTripMs: fc.integer({ min: 10, max: 20_000 }),
    troubles: fc.array(
      fc.record({
        after: fc.nat(200),
        kind: fc.constantFrom('worker killed', 'continues', 'clock back'),
        byMs: fc.integer({ min: 1, max: 30 * 24 * HOUR }),
      }),
      { maxLength: 6 },
    ),
  });
  fc.assert(
    fc.property(simulations, (simulation) => {
      const { asked, perHour, troubles } = simulation;
      const { accepted, refusedTurns } = simulate(simulation);
      const killed = troubles.filter(({ kind }) => kind === 'worker killed').length;
      expect(accepted.length).toBeGreaterThanOrEqual(asked.length - killed);
      if (troubles.some(({ kind }) => kind === 'clock back')) return;
      expect(mostInAnHour(accepted)).toBeLessThanOrEqual(perHour ?? Infinity);
      expect(mostInAnHour(refusedTurns)).toBeLessThanOrEqual(16);
    }),
    { numRuns: 150 },
  );
});

const ANY = { requests: Infinity, windowMs: HOUR };
const limits = fc.record({
  perHour: fc.option(fc.integer({ min: 1, max: 12 })),
  perDay: fc.integer({ min: 1, max: 40 }),
});

test('never above the budgets of an hour and a day, with workers killed and the queue continued as new', () => {
  const simulations = fc.record({
    limits,
    asked: fc.array(fc.nat(3 * 24 * HOUR), { minLength: 1, maxLength: 120 }),
    roundTripMs: fc.integer({ min: 10, max: 20_000 }),
    troubles: fc.array(
      fc.record({ after: fc.nat(120), kind: fc.constantFrom('worker killed', 'continues'), byMs: fc.constant(0) }),
      { maxLength: 20 },
    ),
  });
  fc.assert(
    fc.property(simulations, ({ limits: { perHour, perDay }, ...simulation }) => {
      const { accepted } = simulate({ limit: ANY, perHour, perDay, ...simulation });
      expect(accepted).toHaveLength(simulation.asked.length);
      expect(mostInAnHour(accepted)).toBeLessThanOrEqual(perHour ?? Infinity);
      expect(mostWithin(24 * HOUR, accepted)).toBeLessThanOrEqual(perDay);
    }),
    { numRuns: 150 },
  );
});

test('after a queue was terminated, at most twice the budget is sent in any hour or day', () => {
  const simulations = fc.record({ limits, after: fc.nat(60), count: fc.integer({ min: 1, max: 100 }) });
  fc.assert(
    fc.property(simulations, ({ limits: { perHour, perDay }, after, count }) => {
      const troubles = [{ after, kind: 'terminated', byMs: 0 }] as const;
      const { accepted } = simulate({ limit: ANY, perHour, perDay, asked: burst(count), troubles });
      expect(accepted).toHaveLength(count);
      expect(mostInAnHour(accepted)).toBeLessThanOrEqual(2 * (perHour ?? Infinity));
      expect(mostWithin(24 * HOUR, accepted)).toBeLessThanOrEqual(2 * perDay);
    }),
    { numRuns: 100 },
  );
});

test('each is sent when its queue expected that, as far as steps of ten minutes allow', () => {
  fc.assert(
    fc.property(limits, fc.integer({ min: 1, max: 150 }), ({ perHour, perDay }, count) => {
      const { sentAt, expectedAt } = simulate({ limit: ANY, asked: burst(count), perHour, perDay, roundTripMs: 100 });
      expect(expectedAt.size).toBe(count);
      for (const [id, at] of expectedAt) {
        const days = Math.ceil(at / (24 * HOUR));
        expect(sentAt.get(id)! - at).toBeGreaterThanOrEqual(0);
        expect(sentAt.get(id)! - at).toBeLessThanOrEqual((days + 1) * 10 * MINUTE);
      }
    }),
    { numRuns: 100 },
  );
});

test('what a queue hands on is small, with 100,000 requests a day', () => {
  const clock = { now: START };
  const run = new QueueRun('create', EMPTY, () => clock.now);
  for (let sent = 0; sent < 100_000; sent += 10) {
    clock.now += 8_640;
    run.report({ turn: null, outcome: sent % 20 ? 'accepted' : 'throttled', requests: 10, at: clock.now });
  }
  expect(run.budget.spentOf('perDay')).toBe(95_000);
  expect(JSON.stringify(run.carry()).length).toBeLessThan(200_000);
});

test('a message names every limit that settings allow', () => {
  for (const limit of ['perHour', 'perDay']) {
    for (const set of [1, Number.MAX_SAFE_INTEGER, 'unlimited', null]) {
      expect(parseReport({ outcome: 'unsent', at: 1, [limit]: set })).toMatchObject({ [limit]: set });
    }
    for (const set of [0, 2.5, 'many', {}]) {
      expect(() => parseReport({ outcome: 'unsent', at: 1, [limit]: set })).toThrow(limit);
    }
    expect(parseReport({ outcome: 'unsent', at: 1 })).not.toHaveProperty(limit);
  }
});

/** A queue of creates, or of exports, in which no workflow waits. */
function openQueue(operation: 'create' | 'visitors' = 'create') {
  const clock = { now: START };
  const run = new QueueRun(operation, EMPTY, () => clock.now);
  const join = (workflowId: string, more: object = {}) => run.join({ workflowId, priority: 3, askedAt: 0, ...more });
  /** Answers the next turn with 429; how long the one after is waited for, in seconds. */
  const refuseNext = (retryAfterMs?: number) => {
    clock.now = Math.max(clock.now, run.nextTurnAt!);
    const { workflowId, turn } = run.nextTurn()!;
    clock.now += SECOND;
    const told = retryAfterMs === undefined ? {} : { retryAfterMs };
    join(workflowId, { report: { turn: turn.id, outcome: 'throttled', at: clock.now, ...told } });
    return (run.nextTurnAt! - clock.now) / SECOND;
  };
  const acceptNext = () => run.report({ turn: run.nextTurn()!.turn.id, outcome: 'accepted', at: clock.now });
  return { clock, run, join, refuseNext, acceptNext };
}

test('a 429 closes the queue for 30 seconds to 20 minutes, or for as long as Retry-After says', () => {
  const { join, refuseNext } = openQueue();
  join('w');
  expect(Array.from({ length: 9 }, () => refuseNext())).toEqual([30, 60, 120, 240, 480, 960, 1_200, 1_200, 1_200]);
  expect(refuseNext(3 * 24 * HOUR)).toBe(3_600);
  const short = openQueue();
  short.join('w');
  expect([0, 0, 0].map((told) => short.refuseNext(told))).toEqual([1, 2, 4]);
});

test('one is in flight after a 429 until something is accepted, then two, four and eight', () => {
  const { clock, run, join, refuseNext, acceptNext } = openQueue();
  for (let i = 0; i < 40; i++) join(`w${i}`);
  refuseNext();
  clock.now = run.nextTurnAt!;
  const sizes = Array.from({ length: 5 }, () => {
    const turns = [];
    for (let next; (next = run.nextTurn());) turns.push(next.turn.id);
    for (const turn of turns) run.report({ turn, outcome: 'unsent', at: clock.now });
    acceptNext();
    return turns.length;
  });
  expect(sizes).toEqual([1, 2, 4, 8, 8]);
});

test.each([
  ['perHour', HOUR],
  ['perDay', 24 * HOUR],
] as const)('a raised %s holds at once, and goes once no worker has named one for 15 minutes', (limit, spanMs) => {
  const { clock, run, join } = openQueue();
  join('w', { [limit]: 1, report: { turn: null, outcome: 'accepted', at: START } });
  expect(run.nextTurnAt).toBe(START + spanMs);
  for (const [set, isFree] of [
    [null, false],
    [2, true],
    [1, false],
    ['unlimited', true],
    [1, false],
  ] as const) {
    run.report({ turn: null, outcome: 'unsent', at: START, [limit]: set });
    expect(run.nextTurnAt === START).toBe(isFree);
  }
  clock.now += 15 * MINUTE;
  run.report({ turn: null, outcome: 'unsent', at: START });
  expect(run.budget.numberOf(limit)).toBe(1);
  run.report({ turn: null, outcome: 'unsent', at: START, [limit]: null });
  expect(run.budget.numberOf(limit)).toBeNull();
});

test('the smaller of what both limits leave holds, and the longest limit that is used up is the reason', () => {
  const { clock, run, join } = openQueue();
  join('w', { perHour: 2, perDay: 3, report: { turn: null, outcome: 'accepted', at: START, requests: 2 } });
  expect(run.budget.usedUp(1)).toEqual({ name: 'hour', max: 2 });
  clock.now += HOUR;
  expect(run.budget.usedUp(1)).toBeUndefined();
  run.report({ turn: run.nextTurn()!.turn.id, outcome: 'accepted', at: clock.now });
  join('w');
  expect(run.budget.usedUp(1)).toEqual({ name: 'day', max: 3 });
  expect(run.nextTurnAt).toBe(START + 24 * HOUR);
  clock.now = START + 24 * HOUR - 1;
  expect(run.isOver).toBe(false);
});

test('one odd message holds nothing up: a turn is for one write, or for a chunk of an export', () => {
  const { run, join } = openQueue();
  join('odd', { perHour: 100, requests: 1_000_000 });
  join('next', { askedAt: 1 });
  expect([run.nextTurn()?.turn.requests, run.nextTurn()?.workflowId]).toEqual([1, 'next']);
  const exports = openQueue('visitors');
  exports.join('odd', { perHour: 1_000, requests: 1_000_000 });
  expect(exports.run.nextTurn()?.turn.requests).toBe(120);
});

test('a write that leaves at the end of its turn, and arrives after it, counts for an hour from then on', () => {
  for (const isReported of [true, false]) {
    const { clock, run, join } = openQueue();
    for (const id of ['late', 'next']) join(id, { perHour: 1 });
    const { id: turn, until } = run.nextTurn()!.turn;
    // A worker begins to send while the turn lasts; connection and request together may take the time of one request.
    const arrivedAt = until + 19 * SECOND;
    clock.now = isReported ? arrivedAt + SECOND : until + 30 * SECOND;
    if (isReported) run.report({ turn, outcome: 'accepted', at: clock.now });
    run.expireTurns();
    expect(run.nextTurnAt).toBeGreaterThanOrEqual(arrivedAt + HOUR);
  }
});

test('where the clock is set back between two runs of a queue, nothing lasts longer for it', () => {
  const { clock, run, join, refuseNext } = openQueue();
  join('w');
  refuseNext(HOUR);
  clock.now -= 2 * HOUR;
  const next = new QueueRun('create', run.carry(), () => clock.now);
  next.expireTurns();
  expect(next.nextTurnAt).toBeLessThanOrEqual(clock.now + HOUR);
});

test('requests that were in flight together are one refusal, and what was accepted beside them opens nothing', () => {
  const { clock, run, join } = openQueue();
  for (const id of ['0', '1', '2']) join(id);
  const [first, second, third] = [run.nextTurn()!, run.nextTurn()!, run.nextTurn()!].map(({ turn }) => turn.id);
  clock.now += SECOND;
  join('0', { report: { turn: first, outcome: 'throttled', at: clock.now } });
  const { nextTurnAt } = run;
  expect(nextTurnAt).toBeNull();
  join('1', { report: { turn: second, outcome: 'throttled', at: clock.now } });
  run.report({ turn: third!, outcome: 'accepted', at: clock.now });
  expect(run.nextTurnAt).toBe(clock.now + 30 * SECOND);
});

test.each([
  [LAST_HOUR, 361],
  [DAY, 145],
])('a window of requests is kept in few steps, and none leaves early (%#)', (window, maxSteps) => {
  const { spanMs } = window;
  const times = fc.array(fc.tuple(fc.nat(2 * spanMs), fc.integer({ min: 1, max: 5 })), { maxLength: 500 });
  fc.assert(
    fc.property(times, (events) => {
      const end = START + 2 * spanMs;
      let counted: ReturnType<typeof setBack> = [];
      for (const [at, count] of events) counted = window.withEvents(counted, count, START + at, end);
      const exact = (since: number) => events.reduce((sum, [at, count]) => (at > since ? sum + count : sum), 0);
      expect(window.countOf(counted, end)).toBe(exact(spanMs));
      expect(counted.length).toBeLessThanOrEqual(maxSteps);
      for (const max of [0, 3, 50]) {
        const at = window.leavesAt(counted, max, end);
        expect(exact(at - START - spanMs)).toBeLessThanOrEqual(max);
        expect(at === end || window.countOf(counted, at - 1) > max).toBe(true);
        const rooms = [...window.roomsAt(counted, max, end)];
        expect(rooms).toEqual(rooms.map((_, index) => window.leavesAt(counted, max - index - 1, end)));
        expect(rooms).toHaveLength(max);
      }
    }),
    { numRuns: 100 },
  );
});

const waiter = (id: number, priority: number, askedAt: number, requests = 1): Waiter => ({
  workflowId: `w${id}`,
  priority: priority as Priority,
  askedAt,
  requests,
});
const inOrder = (a: Waiter, b: Waiter) =>
  a.priority - b.priority || a.askedAt - b.askedAt || (a.workflowId < b.workflowId ? -1 : 1);

test('however waiters join, join again and leave, the order is by priority, then by time, then by id', () => {
  const step = fc.record({
    id: fc.nat(30),
    priority: fc.integer({ min: 1, max: 5 }),
    askedAt: fc.nat(5),
    requests: fc.integer({ min: 1, max: 3 }),
    leaves: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const waiters = new Waiters([]);
      const model = new Map<string, Waiter>();
      for (const { id, priority, askedAt, requests, leaves } of steps) {
        const next = waiter(id, priority, askedAt, requests);
        const before = model.get(next.workflowId);
        model.delete(next.workflowId);
        if (!leaves) model.set(next.workflowId, { ...next, askedAt: Math.min(askedAt, before?.askedAt ?? askedAt) });
        expect(leaves ? [waiters.remove(next.workflowId)] : waiters.join(next)).toEqual(leaves ? [before] : []);
      }
      const expected = [...model.values()].toSorted(inOrder);
      expect(waiters.head(1_000)).toEqual(expected);
      expect(new Waiters(waiters.carry()).head(1_000)).toEqual(expected);
      let requests = 0;
      for (const [index, { workflowId, requests: own }] of expected.entries()) {
        expect(waiters.placeOf(workflowId)).toEqual({ position: index + 1, requests: (requests += own) });
      }
      expect(waiters.placeOf('nobody')).toBeNull();
    }),
  );
});

test('one that asked again is not removed for the end of the run before', () => {
  const waiters = new Waiters([['a', 3, 1, 1]]);
  const before = waiters.first!;
  waiters.join({ workflowId: 'a', priority: 3, askedAt: 2, requests: 1 });
  waiters.removeUnlessNew(before);
  expect(waiters.count).toBe(1);
  waiters.removeUnlessNew(waiters.first!);
  expect(waiters.count).toBe(0);
});

test('where more wait than can be handed on, the last one must leave', () => {
  const waiters = new Waiters([]);
  const long = (id: number, priority: number) =>
    waiters.join({ ...waiter(id, priority, 1_700_000_000_000 + id, 1_000_000), workflowId: '"'.repeat(996) + id });
  for (let id = 0; id < 5_000; id++) long(id, 3);
  expect(waiters.count).toBeGreaterThan(700);
  const last = waiters.head(10_000).at(-1);
  expect([long(6_000, 3)[0]?.workflowId, long(6_001, 1)]).toEqual(['"'.repeat(996) + 6_000, [last]]);
  expect(Buffer.byteLength(JSON.stringify(waiters.carry()))).toBeLessThanOrEqual(1_500_000);
});
