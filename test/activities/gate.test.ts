/** When a worker sends a write, holds it back or asks the queue: the real activities, a server and a test upstream. */
import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { expect, test } from 'vitest';
import { Budgets } from '../../src/activities/agent-job/budgets.js';
import type { BudgetSettings } from '../../src/activities/agent-job/budgets.js';
import { createJobActivities } from '../../src/activities/agent-job/job-activities.js';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import { noMetrics } from '../support/no-metrics.js';
import { DEFAULT_PRIORITY, type JoinRequest, type QueuePlace, type RequestReport } from '../../src/contract.js';
import { gate } from '../support/observed-upstream.js';
import { inDoubt, notDelivered, throttled, unauthorized } from '../support/outcomes.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';

const START = Date.UTC(2026, 0, 1);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const PLACE: QueuePlace = { for: 'turn', position: 7, expectedAt: '2026-01-01T00:30:00.000Z' };

/** A worker's activities, and what reaches the Temporal server of them, in order. */
class Bench {
  readonly upstream = new ScriptedUpstream();
  readonly calls: string[] = [];
  readonly joins: JoinRequest[] = [];
  readonly reports: RequestReport[] = [];
  /** The server's answers. */
  isRunning: () => Promise<boolean> = () => Promise.resolve(false);
  canJoin = true;
  place: () => Promise<QueuePlace | null> = () => Promise.resolve(PLACE);
  takesMarks = (_: { sent: boolean }): boolean | Promise<boolean> => true;
  now = START;
  /** The clock of the worker's machine was set back by this time. */
  behindMs = 0;
  readonly shutdown = new AbortController();
  /** What the attempt before the next write left. */
  before: { attempt: number; heartbeatDetails?: unknown } = { attempt: 1 };
  readonly #activities;
  #workflows = 0;

  constructor(budgets: BudgetSettings = {}) {
    this.#activities = createJobActivities({
      upstream: this.upstream,
      shutdownSignal: this.shutdown.signal,
      metrics: noMetrics,
      budgets: new Budgets(budgets),
      machine: { monotonic: () => this.now, wall: () => this.now - this.behindMs },
    });
  }

  /** @param scheduledAt When the server scheduled the attempt; a worker may take it hours later. */
  create(input: object = {}, scheduledAt = this.now, workflowId = `w${++this.#workflows}`): Promise<WriteOutcome> {
    const asked = {
      projectId: 'p',
      prompt: workflowId,
      priority: DEFAULT_PRIORITY,
      askedAt: this.now,
      turn: null,
      isOverdue: false,
      life: { runId: 'r', doubt: null },
      confirmed: null,
      ...input,
    };
    const environment = this.#environment(workflowId, scheduledAt);
    return environment.run(this.#activities.createJob, asked) as Promise<WriteOutcome>;
  }

  async awaitTry(workflowId: string): Promise<string> {
    const asked = { projectId: 'p', operation: 'create' } as const;
    const asking = this.#environment(workflowId, this.now).run(this.#activities.awaitTry, asked);
    return asking.then(
      () => 'may try',
      (failure: Error) => failure.message,
    );
  }

  #environment(workflowId: string, scheduledAt: number): MockActivityEnvironment {
    const info = {
      currentAttemptScheduledTimestampMs: scheduledAt,
      ...this.before,
      workflowExecution: { workflowId, runId: 'r' },
      taskQueue: 'q',
    };
    return new MockActivityEnvironment(info, { client: this.#client() });
  }

  #client(): Client {
    const { calls, joins, reports } = this;
    const now = <T>(_: unknown, work: () => T) => work();
    const heard = (call: string) => void calls.push(call);
    const handle = {
      query: () => this.place(),
      describe: async () => {
        heard('describe');
        if (await this.isRunning()) return { status: { name: 'RUNNING' } };
        throw new WorkflowNotFoundError('none', 'w', undefined);
      },
      signal: (_: unknown, report: RequestReport) => Promise.resolve(void (heard('report'), reports.push(report))),
    };
    const signalWithStart = (_: string, { signalArgs: [request] }: { signalArgs: [JoinRequest] }) => {
      heard('join');
      if (!this.canJoin) return Promise.reject(new Error('no'));
      return Promise.resolve(void joins.push(request));
    };
    const heartbeat = async (_: unknown, mark: { sent: boolean }) => {
      heard(mark.sent ? 'mark' : 'take the mark back');
      if (!(await this.takesMarks(mark))) throw new Error('no');
    };
    const workflow = { getHandle: () => handle, signalWithStart };
    return { withAbortSignal: now, withDeadline: now, activity: { heartbeat }, workflow } as unknown as Client;
  }
}

/** Held back: it was not even sent. */
const isHeld = (outcome: WriteOutcome) => outcome.kind === 'held';

const refusal = throttled('429');
const turn = (id: string, until: number) => ({ id, operation: 'create', until, requests: 1 });

test('a burst at the limit meets eight answers 429, and all wait in the queue', async () => {
  const bench = new Bench();
  bench.upstream.createFaults.push(...Array.from({ length: 20 }, () => refusal));
  const results = await Promise.all(Array.from({ length: 20 }, () => bench.create()));
  expect(bench.upstream.created).toHaveLength(8);
  for (const result of results) expect(result).toMatchObject({ queued: PLACE });
  expect(results.filter(isHeld)).toHaveLength(12);
  expect(bench.joins.filter(({ report }) => report?.outcome === 'throttled')).toHaveLength(8);
});

test('those that a 429 makes wait join after the queue knows of it, however long that takes', async () => {
  const bench = new Bench();
  const { opened, open } = gate();
  bench.takesMarks = ({ sent }) => sent || opened.then(() => true);
  bench.upstream.createFaults.push(refusal);
  const results = [bench.create()];
  await expect.poll(() => bench.calls).toContain('take the mark back');
  for (let i = 0; i < 3; i++) results.push(bench.create());
  open();
  await Promise.all(results);
  expect(bench.joins.map(({ report }) => report?.outcome)).toEqual(['throttled', undefined, undefined, undefined]);
});

test('writes of a quiet project cost their fences, and one question to the server each half minute', async () => {
  const bench = new Bench();
  const results = await Promise.all(Array.from({ length: 5 }, () => bench.create()));
  for (const result of results) expect(result.kind).toBe('accepted');
  expect(bench.upstream.created.toSorted()).toEqual(['w1', 'w2', 'w3', 'w4', 'w5']);
  expect(bench.calls).toEqual(['describe', ...Array.from({ length: 5 }, () => 'mark')]);
  for (const [ms, questions] of [
    [29_000, 1],
    [2_000, 2],
  ] as const) {
    bench.now += ms;
    await bench.create();
    expect(bench.calls.filter((call) => call === 'describe')).toHaveLength(questions);
  }
});

test('a queue that another worker began is noticed though the clocks were set back', async () => {
  const bench = new Bench();
  await bench.create();
  bench.now += 31_000;
  bench.behindMs = HOUR;
  bench.isRunning = () => Promise.resolve(true);
  expect(await bench.create({}, bench.now - HOUR)).toMatchObject({ kind: 'held', queued: PLACE });
});

test('a write whose queue runs is not sent, has no mark, and waits in the queue', async () => {
  const bench = new Bench();
  bench.isRunning = () => Promise.resolve(true);
  expect(await bench.create({ priority: 2 })).toMatchObject({ kind: 'held', queued: PLACE });
  expect(bench.upstream.created).toEqual([]);
  expect(bench.calls).toEqual(['describe', 'join']);
  expect(bench.joins).toEqual([
    { workflowId: 'w1', priority: 2, askedAt: START, requests: 1, report: null, perHour: null, perDay: null },
  ]);
});

test('a write that was refused takes its mark back before it joins the queue', async () => {
  const bench = new Bench();
  bench.upstream.createFaults.push(throttled('429', 9_000));
  expect(await bench.create()).toMatchObject({ kind: 'throttled', queued: PLACE });
  expect(bench.calls).toEqual(['describe', 'mark', 'take the mark back', 'join']);
  expect(bench.joins[0]?.report).toMatchObject({ turn: null, outcome: 'throttled', retryAfterMs: 9_000 });
});

test('a write whose mark can’t be taken back joins no queue: the next attempt would be in doubt', async () => {
  const bench = new Bench();
  bench.takesMarks = ({ sent }) => sent;
  bench.upstream.createFaults.push(refusal);
  expect(await bench.create()).toMatchObject({ kind: 'throttled', queued: null });
  expect(bench.joins).toEqual([]);
});

/** The answers of the upstream come once this is opened. */
function holdAnswers({ upstream }: Bench): () => void {
  const { opened, open } = gate();
  const { createJob } = upstream;
  upstream.createJob = async (...call) => {
    const outcome = await createJob.apply(upstream, call);
    return opened.then(() => outcome);
  };
  return open;
}

test('where the upstream is said to take any number, a hundred are sent at once, until a 429', async () => {
  const bench = new Bench({ createsPerHour: 'unlimited' });
  const open = holdAnswers(bench);
  const burst = Promise.all(Array.from({ length: 110 }, () => bench.create()));
  await expect.poll(() => bench.upstream.created).toHaveLength(100);
  open();
  expect(new Set((await burst).map(({ kind }) => kind))).toEqual(new Set(['accepted']));
  expect(bench.calls).not.toContain('join');
  bench.upstream.createFaults.push(refusal);
  expect(await bench.create()).toMatchObject({ kind: 'throttled', queued: PLACE });
  expect(await bench.create()).toMatchObject({ kind: 'held', queued: PLACE });
  expect(bench.joins).toMatchObject([{ perHour: 'unlimited' }, { perHour: 'unlimited' }]);
});

test('where a budget is set, every write waits for its turn, and the queue gets the budget', async () => {
  const bench = new Bench({ createsPerHour: 100 });
  expect(await bench.create()).toMatchObject({ kind: 'held', queued: PLACE });
  expect(bench.calls).toEqual(['join']);
  expect(bench.joins[0]).toMatchObject({ perHour: 100 });
});

test.each([
  ['accepted', null, 'accepted', []],
  ['not delivered', notDelivered('refused'), 'unsent', ['take the mark back']],
  ['in doubt', inDoubt('reset'), 'other', []],
])('a write with its turn is sent past all others, and is reported if it was %s', async (_, fault, outcome, before) => {
  const bench = new Bench({ createsPerHour: 1 });
  if (fault) bench.upstream.createFaults.push(fault);
  await bench.create({ turn: turn('t:1', START + MINUTE) });
  expect(bench.upstream.created).toEqual(['w1']);
  await expect.poll(() => bench.reports).toMatchObject([{ turn: 't:1', outcome }]);
  expect(bench.calls).toEqual(['mark', ...before, 'report']);
});

test('a turn that was refused is reported with the next place in the queue', async () => {
  const bench = new Bench();
  bench.upstream.createFaults.push(refusal);
  const result = await bench.create({ turn: turn('t:1', START + MINUTE) });
  expect(result).toMatchObject({ kind: 'throttled', queued: PLACE });
  expect(bench.joins[0]?.report).toMatchObject({ turn: 't:1', outcome: 'throttled' });
});

test('a turn of an attempt before is not used again, and counts as used', async () => {
  const bench = new Bench({ createsPerHour: 60 });
  bench.before = { attempt: 2, heartbeatDetails: { sent: false } };
  const result = await bench.create({ turn: turn('t:1', START + MINUTE) });
  expect([result.kind, bench.upstream.created.length]).toEqual(['held', 0]);
  expect(bench.joins[0]!.report).toMatchObject({ turn: 't:1', outcome: 'other' });
});

test('a worker whose clock is far ahead asks once more, and then uses the turn', async () => {
  const bench = new Bench({ createsPerHour: 60 });
  bench.behindMs = -2 * MINUTE;
  const create = () => bench.create({ turn: turn('t:1', START + MINUTE) });
  await expect(create()).rejects.toThrow('its turn may be over');
  bench.before = { attempt: 2 };
  expect((await create()).kind).toBe('accepted');
});

test('a turn that comes too late is not used: the write joins again, in its old place', async () => {
  const bench = new Bench({ createsPerHour: 1 });
  bench.now += HOUR;
  const result = await bench.create({ turn: turn('t:1', START), askedAt: START });
  expect(result).toMatchObject({ kind: 'held', queued: PLACE });
  expect(bench.joins).toMatchObject([{ askedAt: START, report: { turn: 't:1', outcome: 'unsent' } }]);
});

test('after a 429 writes wait for as long as the queue runs, and then they are sent again', async () => {
  const bench = new Bench();
  bench.upstream.createFaults.push(refusal);
  await bench.create();
  expect(await bench.create()).toMatchObject({ kind: 'held' });
  bench.now += 31_000;
  bench.isRunning = () => Promise.resolve(true);
  expect(await bench.create()).toMatchObject({ kind: 'held' });
  bench.now += 31_000;
  bench.isRunning = () => Promise.resolve(false);
  expect(await bench.create()).toMatchObject({ kind: 'accepted' });
});

test('where no queue can be joined, writes are sent all the same, and each asks anew whether one runs', async () => {
  const bench = new Bench();
  bench.canJoin = false;
  bench.upstream.createFaults.push(refusal);
  expect(await bench.create()).toMatchObject({ kind: 'throttled', queued: null });
  bench.isRunning = () => Promise.resolve(true);
  expect(await bench.create()).toMatchObject({ kind: 'accepted' });
  bench.canJoin = true;
  expect(await bench.create()).toMatchObject({ kind: 'held', queued: PLACE });
});

test('a budget that is set is kept, also where the queue does not answer, or cannot be joined', async () => {
  const bench = new Bench({ createsPerHour: 100 });
  bench.place = () => Promise.reject(new Error('no worker polls'));
  expect(await bench.create()).toMatchObject({ kind: 'held', queued: { for: 'turn' } });
  expect(await bench.create({ isOverdue: true })).toMatchObject({ kind: 'held' });
  bench.canJoin = false;
  expect(await bench.create({ isOverdue: true })).toMatchObject({ kind: 'held', queued: null });
  expect(bench.upstream.created).toEqual([]);
});

test('where no budget is set, a queue that does not answer holds no write that has waited too long', async () => {
  const bench = new Bench();
  bench.isRunning = () => Promise.resolve(true);
  bench.place = () => Promise.reject(new Error('no worker polls'));
  expect(await bench.create()).toMatchObject({ kind: 'held', queued: { for: 'turn' } });
  expect(await bench.create({ isOverdue: true })).toMatchObject({ kind: 'accepted' });
  bench.place = () => Promise.resolve(PLACE);
  expect(await bench.create({ isOverdue: true })).toMatchObject({ kind: 'held', queued: PLACE });
});

test('a write that waits behind others for 15 seconds is left to the server', async () => {
  const bench = new Bench();
  const open = holdAnswers(bench);
  const first = Array.from({ length: 8 }, () => bench.create());
  await expect(bench.create()).rejects.toMatchObject({ type: 'StillWaiting', nextRetryDelay: expect.anything() });
  open();
  for (const { kind } of await Promise.all(first)) expect(kind).toBe('accepted');
  expect(bench.upstream.created).toHaveLength(8);
  expect(bench.joins).toEqual([]);
});

test('a worker that shuts down leaves those that wait behind others to another one', async () => {
  const bench = new Bench();
  const open = holdAnswers(bench);
  const first = Array.from({ length: 8 }, () => bench.create());
  const ninth = bench.create().catch((error: unknown) => error);
  await new Promise((done) => setTimeout(done, 50));
  bench.shutdown.abort();
  expect(await ninth).toMatchObject({ type: 'StillWaiting' });
  open();
  for (const { kind } of await Promise.all(first)) expect(kind).toBe('accepted');
  expect(bench.joins).toEqual([]);
});

const wrongKey = unauthorized('upstream answered 401');

test('a burst with a wrong key meets eight refusals, and the others are held', async () => {
  const bench = new Bench();
  bench.upstream.createFaults.push(...Array.from({ length: 20 }, () => wrongKey));
  const results = await Promise.all(Array.from({ length: 20 }, () => bench.create()));
  expect(bench.upstream.created).toHaveLength(8);
  expect(results.filter((result) => 'isHeld' in result)).toHaveLength(12);
  for (const result of results) expect(result).toMatchObject(wrongKey);
});

test('a write that is held has no mark and asks no queue, and its turn goes to another', async () => {
  const bench = new Bench({ createsPerHour: 100 });
  bench.upstream.createFaults.push({ kind: 'blocked', reason: 'a page' });
  await bench.create({ turn: turn('t:1', START + MINUTE) });
  bench.calls.length = 0;
  const held = { kind: 'blocked', reason: 'a page', isHeld: true };
  expect(await bench.create({ turn: turn('t:2', START + MINUTE) })).toEqual(held);
  expect(await bench.create()).toEqual(held);
  expect(bench.calls).toEqual(['take the mark back', 'report']);
  expect(bench.reports.at(-1)).toMatchObject({ turn: 't:2', outcome: 'unsent' });
});

/** Ways for a write to end whose turn goes to another. */
const UNSENT = {
  'was not delivered': (bench: Bench) => (bench.upstream.createJob = () => Promise.resolve(notDelivered('refused'))),
  'was held': async (bench: Bench) => {
    bench.upstream.createFaults.push(wrongKey);
    await bench.create({ turn: turn('t:1', START + MINUTE) });
    await expect.poll(() => bench.reports).toHaveLength(1);
    bench.reports.length = 0;
  },
};

test.each(Object.entries(UNSENT))(
  'after a write %s, no later attempt uses the turn that it gave back',
  async (_, end) => {
    const [bench, other] = [new Bench({ createsPerHour: 100 }), new Bench({ createsPerHour: 100 })];
    await end(bench);
    let heartbeatDetails: unknown;
    bench.takesMarks = (mark) => ((heartbeatDetails = mark), true);
    await bench.create({ turn: turn('t:2', START + MINUTE) });
    await expect.poll(() => bench.reports).toMatchObject([{ turn: 't:2', outcome: 'unsent' }]);
    // The worker was killed before the server had the result.
    other.before = { attempt: 2, heartbeatDetails };
    expect((await other.create({ turn: turn('t:2', START + MINUTE) })).kind).toBe('held');
    expect(other.upstream.created).toEqual([]);
  },
);

test.each(Object.entries(UNSENT))(
  'after a write %s, a turn that another attempt may use is not given back',
  async (_, end) => {
    const bench = new Bench({ createsPerHour: 100 });
    await end(bench);
    bench.calls.length = 0;
    bench.takesMarks = () => false;
    await bench.create({ turn: turn('t:2', START + MINUTE) });
    expect(bench.calls).toEqual(['take the mark back']);
  },
);

test('a turn that came too late, and that another attempt may have used, is not given back', async () => {
  const bench = new Bench({ createsPerHour: 100 });
  bench.takesMarks = () => false;
  expect((await bench.create({ turn: turn('t:1', START - 1) })).kind).toBe('held');
  expect(bench.joins).toMatchObject([{ report: null }]);
});

test('a write that is let try waits for its turn first, and tries with it', async () => {
  const bench = new Bench({ createsPerHour: 100 });
  bench.upstream.createFaults.push(wrongKey);
  await bench.create({ turn: turn('t:1', START + MINUTE) });
  expect(await bench.awaitTry('b')).toBe('upstream answered 401, asks again in 5 s');
  bench.now += MINUTE;
  expect(await bench.awaitTry('b')).toBe('may try');
  expect(await bench.create({}, bench.now, 'b')).toMatchObject({ kind: 'held', queued: PLACE });
  bench.now += MINUTE / 2;
  const given = { turn: turn('t:2', bench.now + MINUTE) };
  expect(await bench.create(given, bench.now, 'c')).toMatchObject({ ...wrongKey, isHeld: true });
  expect(await bench.create(given, bench.now, 'b')).toMatchObject({ kind: 'accepted' });
  expect(await bench.awaitTry('c')).toBe('may try');
  expect(await bench.create(given, bench.now, 'c')).toMatchObject({ kind: 'accepted' });
});

test('a write that is let try may try in another attempt, if its mark was not taken', async () => {
  const bench = new Bench();
  bench.upstream.createFaults.push(wrongKey);
  await bench.create();
  bench.now += MINUTE;
  bench.takesMarks = () => false;
  await expect(bench.create({}, bench.now, 'b')).rejects.toMatchObject({ type: 'FenceRefused' });
  bench.takesMarks = () => true;
  expect(await bench.create({}, bench.now, 'c')).toMatchObject({ isHeld: true });
  expect(await bench.create({}, bench.now, 'b')).toMatchObject({ kind: 'accepted' });
});
