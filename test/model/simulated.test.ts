import './sdk-globals.js';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { agentJob } from '../../src/workflows/index.js';
import { modelRuns } from './model-runs.js';
import { runSimulated } from './simulated-runner.js';
import { scenarios } from './scenario.js';
import type { Action, Decision, QueueAnswer, ReadAnswer, Scenario, WriteAnswer } from './scenario.js';

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

const signal = (id: string, at = 0): Action => ({ kind: 'signal', id, at });
const update = (id: string, at = 0): Action => ({ kind: 'update', id, at });
const pollNow = (at: number): Action => ({ kind: 'pollNow', at });
const cancel = (at: number): Action => ({ kind: 'cancel', at });
const turn = (at: number): Action => ({ kind: 'turn', at, validMs: 60_000 });
const send = (kind: WriteAnswer['kind'], takesMs = 0): WriteAnswer => ({ kind, takesMs });
const poll = (kind: ReadAnswer['kind'], more: Partial<ReadAnswer> = {}): ReadAnswer => ({
  ...{ kind, takesMs: 0, times: 1 },
  ...more,
});
const decide = (action: Decision['action'], afterMs: number): Decision => ({ action, afterMs });
const JOINED: QueueAnswer = { kind: 'joined', turns: [] };

function repeated<T>(times: number, ...answers: T[]): T[] {
  return Array.from({ length: times }, () => answers).flat();
}

const FOUND: Record<string, Partial<Scenario>> = {
  'a create whose time to start is over as the run would continue as new tells that it timed out': {
    startWithin: 3_000,
    queue: [JOINED, JOINED],
    isQueueThere: true,
    actions: [signal('a'), signal('a'), pollNow(1_000)],
    tasksPerRun: 7,
  },
  'a 429 that could not be reported to the queue lets no write past it': {
    deadline: 3_000,
    creates: [send('throttled')],
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
    messages: [send('inDoubt', 1)],
    reads: [
      poll('active', { times: 2, takesMs: 500 }),
      poll('unauthorized', { times: 8 }),
      poll('wait', { times: 8, retryAfterMs: 7_000 }),
    ],
    actions: [signal('a'), signal('c')],
  },
  'a follow-up that waits behind an unknown create stays queued': {
    creates: [send('inDoubt')],
    actions: [update('a')],
    decisions: [decide('retry', 500)],
  },
  'a Retry-After that comes together with continue-as-new is obeyed': {
    deadline: 0,
    messages: [send('inDoubt', 500)],
    reads: [poll('failed', { takesMs: 500 }), poll('wait', { retryAfterMs: 7_200_000 })],
    actions: [signal('a')],
    tasksPerRun: 4,
  },
  'a 404 that was read before a follow-up was accepted is none of the five': {
    deadline: 1_800_000,
    messages: [send('accepted', 500)],
    reads: [poll('notFound', { times: 20, takesMs: 500 })],
    finalRead: 'notFound',
    actions: [pollNow(10_000), signal('a', 10_000)],
    isBatching: true,
  },
  'a retry that a person said at the deadline is carried out, whatever the reads wait for': {
    isAttached: true,
    messages: [send('inDoubt')],
    reads: [poll('wait', { retryAfterMs: 90_000 })],
    actions: [signal('a')],
    deadline: 0,
    decisions: [decide('retry', 500)],
  },
  'an update that comes together with a decision may be answered as before it': {
    isAttached: true,
    isRepeated: true,
    finalRead: 'broken',
    actions: [signal('a', 2_500), update('a', 12_500)],
    decisions: [decide('adopt', 10_000)],
    isBatching: true,
  },
  'a read that continue-as-new cuts off changes nothing': {
    deadline: 0,
    messages: [send('accepted', 500), send('accepted'), send('rejected')],
    reads: [poll('completed', { times: 2 }), poll('active')],
    actions: [signal('a'), signal('d'), signal('b', 501)],
    tasksPerRun: 4,
  },
  'a turn is good for one send': {
    creates: [send('throttled'), send('throttled')],
    isQueueThere: true,
  },
  'one that gets nothing from its queue asks again': {
    queue: [JOINED],
    isQueueThere: true,
  },
  'a turn that ends in doubt begins the waits anew': {
    deadline: 3_000,
    onUnknownOutcome: 'retry',
    creates: [send('inDoubt', 1)],
    queue: [{ kind: 'joined', expectedInMs: 10_800_000, turns: [{ afterMs: 7_200_000, validMs: 60_000 }] }, JOINED],
    isQueueThere: true,
  },
  'a read that is due at the very moment at which a follow-up is given up is no second one': {
    deadline: 1_800_000,
    decideWithin: 3_600_000,
    settle: 120_000,
    isRepeated: true,
    reads: [poll('active')],
    finalRead: 'broken',
    actions: [signal('a'), signal('b')],
    decisions: [decide('adopt', 0)],
  },
  'a follow-up that may have arrived waits for its turn also where the deadline passed before that': {
    deadline: 500,
    onUnknownOutcome: 'retry',
    messages: [send('inDoubt')],
    isQueueThere: true,
    actions: [signal('a'), update('b')],
  },
  'a retry that a person said waits for its turn also where the deadline has passed': {
    deadline: 0,
    messages: [send('inDoubt'), send('throttled', 500)],
    actions: [signal('a')],
    decisions: [decide('retry', 1_000)],
  },
  'a follow-up that may have arrived waits for its turn also where the deadline passed while it was sent': {
    deadline: 500,
    onUnknownOutcome: 'retry',
    decideWithin: 3_600_000,
    messages: [send('throttled', 500), send('workerDies', 1)],
    actions: [signal('a')],
  },
  'a follow-up that may have arrived waits for its turn also where the job is gone': {
    deadline: 0,
    onUnknownOutcome: 'retry',
    messages: [send('workerDies'), send('workerDies', 500), send('throttled', 1)],
    reads: [poll('active', { takesMs: 500 })],
    finalRead: 'notFound',
    actions: [signal('a', 500)],
  },
  'a create that may have arrived waits for its turn also where the deadline passed before that': {
    deadline: 0,
    onUnknownOutcome: 'retry',
    creates: [send('inDoubt'), send('throttled')],
  },
  'a follow-up that is given up at the moment of the deadline does not end with the run': {
    deadline: 500,
    onUnknownOutcome: 'retry',
    decideWithin: 0,
    messages: [send('inDoubt')],
    isQueueThere: true,
    actions: [signal('a')],
  },
  'an update that comes while a cancelled job leaves its queue is refused, as after the end': {
    queue: [JOINED],
    isQueueThere: true,
    actions: [cancel(20_000), update('a', 20_000)],
  },
  'a decision that comes while a cancelled job leaves its queue is refused, as after the end': {
    onUnknownOutcome: 'retry',
    creates: [send('inDoubt')],
    isQueueThere: true,
    actions: [cancel(2_500)],
    decisions: [decide('abandon', 0)],
    isBatching: true,
  },
  'a decision may call for a read at the moment at which continue-as-new brings one': {
    isAttached: true,
    deadline: 500,
    settle: 120_000,
    isRepeated: true,
    finalRead: 'notFound',
    actions: [signal('a', 500), pollNow(1_000)],
    decisions: [decide('adopt', 500)],
    tasksPerRun: 7,
  },
  'two turns that no workflow asked for may come at one moment': {
    deadline: 1_800_000,
    messages: [send('throttled', 500)],
    queue: [JOINED, JOINED],
    isQueueThere: true,
    actions: [signal('d', 13_000), turn(30_000), turn(180_000), turn(180_000)],
  },
  'any other answer starts the count of 404 anew': {
    deadline: 1_800_000,
    polling: { min: 30_000, max: 30_000, ratio: 0 },
    reads: [poll('notFound', { times: 4 }), poll('broken'), poll('notFound', { times: 4 })],
  },
  'an answer that may be lost may also start the count of 404 anew': {
    deadline: 1_800_000,
    polling: { min: 5_000, max: 20_000, ratio: 1 },
    messages: [send('rejected', 2_000)],
    reads: [poll('active', { times: 2 }), poll('notFound'), poll('active', { takesMs: 500 })],
    finalRead: 'notFound',
    actions: [signal('a', 14_500), pollNow(16_500)],
  },
  'pollNow brings one read more at the deadline': {
    deadline: 500,
    reads: [poll('active', { times: 3, takesMs: 14_750 }), poll('active', { takesMs: 16_001 })],
    actions: [signal('a', 500), pollNow(30_000)],
  },
  'an adoption that was asked for in time counts while the run waits with continue-as-new for it': {
    deadline: 1_800_000,
    decideWithin: 30_000,
    creates: [send('notDelivered', 500), send('workerDies')],
    reads: [poll('wait', { takesMs: 500, retryAfterMs: 0 }), poll('active', { takesMs: 9_501 })],
    decisions: [decide('adopt', 10_000), decide('adopt', 10_000)],
    tasksPerRun: 7,
  },
  'a Retry-After of an upstream that flaps is known to its batch alone': {
    deadline: 1_800_000,
    reads: [
      poll('unauthorized', { times: 3 }),
      poll('active', { takesMs: 1 }),
      poll('broken', { times: 3 }),
      poll('active'),
      poll('broken', { times: 3 }),
      poll('active', { takesMs: 500 }),
      poll('wait', { takesMs: 500, retryAfterMs: 90_000 }),
    ],
    actions: [signal('a', 500)],
  },
  'a 404 that continue-as-new cuts off is none of the five': {
    deadline: 1_800_000,
    messages: [send('unauthorized', 500), send('inDoubt', 2_000)],
    reads: [
      poll('completed'),
      poll('notFound', { times: 8, takesMs: 500 }),
      poll('active'),
      poll('notFound', { times: 8, takesMs: 4_963 }),
      poll('notFound', { takesMs: 8_432 }),
    ],
    actions: [signal('a'), signal('b'), turn(5_000)],
    decisions: [decide('adopt', 10_000)],
    tasksPerRun: 12,
    randomSeed: 282_441_740,
  },
  'the read after settle may follow at once on one that was under way then': {
    deadline: 1_800_000,
    settle: 5_000,
    messages: [send('accepted', 500)],
    reads: [poll('notFound', { times: 3, takesMs: 1_000 }), poll('failed', { takesMs: 500 })],
    actions: [signal('a', 2_500)],
  },
  'a deadline that passes as the run would continue as new ends it as timed out, whatever the job had come to': {
    deadline: 3_000,
    messages: [send('unauthorized', 500)],
    actions: [update('a')],
    tasksPerRun: 7,
  },
  'a follow-up that comes together with the end of the job has the deadline that was': {
    deadline: 500,
    messages: [send('throttled', 500)],
    reads: [poll('failed', { takesMs: 1_000 })],
    actions: [signal('a', 1_000)],
  },
  'a follow-up that is given up in the moment of its last send lets the deadline end the run': {
    deadline: 0,
    onUnknownOutcome: 'retry',
    decideWithin: 0,
    messages: [send('inDoubt'), send('throttled')],
    reads: [poll('completed'), poll('wait', { retryAfterMs: 0 })],
    actions: [signal('a', 500)],
  },
  'a follow-up that a person said to send is sent after continue-as-new without a second question': {
    isAttached: true,
    isRepeated: true,
    deadline: 600_000,
    decideWithin: 30_000,
    reads: [poll('active')],
    actions: [signal('a')],
    decisions: [decide('retry', 500)],
    tasksPerRun: 4,
  },
  'a create that a person said to send is sent after continue-as-new without a second question': {
    isRepeated: true,
    decideWithin: 3_600_000,
    creates: [send('throttled')],
    queue: [{ kind: 'joined', turns: [{ afterMs: 100_000, validMs: 60_000 }] }],
    decisions: [decide('retry', 500)],
    tasksPerRun: 4,
  },
  'a second write that becomes unknown at the moment of a decision is decided as well': {
    isAttached: true,
    isRepeated: true,
    messages: [send('accepted')],
    finalRead: 'active',
    actions: [signal('a'), signal('b')],
    decisions: [decide('delivered', 500), decide('retry', 0)],
  },
  'a link in a list is seen, also where the last one stays the same': {
    reads: [poll('active', { link: 'B' }), poll('active', { link: 'list' }), poll('active', { link: 'none' })],
  },
  'no poll shows work on a follow-up to a job that was just created, whatever the create’s response showed': {
    creates: [send('acceptedUnreadable')],
    reads: [poll('active', { times: 2 })],
    actions: [signal('a')],
  },
  'a Retry-After that comes with a page in place of an answer is obeyed': {
    isAttached: true,
    reads: [poll('page404', { retryAfterMs: 90_000 })],
    actions: [pollNow(10_000)],
    deadline: 1_800_000,
  },
  'a follow-up brings no poll against a Retry-After, however often reads have failed before': {
    isAttached: true,
    deadline: 1_800_000,
    reads: [...repeated(4, poll('broken', { times: 2 }), poll('active')), poll('wait', { retryAfterMs: 90_000 })],
    finalRead: 'active',
    actions: [signal('a', 40_000)],
  },
  'pollNow brings no poll against a Retry-After that is given again soon': {
    isAttached: true,
    deadline: 1_800_000,
    reads: repeated(8, poll('wait', { retryAfterMs: 90_000 }), poll('active')),
    finalRead: 'active',
    actions: [pollNow(120_000), pollNow(605_000)],
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
    reads: repeated(24, poll('completed'), poll('active')),
  },
  'an end that need not stand needs no reason, though the upstream was believed another before': {
    isAttached: true,
    polling: { min: 20_000, max: 60_000, ratio: 0.1 },
    settle: 5_000,
    queue: [JOINED],
    isQueueThere: true,
    reads: repeated(3, poll('failed'), poll('active')).slice(0, -1),
    finalRead: 'gone',
    actions: [signal('a')],
  },
  'without `settle` the last read counts, also at the deadline': {
    deadline: 3_000,
    messages: repeated(8, send('notDelivered')),
    finalRead: 'flapping',
    actions: [signal('a')],
  },
  'ends that the upstream takes back move no deadline': {
    settle: 120_000,
    messages: repeated(12, send('notDelivered')),
    reads: [poll('changed')],
    finalRead: 'flapping',
    actions: [signal('a')],
  },
};

test.each(Object.keys(FOUND))('%s', async (title) => {
  await expect(runSimulated({ ...PLAIN, ...FOUND[title] }, agentJob)).resolves.toBeDefined();
});
