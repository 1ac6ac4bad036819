import { defaultPayloadConverter } from '@temporalio/common';
import type { WorkflowInterceptors } from '@temporalio/workflow';
import { expect, test, vi } from 'vitest';
import { STALE_COPY } from '../../src/contract/shared.js';
import { guard } from '../../src/temporal/private/stale-copy.js';

type Internals = Required<NonNullable<WorkflowInterceptors['internals']>[number]>;
type ActivateInput = Parameters<Internals['activate']>[0];

const AT_NOON = { seconds: 43_200, nanos: 5 };

const thrownAway = vi.fn<() => void>();

/** Gives a worker the activations of one copy of a run, one after the other. Returns how many it took. */
function taken(...activations: Record<string, unknown>[]): number {
  const [internals] = guard(thrownAway).internals as [Internals];
  const next = vi.fn<(input: ActivateInput) => void>();
  for (const activation of activations) internals.activate({ activation } as unknown as ActivateInput, next);
  return next.mock.calls.length;
}

const first = { historyLength: 3, historySizeBytes: 700, timestamp: AT_NOON, jobs: [{ initializeWorkflow: {} }] };
const fired = { historyLength: 5, timestamp: AT_NOON, jobs: [{ fireTimer: {} }] };
/** Four events after the first task: its end, a timer that fired, and that the next was scheduled and started. */
const second = { ...fired, historyLength: 7, historySizeBytes: 1_100 };

test('events that come with a query, and with no task, end a copy of a run', () => {
  expect(() => taken(first, { ...fired, historySizeBytes: 700 })).toThrow(STALE_COPY);
  expect(() => taken(first, { ...second, historySizeBytes: 700 })).toThrow(STALE_COPY);
  expect(thrownAway).toHaveBeenCalledTimes(2);
});

/** With no task; `historyLength` is that of the whole history. */
const alone = (historyLength: number) => ({
  ...{ ...first, historyLength, isReplaying: true },
  jobs: [{ queryWorkflow: { queryId: 'legacy_query' } }],
});

test('a task that ends the history which a query alone shows is in another hand: the next one ends the copy', () => {
  for (const next of [second, { ...second, isReplaying: true }, { ...second, jobs: [] }]) {
    expect(() => taken(first, alone(3), alone(3), next)).toThrow(STALE_COPY);
  }
  expect(taken(first, alone(3), alone(3))).toBe(3);
  // The task was done: by this worker, whose query goes with the next task or came later, or by any.
  const beside = { ...alone(3), jobs: [{ queryWorkflow: { queryId: '7' } }] };
  expect(taken(first, beside, second)).toBe(3);
  expect(taken(first, alone(5), second)).toBe(3);
  expect(taken({ ...first, isReplaying: true }, alone(3), second)).toBe(3);
});

test('where the server’s clock was set back, tasks go on though no time passes', () => {
  expect(taken(first, second)).toBe(2);
});

test('a query that brings no events spoils nothing, to whatever end it reads the history', () => {
  const query = { ...first, historyLength: 5, jobs: [{ queryWorkflow: {} }] };
  expect(taken(first, query, second)).toBe(3);
});

test('a copy that was just read from the history answers as of its last task who says that the run is closed', () => {
  const replayed = { ...first, isReplaying: true };
  const late = { ...fired, historySizeBytes: 700 };
  const query = (...args: unknown[]) => {
    const given = args.map((arg) => defaultPayloadConverter.toPayload(arg));
    return { ...late, isReplaying: true, jobs: [{ queryWorkflow: { arguments: given } }] };
  };
  const closed = query({ isClosed: true });
  expect(taken(replayed, late, closed, closed)).toBe(3);
  expect(() => taken(replayed, late, query())).toThrow(STALE_COPY);
  expect(() => taken(replayed, late, query('a text'))).toThrow(STALE_COPY);
  for (const next of [second, { ...second, jobs: [] }]) {
    expect(() => taken(replayed, late, closed, next)).toThrow(STALE_COPY);
  }
});
