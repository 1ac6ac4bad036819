import fc from 'fast-check';
import { expect, test } from 'vitest';
import { QueueRun } from '../../src/workflows/request-queue/queue-run.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** A queue of creates in which nobody waits. */
function openQueue(operation: 'create' | 'visitors' = 'create') {
  const clock = { now: 1_000 * HOUR };
  const empty = { name: 'q', nextTurn: 1, waiters: [], turns: [], budget: null, wasUsed: false };
  const run = new QueueRun(operation, empty, () => clock.now);
  const join = (workflowId: string, more: object = {}) => run.join({ workflowId, priority: 3, askedAt: 0, ...more });
  const refused = (turn: string | null, retryAfterMs?: number) => {
    return { turn, outcome: 'throttled' as const, at: clock.now, ...(retryAfterMs !== undefined && { retryAfterMs }) };
  };
  return { clock, run, join, refused };
}

test('waiters take turns at probes, so that none pays for all that are refused', () => {
  const { clock, run, join, refused } = openQueue();
  for (const id of ['0', '1', '2']) join(id, { report: refused(null) });
  const tried = Array.from({ length: 6 }, () => {
    clock.now = run.nextTurnAt!;
    const { workflowId, turn } = run.nextTurn()!;
    join(workflowId, { report: refused(turn.turn) });
    return workflowId;
  });
  expect(tried).toEqual(['0', '1', '2', '0', '1', '2']);
});

test('once a probe is accepted, the others follow in order', () => {
  const { clock, run, join, refused } = openQueue();
  for (const id of ['0', '1', '2']) join(id, { report: refused(null) });
  clock.now = run.nextTurnAt!;
  join('0', { report: refused(run.nextTurn()!.turn.turn) });
  clock.now = run.nextTurnAt!;
  const taken = run.nextTurn()!;
  run.report({ turn: taken.turn.turn, outcome: 'accepted', at: clock.now });
  expect([taken.workflowId, run.nextTurn()?.workflowId]).toEqual(['1', '0']);
});

test('one odd message holds nobody up: a turn is for one write, or for a chunk of an export', () => {
  const { run, join } = openQueue();
  join('odd', { perHour: 100, requests: 1_000_000 });
  join('next', { askedAt: 1 });
  expect([run.nextTurn()?.turn.requests, run.nextTurn()?.workflowId]).toEqual([1, 'next']);
  const exports = openQueue('visitors');
  exports.join('odd', { perHour: 1_000, requests: 1_000_000 });
  expect(exports.run.nextTurn()?.turn.requests).toBe(120);
});

test('a 429 that is told after the end of its turn is believed, and what else is told then corrects nothing', () => {
  const { clock, run, join, refused } = openQueue();
  join('slow', { perHour: 10 });
  const { turn } = run.nextTurn()!.turn;
  clock.now += 2 * HOUR;
  expect(run.expireTurns()).toBe(1);
  for (const outcome of ['accepted', 'unsent', 'other'] as const) run.report({ turn, outcome, at: clock.now });
  expect(run.budget.spentLastHour).toBe(0);
  run.report(refused(turn, 10 * MINUTE));
  join('next');
  expect(run.nextTurnAt).toBe(clock.now + 10 * MINUTE);
});

test('where the clock is set back by a month, a turn that is in flight ends as soon as any', () => {
  const { clock, run, join } = openQueue();
  join('silent', { perHour: 1 });
  run.nextTurn();
  clock.now -= 30 * 24 * HOUR;
  join('next');
  run.expireTurns();
  clock.now += 2 * MINUTE;
  expect(run.expireTurns()).toBe(1);
  clock.now = run.nextTurnAt!;
  expect(run.nextTurn()?.workflowId).toBe('next');
  expect(clock.now).toBeLessThan(1_000 * HOUR - 29 * 24 * HOUR);
});

test('where the clock is set back behind a refusal, the next one counts as another, and closes the queue', () => {
  const { clock, run, join, refused } = openQueue();
  const refuse = () => join('0', { report: refused(run.nextTurn()!.turn.turn) });
  join('0');
  refuse();
  clock.now = run.nextTurnAt! + 2_000;
  refuse();
  const refusedAt = clock.now;
  clock.now = run.nextTurnAt!;
  run.report({ turn: run.nextTurn()!.turn.turn, outcome: 'accepted', at: clock.now });
  run.expireTurns();
  clock.now = refusedAt - 1_000;
  run.expireTurns();
  join('0');
  refuse();
  expect(run.nextTurn()).toBeNull();
});

test('requests that were in flight together are one refusal, also where the clock is set back meanwhile', () => {
  const { clock, run, join, refused } = openQueue();
  for (const id of ['0', '1']) join(id);
  const [first, second] = [run.nextTurn()!.turn.turn, run.nextTurn()!.turn.turn];
  clock.now += 1_000;
  join('0', { report: refused(first) });
  run.expireTurns();
  clock.now -= HOUR;
  run.expireTurns();
  const { notBefore } = run.budget;
  clock.now += 5_000;
  join('1', { report: refused(second) });
  expect(run.budget.notBefore).toBe(notBefore);
});

test('a queue that continues as new goes on with its waiters, its turns and its budget', () => {
  const { clock, run, join, refused } = openQueue();
  for (const id of ['0', '1', '2']) join(id, { perHour: 100, report: refused(null) });
  clock.now = run.nextTurnAt!;
  const { turn } = run.nextTurn()!.turn;
  const next = new QueueRun('create', JSON.parse(JSON.stringify(run.carry())), () => clock.now);
  expect(next.carry()).toEqual(run.carry());
  expect(next.nextTurn()).toBeNull();
  next.report({ turn, outcome: 'accepted', at: clock.now });
  expect(next.nextTurn()?.workflowId).toBe('1');
});

test('whatever happens to turns, the clock and the queue, all that wait are served, none beyond a set budget', () => {
  const answers = ['accepted', 'throttled', 'told', 'unsent', 'other', 'silent', 'late'] as const;
  const step = fc.record({
    joins: fc.integer({ min: 0, max: 3 }),
    answer: fc.constantFrom(...answers),
    passMs: fc.integer({ min: 0, max: 30 * MINUTE }),
    disturbance: fc.option(fc.constantFrom('continues', 'clock back', 'leaves'), { freq: 4 }),
  });
  const scenario = fc.record({
    steps: fc.array(step, { maxLength: 60 }),
    perHour: fc.option(fc.integer({ min: 1, max: 20 })),
  });
  fc.assert(
    fc.property(scenario, ({ steps, perHour }) => {
      const queue = openQueue();
      const { clock } = queue;
      let { run } = queue;
      let asked = 0;
      const waiting = new Set<string>();
      const taken: number[] = [];
      const late: string[] = [];
      const join = (workflowId: string, report?: object) => {
        waiting.add(workflowId);
        const facts = { perHour, ...(report && { report: report as never }) };
        run.join({ workflowId, priority: 3, askedAt: clock.now, ...facts });
      };
      const serve = (answer: (typeof answers)[number]) => {
        run.expireTurns();
        let turns = 0;
        for (let next = run.nextTurn(); next; next = run.nextTurn()) {
          expect(turns++).toBeLessThan(500);
          const { turn } = next.turn;
          expect(waiting.delete(next.workflowId)).toBe(true);
          if (['accepted', 'other', 'silent', 'late'].includes(answer)) taken.push(clock.now);
          if (answer === 'silent') continue;
          if (answer === 'late') late.push(turn);
          else if (answer === 'throttled') join(next.workflowId, queue.refused(turn));
          else if (answer === 'told') join(next.workflowId, queue.refused(turn, 3 * MINUTE));
          else run.report({ turn, outcome: answer, at: clock.now });
        }
      };
      for (const { joins, answer, passMs, disturbance } of steps) {
        for (let i = 0; i < joins; i++) join(`w${asked++}`);
        serve(answer);
        clock.now += passMs;
        for (const turn of late.splice(0)) run.report({ turn, outcome: 'accepted', at: clock.now });
        if (disturbance === 'clock back') clock.now -= 2 * passMs;
        if (disturbance === 'continues')
          run = new QueueRun('create', JSON.parse(JSON.stringify(run.carry())), () => clock.now);
        const [first] = waiting;
        if (disturbance === 'leaves' && first !== undefined) {
          run.leave({ workflowId: first });
          waiting.delete(first);
        }
      }
      for (let looks = 0; waiting.size > 0; looks++) {
        expect(looks).toBeLessThan(500);
        serve('accepted');
        if (waiting.size > 0) clock.now = Math.max(clock.now, run.wakeAt);
      }
      const hasJumped = steps.some(({ disturbance }) => disturbance === 'clock back');
      if (perHour === null || hasJumped) return;
      for (const at of taken) {
        expect(taken.filter((other) => other > at - HOUR && other <= at).length).toBeLessThanOrEqual(perHour);
      }
    }),
    { numRuns: 200 },
  );
});
