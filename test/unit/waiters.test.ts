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

test('where 20,000 wait, whoever is last must leave', () => {
  const waiters = new Waiters([]);
  for (let id = 0; id < 20_000; id++) expect(waiters.join(waiter(id, 3, id))).toEqual([]);
  expect(waiters.join(waiter(20_000, 3, 20_000)).map(({ workflowId }) => workflowId)).toEqual(['w20000']);
  expect(waiters.join(waiter(20_001, 1, 20_001)).map(({ workflowId }) => workflowId)).toEqual(['w19999']);
  expect([waiters.count, waiters.first?.workflowId]).toEqual([20_000, 'w20001']);
});

test('long ids leave room for fewer, so that all that wait can be handed on', () => {
  const waiters = new Waiters([]);
  for (let id = 0; id < 5_000; id++) {
    waiters.join({ ...waiter(id, 3, 1_700_000_000_000 + id, 1_000_000), workflowId: '"'.repeat(996) + id });
  }
  expect(waiters.count).toBeGreaterThan(700);
  expect(Buffer.byteLength(JSON.stringify(waiters.carry()))).toBeLessThanOrEqual(1_500_000);
});
