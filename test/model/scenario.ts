/**
 * All external events of one job, as plain data that fast-check generates, shrinks and prints. Times in milliseconds.
 */
import fc from 'fast-check';

/** How the upstream responds to one write, and after how long. */
export interface WriteAnswer {
  kind:
    | 'accepted'
    | 'acceptedUnreadable'
    | 'acceptedTerminal'
    | 'rejected'
    | 'throttled'
    | 'notDelivered'
    | 'unauthorized'
    | 'blocked'
    | 'inDoubt'
    | 'workerDies';
  retryAfterMs?: number;
  takesMs: number;
}

/** How the upstream responds to some reads in a row. */
export interface ReadAnswer {
  kind: 'active' | 'completed' | 'archived' | 'failed' | 'changed' | 'notFound' | 'broken' | 'unauthorized' | 'wait';
  retryAfterMs?: number;
  takesMs: number;
  times: number;
}

/** How a queue treats the next one that joins it. */
export interface QueueAnswer {
  /** `silent`: it has the request and answers no query of a place. */
  kind: 'joined' | 'unreachable' | 'silent';
  /** When the turn is expected; absent if unknown. */
  expectedInMs?: number;
  /** The turns that it gives, and for how long each is good when it comes: too late if that is 0. */
  turns: { afterMs: number; validMs: number }[];
}

export type Action =
  /** `isOther`: with a prompt that no other message has. */
  | { kind: 'signal' | 'update'; id: string; at: number; isOther?: boolean }
  | { kind: 'pollNow' | 'cancel'; at: number }
  | { kind: 'malformed'; at: number }
  /** One that was not asked for. */
  | { kind: 'turn'; at: number; validMs: number };

/** How a person resolves the next write in doubt, and after how long; later ones stay unresolved. */
export interface Decision {
  action: 'adopt' | 'delivered' | 'retry' | 'abandon';
  afterMs: number;
}

export interface Scenario {
  isAttached: boolean;
  usedFollowUpIds: string[];
  deadline: number;
  startWithin: number | null;
  polling: { min: number; max: number; ratio: number };
  onUnknownOutcome: 'ask' | 'fail' | 'retry';
  decideWithin: number | null;
  settle: number;
  linger: number;
  /** Temporal itself started the run again. */
  isRepeated: boolean;
  creates: WriteAnswer[];
  messages: WriteAnswer[];
  queue: QueueAnswer[];
  /** A queue orders the writes of the project before this job begins. */
  isQueueThere: boolean;
  reads: ReadAnswer[];
  /** The response to all later reads. */
  finalRead: 'active' | 'completed' | 'archived' | 'failed' | 'notFound' | 'broken';
  actions: Action[];
  decisions: Decision[];
  /** Workflow tasks of a run after which the server suggests to continue as new. */
  tasksPerRun: number;
  /** Messages and results of one moment reach the workflow in one task. */
  isBatching: boolean;
  /** Seeds all that is random in workflow and activities. */
  randomSeed: number;
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** The runner cancels a job that has not ended by then. */
export const HORIZON_MS = 12 * 60 * MINUTE;

const ids = ['a', 'b', 'c', 'd', 'e'] as const;
const id = fc.constantFrom(...ids);
// Coarse, so that things often happen at the same moment.
const at = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 40 }).map((n) => n * 500) },
  { weight: 2, arbitrary: fc.integer({ min: 0, max: 60 }).map((n) => n * 5 * SECOND) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 400_000 }) },
);
const takesMs = fc.oneof(
  { weight: 4, arbitrary: fc.constant(0) },
  { weight: 2, arbitrary: fc.constantFrom(500, 1_000, 2_000) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 20_000 }) },
);
const retryAfterMs = fc.constantFrom(0, SECOND, 7 * SECOND, 90 * SECOND, 2 * 60 * MINUTE);
const optionalRetryAfter = fc
  .option(retryAfterMs, { nil: undefined })
  .map((ms) => (ms === undefined ? {} : { retryAfterMs: ms }));

const writeAnswer: fc.Arbitrary<WriteAnswer> = fc
  .tuple(
    fc.constantFrom(
      'accepted',
      'accepted',
      'acceptedUnreadable',
      'acceptedTerminal',
      'rejected',
      'throttled',
      'notDelivered',
      'unauthorized',
      'blocked',
      'inDoubt',
      'inDoubt',
      'workerDies',
    ),
    optionalRetryAfter,
    takesMs,
  )
  .map(([kind, after, takes]) => ({ kind, ...(kind === 'throttled' ? after : {}), takesMs: takes }) as WriteAnswer);

const readAnswer: fc.Arbitrary<ReadAnswer> = fc
  .tuple(
    fc.constantFrom(
      'active',
      'active',
      'completed',
      'archived',
      'failed',
      'changed',
      'notFound',
      'broken',
      'unauthorized',
      'wait',
    ),
    retryAfterMs,
    takesMs,
    fc.constantFrom(1, 1, 1, 2, 3, 8),
  )
  .map(
    ([kind, after, takes, times]) =>
      ({ kind, ...(kind === 'wait' ? { retryAfterMs: after } : {}), takesMs: takes, times }) as ReadAnswer,
  );

const validMs = fc.constantFrom(60 * SECOND, 60 * SECOND, 60 * SECOND, 0, SECOND);
const queueAnswer: fc.Arbitrary<QueueAnswer> = fc
  .tuple(
    fc.constantFrom('joined' as const, 'joined' as const, 'joined' as const, 'unreachable' as const, 'silent' as const),
    fc.option(fc.constantFrom(0, 10 * MINUTE, 3 * 60 * MINUTE), { nil: undefined }),
    fc.array(fc.record({ afterMs: fc.oneof(fc.constant(0), at, fc.constant(2 * 60 * MINUTE)), validMs }), {
      maxLength: 2,
    }),
  )
  .map(([kind, expected, turns]) => ({ kind, turns, ...(expected !== undefined && { expectedInMs: expected }) }));

const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constantFrom('signal' as const, 'update' as const),
      id,
      at,
      isOther: fc.constantFrom(false, false, true),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('pollNow' as const), at }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('malformed' as const), at }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel' as const), at }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('turn' as const), at, validMs }) },
);

const decision: fc.Arbitrary<Decision> = fc.record({
  action: fc.constantFrom('adopt', 'delivered', 'retry', 'retry', 'abandon'),
  afterMs: fc.constantFrom(0, 500, 10 * SECOND, 10 * MINUTE, 2 * 60 * MINUTE),
});

/** Whole scenarios. */
export const scenarios: fc.Arbitrary<Scenario> = fc
  .record({
    isAttached: fc.boolean(),
    usedFollowUpIds: fc.uniqueArray(id, { maxLength: 2 }),
    deadline: fc.constantFrom(0, 500, 3 * SECOND, MINUTE, 30 * MINUTE),
    startWithin: fc.constantFrom(null, null, null, 0, 3 * SECOND, 30 * MINUTE),
    polling: fc.constantFrom(
      { min: SECOND, max: SECOND, ratio: 0 },
      { min: 2 * SECOND, max: 60 * SECOND, ratio: 0.1 },
      { min: 5 * SECOND, max: 20 * SECOND, ratio: 1 },
    ),
    onUnknownOutcome: fc.constantFrom('ask' as const, 'ask' as const, 'fail' as const, 'retry' as const),
    decideWithin: fc.constantFrom(null, null, 0, 30 * SECOND, 60 * MINUTE),
    settle: fc.constantFrom(0, 5 * SECOND, 5 * SECOND, 2 * MINUTE),
    linger: fc.constantFrom(0, 0, 10 * SECOND, 5 * MINUTE),
    isRepeated: fc.constantFrom(false, false, false, true),
    creates: fc.array(writeAnswer, { maxLength: 4 }),
    messages: fc.array(writeAnswer, { maxLength: 8 }),
    queue: fc.array(queueAnswer, { maxLength: 6 }),
    isQueueThere: fc.constantFrom(false, false, true),
    reads: fc.array(readAnswer, { maxLength: 8 }),
    finalRead: fc.constantFrom('completed', 'completed', 'archived', 'failed', 'active', 'notFound', 'broken'),
    actions: fc.array(action, { maxLength: 12 }),
    decisions: fc.array(decision, { maxLength: 3 }),
    tasksPerRun: fc.constantFrom(1e9, 1e9, 4, 7, 12),
    isBatching: fc.boolean(),
    randomSeed: fc.nat(),
  })
  .map((scenario) => ({
    ...scenario,
    usedFollowUpIds: scenario.isAttached ? scenario.usedFollowUpIds : [],
    actions: scenario.actions.toSorted((a, b) => a.at - b.at),
  }));
