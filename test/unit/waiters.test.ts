import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Priority } from '../../src/contract.js';
import { Waiters, type Waiter } from '../../src/workflows/request-queue/queue-run.js';

const waiter = (id: number, priority: number, askedAt: number, requests = 1): Waiter => ({
  workflowId: `w${id}`,
  priority: priority as Priority,
  askedAt,
  requests,
});
const inOrder = (a: Waiter, b: Waiter) =>
  a.priority - b.priority || a.askedAt - b.askedAt || (a.workflowId < b.workflowId ? -1 : 1);

test('whoever joins, joins again and leaves, the order is by priority, then by time, then by id', () => {
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
