import './sdk-globals.js';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { agentJob } from '../../src/workflows/index.js';
import { modelRuns } from './model-runs.js';
import { runSimulated } from './simulated-runner.js';
import { scenarios, type ReadAnswer, type Scenario, type WriteAnswer } from './scenario.js';

test(
  'agentJob keeps the contract in whatever order things happen',
  { timeout: 30_000 + 500 * modelRuns.numRuns },
  async () => {
    const property = fc.asyncProperty(scenarios, async (scenario) => void (await runSimulated(scenario, agentJob)));
    await expect(fc.assert(property, modelRuns)).resolves.toBeUndefined();
  },
);

test('a scenario happens the same way each time', async () => {
  const logOf = (scenario: Scenario) => runSimulated(scenario, agentJob);
  let drawn = 0;
  for (const scenario of fc.sample(scenarios, { numRuns: 30, seed: modelRuns.seed })) {
    const log = await logOf(scenario);
    expect(await logOf(scenario)).toEqual(log);
    const other = await logOf({ ...scenario, randomSeed: scenario.randomSeed + 1 });
    if (JSON.stringify(other) !== JSON.stringify(log)) drawn += 1;
  }
  // What is random there comes from the seed.
  expect(drawn).toBeGreaterThan(0);
});

const PLAIN: Scenario = {
  isAttached: false,
  usedFollowUpIds: [],
  deadline: 60_000,
  startWithin: null,
  polling: { min: 1_000, max: 1_000, ratio: 0 },
  onUnknownOutcome: 'ask',
  decideWithin: null,
  settle: 0,
  furtherEnds: {},
  isRepeated: false,
  creates: [],
  messages: [],
  queue: [],
  isQueueThere: false,
  reads: [],
  readsAfterMessages: [],
  finalRead: 'completed',
  actions: [],
  decisions: [],
  tasksPerRun: 1e9,
  isBatching: false,
  randomSeed: 0,
};

function repeated<T>(times: number, ...answers: T[]): T[] {
  return Array.from({ length: times }, () => answers).flat();
}

const FOUND: Record<string, Partial<Scenario>> = {
  'a create whose time to start is over as the run would continue as new tells that it timed out': {
    startWithin: 3_000,
    queue: [
      { kind: 'joined', turns: [] },
      { kind: 'joined', turns: [] },
    ],
    isQueueThere: true,
    actions: [
      { kind: 'signal', id: 'a', at: 0 },
      { kind: 'signal', id: 'a', at: 0 },
      { kind: 'pollNow', at: 1_000 },
    ],
    tasksPerRun: 7,
  },
  'a 429 that could not be reported to the queue lets no write past it': {
    deadline: 3_000,
    creates: [{ kind: 'throttled', takesMs: 0 }],
    queue: [
      { kind: 'joined', turns: [{ afterMs: 0, validMs: 60_000 }] },
      { kind: 'unreachable', turns: [] },
    ],
    isQueueThere: true,
  },
  'reads that are refused hold no write': {
    deadline: 0,
    polling: { min: 5_000, max: 20_000, ratio: 1 },
    decideWithin: 3_600_000,
    messages: [{ kind: 'inDoubt', takesMs: 1 }],
    reads: [
      { kind: 'active', takesMs: 500, times: 2 },
      { kind: 'unauthorized', takesMs: 0, times: 8 },
      { kind: 'wait', retryAfterMs: 7_000, takesMs: 0, times: 8 },
    ],
    actions: [
      { kind: 'signal', id: 'a', at: 0 },
      { kind: 'signal', id: 'c', at: 0 },
    ],
  },
  'a follow-up that waits behind an unknown create stays queued': {
    creates: [{ kind: 'inDoubt', takesMs: 0 }],
    actions: [{ kind: 'update', id: 'a', at: 0 }],
    decisions: [{ action: 'retry', afterMs: 500 }],
  },
  'a Retry-After that comes together with continue-as-new is obeyed': {
    deadline: 0,
    messages: [{ kind: 'inDoubt', takesMs: 500 }],
    reads: [
      { kind: 'failed', takesMs: 500, times: 1 },
      { kind: 'wait', retryAfterMs: 7_200_000, takesMs: 0, times: 1 },
    ],
    actions: [{ kind: 'signal', id: 'a', at: 0 }],
    tasksPerRun: 4,
  },
  'a 404 that was read before a follow-up was accepted is none of the five': {
    deadline: 1_800_000,
    messages: [{ kind: 'accepted', takesMs: 500 }],
    reads: [{ kind: 'notFound', takesMs: 500, times: 20 }],
    finalRead: 'notFound',
    actions: [
      { kind: 'pollNow', at: 10_000 },
      { kind: 'signal', id: 'a', at: 10_000 },
    ],
    isBatching: true,
  },
  'a retry that a person said at the deadline is carried out, whatever the reads wait for': {
    isAttached: true,
    messages: [{ kind: 'inDoubt', takesMs: 0 }],
    reads: [{ kind: 'wait', retryAfterMs: 90_000, takesMs: 0, times: 1 }],
    actions: [{ kind: 'signal', id: 'a', at: 0 }],
    deadline: 0,
    decisions: [{ action: 'retry', afterMs: 500 }],
  },
  'an update that comes together with a decision may be answered as before it': {
    isAttached: true,
    isRepeated: true,
    finalRead: 'broken',
    actions: [
      { kind: 'signal', id: 'a', at: 2_500 },
      { kind: 'update', id: 'a', at: 12_500 },
    ],
    decisions: [{ action: 'adopt', afterMs: 10_000 }],
    isBatching: true,
  },
  'a read that continue-as-new cuts off changes nothing': {
    deadline: 0,
    messages: [
      { kind: 'accepted', takesMs: 500 },
      { kind: 'accepted', takesMs: 0 },
      { kind: 'rejected', takesMs: 0 },
    ],
    reads: [
      { kind: 'completed', takesMs: 0, times: 2 },
      { kind: 'active', takesMs: 0, times: 1 },
    ],
    actions: [
      { kind: 'signal', id: 'a', at: 0 },
      { kind: 'signal', id: 'd', at: 0 },
      { kind: 'signal', id: 'b', at: 501 },
    ],
    tasksPerRun: 4,
  },
  'a turn is good for one send': {
    creates: [
      { kind: 'throttled', takesMs: 0 },
      { kind: 'throttled', takesMs: 0 },
    ],
    isQueueThere: true,
  },
  'one that gets nothing from its queue asks again': {
    queue: [{ kind: 'joined', turns: [] }],
    isQueueThere: true,
  },
  'a turn that ends in doubt begins the waits anew': {
    deadline: 3_000,
    onUnknownOutcome: 'retry',
    creates: [{ kind: 'inDoubt', takesMs: 1 }],
    queue: [
      { kind: 'joined', expectedInMs: 10_800_000, turns: [{ afterMs: 7_200_000, validMs: 60_000 }] },
      { kind: 'joined', turns: [] },
    ],
    isQueueThere: true,
  },
  'a read that is due at the very moment at which a follow-up is given up is no second one': {
    deadline: 1_800_000,
    decideWithin: 3_600_000,
    settle: 120_000,
    isRepeated: true,
    reads: [{ kind: 'active', takesMs: 0, times: 1 }],
    finalRead: 'broken',
    actions: [
      { kind: 'signal', id: 'a', at: 0 },
      { kind: 'signal', id: 'b', at: 0 },
    ],
    decisions: [{ action: 'adopt', afterMs: 0 }],
  },
  'a follow-up that may have arrived waits for its turn also where the deadline passed before that': {
    deadline: 500,
    onUnknownOutcome: 'retry',
    messages: [{ kind: 'inDoubt', takesMs: 0 }],
    isQueueThere: true,
    actions: [
      { kind: 'signal', id: 'a', at: 0 },
      { kind: 'update', id: 'b', at: 0 },
    ],
  },
  'a retry that a person said waits for its turn also where the deadline has passed': {
    deadline: 0,
    messages: [
      { kind: 'inDoubt', takesMs: 0 },
      { kind: 'throttled', takesMs: 500 },
    ],
    actions: [{ kind: 'signal', id: 'a', at: 0 }],
    decisions: [{ action: 'retry', afterMs: 1_000 }],
  },
  'a follow-up that may have arrived waits for its turn also where the deadline passed while it was sent': {
    deadline: 500,
    onUnknownOutcome: 'retry',
    decideWithin: 3_600_000,
    messages: [
      { kind: 'throttled', takesMs: 500 },
      { kind: 'workerDies', takesMs: 1 },
    ],
    actions: [{ kind: 'signal', id: 'a', at: 0 }],
  },
  'a follow-up that may have arrived waits for its turn also where the job is gone': {
    deadline: 0,
    onUnknownOutcome: 'retry',
    messages: [
      { kind: 'workerDies', takesMs: 0 },
      { kind: 'workerDies', takesMs: 500 },
      { kind: 'throttled', takesMs: 1 },
    ],
    reads: [{ kind: 'active', takesMs: 500, times: 1 }],
    finalRead: 'notFound',
    actions: [{ kind: 'signal', id: 'a', at: 500 }],
  },
  'a create that may have arrived waits for its turn also where the deadline passed before that': {
    deadline: 0,
    onUnknownOutcome: 'retry',
    creates: [
      { kind: 'inDoubt', takesMs: 0 },
      { kind: 'throttled', takesMs: 0 },
    ],
  },
  'a follow-up that is given up at the moment of the deadline does not end with the run': {
    deadline: 500,
    onUnknownOutcome: 'retry',
    decideWithin: 0,
    messages: [{ kind: 'inDoubt', takesMs: 0 }],
    isQueueThere: true,
    actions: [{ kind: 'signal', id: 'a', at: 0 }],
  },
  'an update that comes while a cancelled job leaves its queue is refused, as after the end': {
    queue: [{ kind: 'joined', turns: [] }],
    isQueueThere: true,
    actions: [
      { kind: 'cancel', at: 20_000 },
      { kind: 'update', id: 'a', at: 20_000 },
    ],
  },
  'a decision that comes while a cancelled job leaves its queue is refused, as after the end': {
    onUnknownOutcome: 'retry',
    creates: [{ kind: 'inDoubt', takesMs: 0 }],
    isQueueThere: true,
    actions: [{ kind: 'cancel', at: 2_500 }],
    decisions: [{ action: 'abandon', afterMs: 0 }],
    isBatching: true,
  },
  'a decision may call for a read at the moment at which continue-as-new brings one': {
    isAttached: true,
    deadline: 500,
    settle: 120_000,
    isRepeated: true,
    finalRead: 'notFound',
    actions: [
      { kind: 'signal', id: 'a', at: 500 },
      { kind: 'pollNow', at: 1_000 },
    ],
    decisions: [{ action: 'adopt', afterMs: 500 }],
    tasksPerRun: 7,
  },
  'two turns that no workflow asked for may come at one moment': {
    deadline: 1_800_000,
    messages: [{ kind: 'throttled', takesMs: 500 }],
    queue: [
      { kind: 'joined', turns: [] },
      { kind: 'joined', turns: [] },
    ],
    isQueueThere: true,
    actions: [
      { kind: 'signal', id: 'd', at: 13_000 },
      { kind: 'turn', at: 30_000, validMs: 60_000 },
      { kind: 'turn', at: 180_000, validMs: 60_000 },
      { kind: 'turn', at: 180_000, validMs: 60_000 },
    ],
  },
  'any other answer starts the count of 404 anew': {
    deadline: 1_800_000,
    polling: { min: 30_000, max: 30_000, ratio: 0 },
    reads: [
      { kind: 'notFound', takesMs: 0, times: 4 },
      { kind: 'broken', takesMs: 0, times: 1 },
      { kind: 'notFound', takesMs: 0, times: 4 },
    ],
  },
  'an answer that may be lost may also start the count of 404 anew': {
    deadline: 1_800_000,
    polling: { min: 5_000, max: 20_000, ratio: 1 },
    messages: [{ kind: 'rejected', takesMs: 2_000 }],
    reads: [
      { kind: 'active', takesMs: 0, times: 2 },
      { kind: 'notFound', takesMs: 0, times: 1 },
      { kind: 'active', takesMs: 500, times: 1 },
    ],
    finalRead: 'notFound',
    actions: [
      { kind: 'signal', id: 'a', at: 14_500 },
      { kind: 'pollNow', at: 16_500 },
    ],
  },
  'pollNow brings one read more at the deadline': {
    deadline: 500,
    reads: [
      { kind: 'active', takesMs: 14_750, times: 3 },
      { kind: 'active', takesMs: 16_001, times: 1 },
    ],
    actions: [
      { kind: 'signal', id: 'a', at: 500 },
      { kind: 'pollNow', at: 30_000 },
    ],
  },
  'an adoption that was asked for in time counts while the run waits with continue-as-new for it': {
    deadline: 1_800_000,
    decideWithin: 30_000,
    creates: [
      { kind: 'notDelivered', takesMs: 500 },
      { kind: 'workerDies', takesMs: 0 },
    ],
    reads: [
      { kind: 'wait', retryAfterMs: 0, takesMs: 500, times: 1 },
      { kind: 'active', takesMs: 9_501, times: 1 },
    ],
    decisions: [
      { action: 'adopt', afterMs: 10_000 },
      { action: 'adopt', afterMs: 10_000 },
    ],
    tasksPerRun: 7,
  },
  'a Retry-After of an upstream that flaps is known to its batch alone': {
    deadline: 1_800_000,
    reads: [
      { kind: 'unauthorized', takesMs: 0, times: 3 },
      { kind: 'active', takesMs: 1, times: 1 },
      { kind: 'broken', takesMs: 0, times: 3 },
      { kind: 'active', takesMs: 0, times: 1 },
      { kind: 'broken', takesMs: 0, times: 3 },
      { kind: 'active', takesMs: 500, times: 1 },
      { kind: 'wait', retryAfterMs: 90_000, takesMs: 500, times: 1 },
    ],
    actions: [{ kind: 'signal', id: 'a', at: 500 }],
  },
  'a 404 that continue-as-new cuts off is none of the five': {
    deadline: 1_800_000,
    messages: [
      { kind: 'unauthorized', takesMs: 500 },
      { kind: 'inDoubt', takesMs: 2_000 },
    ],
    reads: [
      { kind: 'completed', takesMs: 0, times: 1 },
      { kind: 'notFound', takesMs: 500, times: 8 },
      { kind: 'active', takesMs: 0, times: 1 },
      { kind: 'notFound', takesMs: 4_963, times: 8 },
      { kind: 'notFound', takesMs: 8_432, times: 1 },
    ],
    actions: [
      { kind: 'signal', id: 'a', at: 0 },
      { kind: 'signal', id: 'b', at: 0 },
      { kind: 'turn', at: 5_000, validMs: 60_000 },
    ],
    decisions: [{ action: 'adopt', afterMs: 10_000 }],
    tasksPerRun: 12,
    randomSeed: 282_441_740,
  },
  'the read after settle may follow at once on one that was under way then': {
    deadline: 1_800_000,
    settle: 5_000,
    messages: [{ kind: 'accepted', takesMs: 500 }],
    reads: [
      { kind: 'notFound', takesMs: 1_000, times: 3 },
      { kind: 'failed', takesMs: 500, times: 1 },
    ],
    actions: [{ kind: 'signal', id: 'a', at: 2_500 }],
  },
  'a deadline that passes as the run would continue as new ends it as timed out, whatever the job had come to': {
    deadline: 0,
    messages: [{ kind: 'throttled', takesMs: 0 }],
    reads: [
      { kind: 'failed', takesMs: 0, times: 1 },
      { kind: 'wait', retryAfterMs: 0, takesMs: 500, times: 1 },
    ],
    actions: [
      { kind: 'pollNow', at: 500 },
      { kind: 'signal', id: 'a', at: 1_500 },
    ],
    tasksPerRun: 7,
  },
  'a follow-up that comes together with the end of the job has the deadline that was': {
    deadline: 500,
    messages: [{ kind: 'throttled', takesMs: 500 }],
    reads: [{ kind: 'failed', takesMs: 1_000, times: 1 }],
    actions: [{ kind: 'signal', id: 'a', at: 1_000 }],
  },
  'a follow-up that is given up in the moment of its last send lets the deadline end the run': {
    deadline: 0,
    onUnknownOutcome: 'retry',
    decideWithin: 0,
    messages: [
      { kind: 'inDoubt', takesMs: 0 },
      { kind: 'throttled', takesMs: 0 },
    ],
    reads: [
      { kind: 'completed', takesMs: 0, times: 1 },
      { kind: 'wait', retryAfterMs: 0, takesMs: 0, times: 1 },
    ],
    actions: [{ kind: 'signal', id: 'a', at: 500 }],
  },
  'a follow-up that a person said to send is sent after continue-as-new without a second question': {
    isAttached: true,
    isRepeated: true,
    deadline: 600_000,
    decideWithin: 30_000,
    reads: [{ kind: 'active', takesMs: 0, times: 1 }],
    actions: [{ kind: 'signal', id: 'a', at: 0 }],
    decisions: [{ action: 'retry', afterMs: 500 }],
    tasksPerRun: 4,
  },
  'a create that a person said to send is sent after continue-as-new without a second question': {
    isRepeated: true,
    decideWithin: 3_600_000,
    creates: [{ kind: 'throttled', takesMs: 0 }],
    queue: [{ kind: 'joined', turns: [{ afterMs: 100_000, validMs: 60_000 }] }],
    decisions: [{ action: 'retry', afterMs: 500 }],
    tasksPerRun: 4,
  },
  'a second write that becomes unknown at the moment of a decision is decided as well': {
    isAttached: true,
    isRepeated: true,
    messages: [{ kind: 'accepted', takesMs: 0 }],
    finalRead: 'active',
    actions: [
      { kind: 'signal', id: 'a', at: 0 },
      { kind: 'signal', id: 'b', at: 0 },
    ],
    decisions: [
      { action: 'delivered', afterMs: 500 },
      { action: 'retry', afterMs: 0 },
    ],
  },
  'a link in a list is seen, also where the last one stays the same': {
    reads: [
      { kind: 'active', link: 'B', takesMs: 0, times: 1 },
      { kind: 'active', link: 'list', takesMs: 0, times: 1 },
      { kind: 'active', link: 'none', takesMs: 0, times: 1 },
    ],
  },
  'no poll shows work on a follow-up to a job that was just created, whatever the create’s response showed': {
    creates: [{ kind: 'acceptedUnreadable', takesMs: 0 }],
    reads: [{ kind: 'active', takesMs: 0, times: 2 }],
    actions: [{ kind: 'signal', id: 'a', at: 0 }],
  },
  'a Retry-After that comes with a page in place of an answer is obeyed': {
    isAttached: true,
    reads: [{ kind: 'page404', retryAfterMs: 90_000, takesMs: 0, times: 1 }],
    actions: [{ kind: 'pollNow', at: 10_000 }],
    deadline: 1_800_000,
  },
  'a follow-up brings no poll against a Retry-After, however often reads have failed before': {
    isAttached: true,
    deadline: 1_800_000,
    reads: [
      ...repeated<ReadAnswer>(4, { kind: 'broken', takesMs: 0, times: 2 }, { kind: 'active', takesMs: 0, times: 1 }),
      { kind: 'wait', retryAfterMs: 90_000, takesMs: 0, times: 1 },
    ],
    finalRead: 'active',
    actions: [{ kind: 'signal', id: 'a', at: 40_000 }],
  },
  'pollNow brings no poll against a Retry-After that is given again soon': {
    isAttached: true,
    deadline: 1_800_000,
    reads: repeated<ReadAnswer>(
      8,
      { kind: 'wait', retryAfterMs: 90_000, takesMs: 0, times: 1 },
      { kind: 'active', takesMs: 0, times: 1 },
    ),
    finalRead: 'active',
    actions: [120_000, 605_000].map((at) => ({ kind: 'pollNow', at })),
  },
  'an upstream that changes with each read is believed its last end, also where reads are rare': {
    deadline: 1_800_000,
    polling: { min: 20_000, max: 60_000, ratio: 0.1 },
    settle: 5_000,
    finalRead: 'flapping',
  },
  'an end that has stood needs no reason, however often the upstream changed before': {
    deadline: 1_800_000,
    settle: 5_000,
    reads: repeated<ReadAnswer>(
      24,
      { kind: 'completed', takesMs: 0, times: 1 },
      { kind: 'active', takesMs: 0, times: 1 },
    ),
  },
  'an end that need not stand needs no reason, though the upstream was believed another before': {
    isAttached: true,
    polling: { min: 20_000, max: 60_000, ratio: 0.1 },
    settle: 5_000,
    queue: [{ kind: 'joined', turns: [] }],
    isQueueThere: true,
    reads: repeated<ReadAnswer>(
      3,
      { kind: 'failed', takesMs: 0, times: 1 },
      { kind: 'active', takesMs: 0, times: 1 },
    ).slice(0, -1),
    finalRead: 'gone',
    actions: [{ kind: 'signal', id: 'a', at: 0 }],
  },
  'without `settle` the last read counts, also at the deadline': {
    deadline: 3_000,
    messages: repeated<WriteAnswer>(8, { kind: 'notDelivered', takesMs: 0 }),
    finalRead: 'flapping',
    actions: [{ kind: 'signal', id: 'a', at: 0 }],
  },
  'ends that the upstream takes back move no deadline': {
    settle: 120_000,
    messages: repeated<WriteAnswer>(12, { kind: 'notDelivered', takesMs: 0 }),
    reads: [{ kind: 'changed', takesMs: 0, times: 1 }],
    finalRead: 'flapping',
    actions: [{ kind: 'signal', id: 'a', at: 0 }],
  },
};

test.each(Object.keys(FOUND))('%s', async (title) => {
  await expect(runSimulated({ ...PLAIN, ...FOUND[title] }, agentJob)).resolves.toBeDefined();
});
