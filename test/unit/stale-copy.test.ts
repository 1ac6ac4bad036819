import { defaultPayloadConverter } from '@temporalio/common';
import type { WorkflowInterceptors } from '@temporalio/workflow';
import { expect, test, vi } from 'vitest';
import { STALE_COPY } from '../../src/contract/shared.js';
import { guard } from '../../src/temporal/private/stale-copy.js';

type Internals = Required<NonNullable<WorkflowInterceptors['internals']>[number]>;
type ActivateInput = Parameters<Internals['activate']>[0];
type Commands = Parameters<Internals['concludeActivation']>[0]['commands'];

interface Given extends Record<string, unknown> {
  commands?: Commands;
}

const AT_NOON = { seconds: 43_200, nanos: 5 };
const TIMEOUT_MS = 5_000;
const LATER = { seconds: 43_210, nanos: 5 };

const thrownAway = vi.fn<() => void>();

/** Gives a worker the activations of one copy of a run, one after the other. Returns how many it took. */
function taken(...activations: Given[]): number {
  const [internals] = guard(thrownAway, () => TIMEOUT_MS).internals as [Internals];
  const next = vi.fn<(input: ActivateInput) => void>();
  for (const { commands = [], ...activation } of activations) {
    internals.activate({ activation } as unknown as ActivateInput, next);
    internals.concludeActivation({ commands }, (input) => input);
  }
  return next.mock.calls.length;
}

const first = { historyLength: 3, historySizeBytes: 700, timestamp: AT_NOON, jobs: [{ initializeWorkflow: {} }] };
const fired = { historyLength: 5, timestamp: AT_NOON, jobs: [{ fireTimer: {} }] };
const timer = { startTimer: { seq: 1 } } as Commands[number];
const refusal = { updateResponse: { rejected: {} } } as Commands[number];
/** Four events after the first task: its end, a timer that fired, and that the next was scheduled and started. */
const second = { ...fired, historyLength: 7, historySizeBytes: 1_100 };

test('events that come with a query, and with no task, end a copy of a run', () => {
  expect(() => taken(first, { ...fired, historySizeBytes: 700 })).toThrow(STALE_COPY);
  expect(() => taken(first, { ...second, historySizeBytes: 700 })).toThrow(STALE_COPY);
  expect(thrownAway).toHaveBeenCalledTimes(2);
});

test('a task whose commands left no events ends a copy of a run', () => {
  expect(() => taken({ ...first, commands: [timer] }, second)).toThrow(STALE_COPY);
  expect(taken({ ...first, commands: [timer] }, { ...second, historyLength: 8 })).toBe(2);
  expect(taken({ ...first, commands: [timer, { cancelTimer: { seq: 1 } }] }, second)).toBe(2);
});

/** With no task; `historyLength` is that of the whole history. */
const alone = (historyLength: number) => ({
  ...{ ...first, historyLength, isReplaying: true },
  jobs: [{ queryWorkflow: { queryId: 'legacy_query' } }],
});

test('a task at the end of the history that a query shows may have timed out in another hand', () => {
  const late = { ...second, timestamp: LATER };
  for (const next of [late, { ...late, jobs: [] }, { ...second, isReplaying: true }]) {
    expect(() => taken(first, alone(3), alone(3), next)).toThrow(STALE_COPY);
  }
  // The copy has done the task before itself: it is in charge of the run.
  expect(taken(first, second, alone(7), { ...late, historyLength: 11, historySizeBytes: 1_500 })).toBe(4);
  const replayed = { ...first, isReplaying: true };
  expect(() => taken(replayed, second, alone(7), { ...late, historyLength: 11, historySizeBytes: 1_500 })).toThrow(
    STALE_COPY,
  );
  // It has not timed out, or the next one shows what it sent.
  expect(taken(first, alone(3), second, late)).toBe(4);
  expect(taken({ ...first, commands: [timer] }, alone(3), { ...late, historyLength: 8 })).toBe(3);
  // It was done: the query goes with a task, the history goes on, or the task is of the past.
  const beside = { ...alone(3), jobs: [{ queryWorkflow: { queryId: '7' } }] };
  expect(taken(first, beside, late)).toBe(3);
  expect(taken(first, alone(5), late)).toBe(3);
  expect(taken({ ...first, isReplaying: true }, alone(3), late)).toBe(3);
});

test('events of no task that follow a task which brought nothing end a copy of a run', () => {
  // Of the task that brought nothing a copy sees the time alone.
  const ofNoTask = { ...second, isReplaying: false, timestamp: { seconds: 43_201, nanos: 5 }, commands: [timer] };
  const replayed = { ...first, isReplaying: true };
  const begun = { ...second, historyLength: 8, historySizeBytes: 1_300, timestamp: LATER, jobs: [] };
  expect(() => taken(replayed, ofNoTask, alone(7), begun)).toThrow(STALE_COPY);
  // The task that they wait for has timed out, and the next one has begun.
  const again = { ...begun, historyLength: 10 };
  expect(() => taken(replayed, ofNoTask, alone(7), again)).toThrow(STALE_COPY);
  expect(() => taken(replayed, { ...ofNoTask, commands: [] }, alone(7), again)).toThrow(STALE_COPY);
});

test('a task that did nothing but refuse updates may leave no events', () => {
  const refused = { ...second, jobs: [{ doUpdate: {} }], historyLength: 6, historySizeBytes: 900, commands: [refusal] };
  expect(taken(first, refused, second)).toBe(3);
  expect(() => taken(first, { ...refused, commands: [refusal, timer] }, second)).toThrow(STALE_COPY);
});

test('where the server’s clock was set back, tasks go on though no time passes', () => {
  expect(taken(first, second)).toBe(2);
});

test('an activity that completed meanwhile left two events', () => {
  const completed = { ...second, jobs: [{ resolveActivity: { result: { completed: {} } } }] };
  expect(taken(first, { ...completed, historyLength: 8 })).toBe(2);
  expect(() => taken({ ...first, commands: [timer] }, { ...completed, historyLength: 8 })).toThrow(STALE_COPY);
});

test('a task that is replayed ended well, whatever length of the history it names', () => {
  expect(taken({ ...first, historyLength: 4, isReplaying: true }, { ...second, historyLength: 6 })).toBe(2);
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
