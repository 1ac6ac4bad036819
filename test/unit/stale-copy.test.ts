import type { WorkflowInterceptors } from '@temporalio/workflow';
import { expect, test, vi } from 'vitest';
import { STALE_COPY } from '../../src/contract/shared.js';
import { interceptors } from '../../src/workflows/stale-copy.js';

type Internals = NonNullable<WorkflowInterceptors['internals']>[number];
type ActivateInput = Parameters<NonNullable<Internals['activate']>>[0];

const AT_NOON = { seconds: 43_200, nanos: 5 };

/** What a worker is given of one copy of a run, one after the other. Returns how many of them it took. */
function taken(...activations: object[]): number {
  const { internals = [] } = interceptors();
  const next = vi.fn<(input: ActivateInput) => void>();
  for (const activation of activations) internals[0]?.activate?.({ activation } as unknown as ActivateInput, next);
  return next.mock.calls.length;
}

const first = { historyLength: 3, historySizeBytes: 700, timestamp: AT_NOON, jobs: [{ initializeWorkflow: {} }] };
const fired = { historyLength: 5, timestamp: AT_NOON, jobs: [{ fireTimer: {} }] };

test('events that come with a query, and with no task, end a copy of a run', () => {
  expect(() => taken(first, { ...fired, historySizeBytes: 700 })).toThrow(STALE_COPY);
});

test('where the server’s clock was set back, tasks go on though no time passes', () => {
  expect(taken(first, { ...fired, historySizeBytes: 1_100 })).toBe(2);
});

test('a query that brings no events spoils nothing', () => {
  expect(taken(first, { ...first, jobs: [{ queryWorkflow: {} }] })).toBe(2);
});

test('a copy that was just read from the history answers as of its last task who says that the run is closed', () => {
  const replayed = { ...first, isReplaying: true };
  const late = { ...fired, historySizeBytes: 700 };
  const query = (...args: object[]) => ({ ...late, isReplaying: true, jobs: [{ queryWorkflow: { arguments: args } }] });
  expect(taken(replayed, late, query({}), query({}))).toBe(3);
  expect(() => taken(replayed, late, query())).toThrow(STALE_COPY);
  const next = { ...fired, historyLength: 7, historySizeBytes: 1_100 };
  expect(() => taken(replayed, late, query({}), next)).toThrow(STALE_COPY);
});
