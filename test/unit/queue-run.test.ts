import { expect, test } from 'vitest';
import { QueueRun } from '../../src/workflows/request-queue/queue-run.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** A queue whose learned budget of ten is spent, and that so many jobs wait in. */
function spentQueue(waiting: number) {
  const clock = { now: 1_000 * HOUR };
  const empty = { name: 'q', nextTurn: 1, waiters: [], turns: [], budget: null, wasUsed: false };
  const run = new QueueRun(empty, () => clock.now);
  const join = (id: number, turn: string | null = null) =>
    run.join({
      workflowId: `w${id}`,
      priority: 3,
      askedAt: id,
      accepted: id === 0 && turn === null ? [[clock.now - MINUTE, 10]] : [],
      ...((turn !== null || id === 0) && { report: { turn, outcome: 'throttled' as const, at: clock.now } }),
    });
  for (let id = 0; id < waiting; id++) join(id);
  return { clock, run, join };
}

test('waiters take turns at tries beyond a learned budget, so that none pays for all that are refused', () => {
  const { clock, run, join } = spentQueue(12);
  const tried: string[] = [];
  const endsAt = clock.now + 58 * MINUTE;
  for (; clock.now < endsAt; clock.now += 10_000) {
    for (let given = run.nextTurn(); given; given = run.nextTurn()) {
      tried.push(given.workflowId);
      join(Number(given.workflowId.slice(1)), given.turn.turn);
    }
  }
  expect(tried).toEqual(['w1', 'w2']);
});

test('waiters take turns at tries of which nothing is known, too', () => {
  const clock = { now: 1_000 * HOUR };
  const empty = { name: 'q', nextTurn: 1, waiters: [], turns: [], budget: null, wasUsed: false };
  const run = new QueueRun(empty, () => clock.now);
  const join = (id: string, turn: string | null) =>
    run.join({
      workflowId: id,
      priority: 3,
      askedAt: Number(id),
      report: { turn, outcome: 'throttled', at: clock.now },
    });
  for (const id of ['0', '1', '2']) join(id, null);
  const tried = Array.from({ length: 6 }, () => {
    clock.now = run.nextTurnAt!;
    const { workflowId, turn } = run.nextTurn()!;
    join(workflowId, turn.turn);
    return workflowId;
  });
  expect(tried).toEqual(['0', '1', '2', '0', '1', '2']);
});

test('once a try beyond a learned budget is accepted, the others follow in order', () => {
  const { clock, run, join } = spentQueue(12);
  clock.now += 25 * MINUTE;
  const refused = run.nextTurn()!;
  join(1, refused.turn.turn);
  clock.now += 25 * MINUTE;
  const taken = run.nextTurn()!;
  run.report({ turn: taken.turn.turn, outcome: 'accepted', at: clock.now });
  expect([refused.workflowId, taken.workflowId, run.nextTurn()?.workflowId]).toEqual(['w1', 'w2', 'w0']);
});
