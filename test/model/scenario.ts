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
  /** What the record in the response shows; by default `active`, or `failed` where the response is terminal. */
  shown?: { kind?: Status; link?: Link };
}

/** Words of the upstream for a status. */
const STATUSES = ['active', 'completed', 'archived', 'failed', 'Completed ', 'FAILED', 'cancelled', 'idle'] as const;
type Status = (typeof STATUSES)[number];

const [A, B] = ['https://github.example/a/b/pull/100', 'https://github.example/a/b/pull/200'];
/** Links as the upstream may send them. */
export const LINKS = {
  none: null,
  blank: ' ',
  A,
  B,
  list: [A, B],
  listOfB: [B],
  otherList: [B, A],
  object: { url: A },
} as const;
type Link = keyof typeof LINKS;

/** How the upstream responds to some polls in a row. */
export interface ReadAnswer {
  /** `changed`: active, with another link than before. The pages come from something on the way. */
  kind: Status | 'changed' | 'notFound' | 'gone' | 'broken' | 'unauthorized' | 'wait' | 'page403' | 'page404';
  /** Of a record; by default the last one of `changed`. */
  link?: Link;
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

export type FinalRead = ReadAnswer['kind'] | 'flapping' | 'newLinks';

export interface Scenario {
  isAttached: boolean;
  usedFollowUpIds: string[];
  deadline: number;
  startWithin: number | null;
  polling: { min: number; max: number; ratio: number };
  onUnknownOutcome: 'ask' | 'fail' | 'retry';
  decideWithin: number | null;
  settle: number;
  /** Further words that end a job, as the operator says. */
  furtherEnds: Record<string, 'completed' | 'archived' | 'failed'>;
  /** Temporal itself started the run again. */
  isRepeated: boolean;
  creates: WriteAnswer[];
  messages: WriteAnswer[];
  queue: QueueAnswer[];
  /** A queue orders the writes of the project before this job begins. */
  isQueueThere: boolean;
  reads: ReadAnswer[];
  /** What is read from the acceptance of each message on, in place of what was left. */
  readsAfterMessages: ReadAnswer[][];
  /** The response to all later polls. */
  finalRead: FinalRead;
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

const link = fc.constantFrom(...(Object.keys(LINKS) as Link[]));
const optionalLink = fc.option(link, { nil: undefined }).map((one) => (one === undefined ? {} : { link: one }));
const shown = fc.option(
  fc
    .tuple(fc.constantFrom<Status>('active', 'completed', 'failed'), optionalLink)
    .map(([kind, of]) => ({ kind, ...of })),
  { nil: undefined },
);

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
    shown,
  )
  .map(
    ([kind, after, takes, record]) =>
      ({
        kind,
        ...(kind === 'throttled' ? after : {}),
        takesMs: takes,
        ...(kind === 'accepted' && record && { shown: record }),
      }) as WriteAnswer,
  );

const times = fc.constantFrom(1, 1, 1, 2, 3, 8);
const record: fc.Arbitrary<ReadAnswer> = fc
  .tuple(fc.constantFrom('active', 'active', 'completed', 'completed', ...STATUSES), optionalLink, takesMs, times)
  .map(([kind, of, takes, often]) => ({ kind, ...of, takesMs: takes, times: often }) as ReadAnswer);
/** Answers that may come with a `Retry-After`. */
const MAY_WAIT = ['wait', 'page403', 'page404'];
const failure: fc.Arbitrary<ReadAnswer> = fc
  .tuple(
    fc.constantFrom('changed', 'notFound', 'gone', 'broken', 'unauthorized', 'wait', 'page403', 'page404'),
    retryAfterMs,
    takesMs,
    times,
  )
  .map(
    ([kind, after, takes, often]) =>
      ({ kind, ...(MAY_WAIT.includes(kind) && { retryAfterMs: after }), takesMs: takes, times: often }) as ReadAnswer,
  );

const at0 = (kind: Status, of?: Link, often = 1): ReadAnswer => ({
  kind,
  ...(of && { link: of }),
  takesMs: 0,
  times: often,
});
const few = fc.integer({ min: 1, max: 12 });
/** Two answers in turn. */
const flapping = fc
  .tuple(record, record, few)
  .map(([one, other, often]) => Array.from({ length: often }, () => [one, other]).flat());
/** A link that comes after its end. */
const lateLink = fc
  .tuple(few, fc.constantFrom<Status>('completed', 'Completed '))
  .map(([often, status]) => [at0('active', 'none'), at0(status, 'none', often), at0(status, 'A')]);
/** The end before a message is shown for a while, then work, then the next end. */
const staleEnd = fc
  .tuple(fc.constantFrom<Status>('completed', 'failed'), few, few, fc.constantFrom<Link>('A', 'B', 'list'))
  .map(([end, stale, work, of]) => [at0(end, 'A', stale), at0('active', 'A', work), at0('completed', of)]);

const readAnswers: fc.Arbitrary<ReadAnswer[]> = fc
  .array(
    fc.oneof(
      { weight: 5, arbitrary: record.map((one) => [one]) },
      { weight: 4, arbitrary: failure.map((one) => [one]) },
      { weight: 1, arbitrary: flapping },
      { weight: 1, arbitrary: lateLink },
      { weight: 1, arbitrary: staleEnd },
    ),
    { maxLength: 8 },
  )
  .map((answers) => answers.flat());

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
      { min: 20 * SECOND, max: 60 * SECOND, ratio: 0.1 },
    ),
    onUnknownOutcome: fc.constantFrom('ask' as const, 'ask' as const, 'fail' as const, 'retry' as const),
    decideWithin: fc.constantFrom(null, null, 0, 30 * SECOND, 60 * MINUTE),
    settle: fc.constantFrom(0, 5 * SECOND, 5 * SECOND, 30 * SECOND, 2 * MINUTE),
    furtherEnds: fc.constantFrom({}, { cancelled: 'failed' as const, idle: 'completed' as const }),
    isRepeated: fc.constantFrom(false, false, false, true),
    creates: fc.array(writeAnswer, { maxLength: 4 }),
    messages: fc.array(writeAnswer, { maxLength: 8 }),
    queue: fc.array(queueAnswer, { maxLength: 6 }),
    isQueueThere: fc.constantFrom(false, false, true),
    reads: readAnswers,
    readsAfterMessages: fc.array(readAnswers, { maxLength: 3 }),
    finalRead: fc.constantFrom<FinalRead>(
      'completed',
      'completed',
      'archived',
      'failed',
      'active',
      'cancelled',
      'notFound',
      'gone',
      'broken',
      'page404',
      'flapping',
      'newLinks',
    ),
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
