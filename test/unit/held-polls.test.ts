/** What the clock, the operator, another release and a stranger do to polls that a worker holds. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { MockActivityEnvironment } from '@temporalio/testing';
import type { Client } from '@temporalio/client';
import { describe, expect, test, vi } from 'vitest';
import { createPollJob, HeldPolls, type PollJobOptions } from '../../src/activities/agent-job/held-polls.js';
import { PollProgress, type PollJobInput } from '../../src/activities/agent-job/poll-attempt.js';
import { PollLease, type PollLeaseOptions } from '../../src/activities/agent-job/poll-lease.js';
import { ReadFailedError } from '../../src/upstream/errors.js';
import { pollInput, runAttempt, type HeldAttempt, type HeldAttemptOptions } from '../support/held-attempt.js';
import { aheadClock } from '../support/monotonic-clock.js';
import { record, ScriptedUpstream, shown } from '../support/scripted-upstream.js';
import { noMetrics } from '../support/no-metrics.js';

const EVERY_600_MS = { minMs: 600, maxMs: 600, ratio: 0 };
const EVERY_9_S = { minMs: 9_000, maxMs: 9_000, ratio: 0 };
const EVERY_MINUTE = { minMs: 60_000, maxMs: 60_000, ratio: 0 };

/** A worker that holds polls. Each job is polled every 20 ms unless a test says otherwise. */
function holding(options: Partial<PollJobOptions> = {}) {
  const upstream = new ScriptedUpstream();
  upstream.show = () => ({ status: 'active' });
  const shutdown = new AbortController();
  const late: number[] = [];
  const heldPolls = new HeldPolls(shutdown.signal, { pollBegins: (seconds) => late.push(seconds) });
  const dependencies = { upstream, metrics: noMetrics, shutdownSignal: shutdown.signal, heldPolls };
  const pollJob = createPollJob({ ...dependencies, ...options });
  const attempt = (input: Partial<PollJobInput> = {}, of: HeldAttemptOptions = {}) =>
    runAttempt(pollJob, pollInput(input), of);
  return { upstream, shutdown, heldPolls, late, pollJob, attempt };
}

test('only the polls of workflows that were named are handed back', async () => {
  const { upstream, shutdown, heldPolls, attempt } = holding();
  const of = (workflowId: string) => ({ info: { workflowExecution: { workflowId, runId: 'run' } } });
  const left = attempt({ plan: EVERY_9_S }, of('left'));
  const stays = attempt({ plan: EVERY_9_S }, of('stays'));
  await expect.poll(() => heldPolls.size).toBe(2);
  heldPolls.handBack(new Set(['left', 'unknown']), 'another version is current');
  expect((await left).error).toMatchObject({ type: 'StillPolling', message: expect.stringMatching(/another version/) });
  expect(heldPolls.size).toBe(1);
  const reads = upstream.reads;
  shutdown.abort();
  expect((await stays).error).toMatchObject({ message: expect.stringMatching(/shutting down/) });
  expect(upstream.reads).toBe(reads);
});

test('a result that cannot be reported does not end the worker: another attempt reads', async () => {
  const endSeen = () => {
    throw new Error('no metrics');
  };
  const { upstream, heldPolls, attempt } = holding({ metrics: { ...noMetrics, endSeen } });
  upstream.show = (read) => ({ status: read > 1 ? 'completed' : 'active' });
  expect((await attempt()).error).toMatchObject({ type: 'StillPolling' });
  await heldPolls.ended();
  expect(heldPolls.size).toBe(0);
});

test('an operator who resets the attempts makes no number negative', () => {
  const input = { failures: 0, notFound: null };
  const progress = new PollProgress(input, { attempt: 1, heartbeatDetails: { unread: 40, further: 3 } });
  progress.add({ kind: 'record', ...shown() });
  expect(progress.polls).toBe(4);
});

test('what a lease reports to people is no change to the next attempt', () => {
  const input = { failures: 0, notFound: null };
  const heartbeatDetails = {
    status: 'active',
    polls: 7,
    ...new PollProgress(input, { attempt: 1, heartbeatDetails: null }).saved,
  };
  expect(new PollProgress(input, { attempt: 2, heartbeatDetails }).hasChanged).toBe(false);
});

test('a hand-back that did not reach the server is repeated with the wait that is left then', async () => {
  const { shutdown, heldPolls, attempt } = holding();
  const attempted = attempt({ plan: EVERY_9_S }, { answers: [new Error('unavailable')] });
  await expect.poll(() => heldPolls.size).toBe(1);
  shutdown.abort();
  const { error } = await attempted;
  expect(error?.nextRetryDelay).toBeLessThanOrEqual(9_900 - 2_000);
});

test('a lease that follows failed reads reports at once that they are over', async () => {
  const { heldPolls, shutdown, attempt } = holding();
  const told: unknown[] = [];
  const heartbeatDetails = { failures: 7, notFound: 0, further: 0, unread: 0 };
  const info = { attempt: 8, heartbeatDetails };
  const attempted = attempt({ plan: EVERY_9_S }, { info, onHeartbeat: (details) => told.push(details) });
  await expect.poll(() => heldPolls.size).toBe(1);
  await expect.poll(() => told).toMatchObject([{ failures: 0 }]);
  shutdown.abort();
  await attempted;
});

test.each([
  ['after failed reads before the batch', { plan: EVERY_9_S, failures: 5 }, { attempt: 10 }],
  ['that another release chose', { plan: EVERY_MINUTE }, { attempt: 10, heartbeatTimeoutMs: 120_000 }],
])('a lease %s is not ended for a longer one, which might never come', async (_, input, info) => {
  const { heldPolls, shutdown, attempt } = holding();
  const attempted = attempt(input, { info });
  await expect.poll(() => heldPolls.size).toBe(1);
  shutdown.abort();
  await attempted;
});

test('a deadline that has passed by the clock alone is left to another attempt, which knows the time', async () => {
  const { upstream, attempt } = holding();
  const info = { currentAttemptScheduledTimestampMs: Date.now() - 3_600_000 };
  const { error } = await attempt({ plan: EVERY_9_S, deadlineAt: Date.now() - 1_000 }, { info });
  expect(error).toMatchObject({
    type: 'StillPolling',
    message: expect.stringMatching(/^nothing is wrong: the job is active, next poll/),
  });
  expect(upstream.reads).toBe(1);
});

test('how late an end was seen is measured, not planned, where reads had to wait for each other', async () => {
  const late: number[] = [];
  const { upstream, heldPolls, attempt } = holding({
    metrics: { ...noMetrics, endSeen: (seconds) => late.push(seconds) },
  });
  upstream.show = (read) => ({ status: read > 1 ? 'completed' : 'active' });
  vi.spyOn(heldPolls.pacing, 'reserve')
    .mockReturnValueOnce({ ms: 0, why: '', isShort: true })
    .mockReturnValueOnce({ ms: 3_000, why: 'many polls are due at once', isShort: false });
  expect((await attempt()).result).toMatchObject({ reads: 2 });
  expect(late[0]).toBeGreaterThan(2.9);
});

test('a held poll keeps no record in memory: it may have 64 KiB, and a worker holds thousands', async () => {
  const { upstream, heldPolls } = holding();
  const pollJob = createPollJob({
    upstream,
    metrics: noMetrics,
    shutdownSignal: new AbortController().signal,
    heldPolls,
  });
  const client = { withAbortSignal: (_: AbortSignal, work: () => Promise<unknown>) => work() } as unknown as Client;
  const begin = async () => {
    const known = record();
    const environment = new MockActivityEnvironment({ heartbeatTimeoutMs: 50_000 }, { client });
    await environment.run(pollJob, { ...pollInput({ plan: EVERY_9_S }), known }).catch(() => {});
    return new WeakRef(known);
  };
  const known = await begin();
  expect(heldPolls.size).toBe(1);
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  await expect.poll(() => (collect(), known.deref() === undefined)).toBe(true);
  expect(heldPolls.size).toBe(1);
});

test('a held read reports how late it began', async () => {
  const { upstream, late, attempt } = holding();
  upstream.show = (read) => ({ status: read > 2 ? 'completed' : 'active' });
  await attempt();
  // The first poll is not held: it was not late.
  expect(late).toHaveLength(2);
  for (const seconds of late) expect(seconds).toBeGreaterThan(-0.1);
});

describe('one attempt', () => {
  test('reads until something has changed, and counts its reads', async () => {
    const { upstream, attempt, heldPolls } = holding();
    upstream.show = (read) => ({ status: read < 4 ? 'active' : 'completed' });
    const { result, kept } = await attempt();
    expect(result).toMatchObject({ reading: { kind: 'record', job: { status: 'completed' } }, reads: 4 });
    expect(kept).toBeNull();
    expect(heldPolls.size).toBe(0);
  });

  test('goes back to the server with a failed read, which it shows, and with what it has counted', async () => {
    const { upstream, attempt } = holding();
    upstream.show = (read) => {
      if (read === 3) throw new ReadFailedError('the upstream answered 503', 503);
      return { status: 'active' };
    };
    const { error, kept } = await attempt();
    expect(error).toMatchObject({ type: 'StillPolling', message: expect.stringMatching(/answered 503, next poll in/) });
    expect(upstream.reads).toBe(3);
    expect(kept).toMatchObject({ failures: 1 });
    upstream.show = () => ({ status: 'completed' });
    const second = await attempt({}, { info: { attempt: 2, heartbeatDetails: kept } });
    expect(second.result).toMatchObject({ reads: 4, failures: 0 });
  });

  test('goes back to the server at once where its worker shuts down, which keeps the rest of the wait', async () => {
    const { upstream, shutdown, attempt, heldPolls } = holding();
    const attempted = attempt({ plan: EVERY_9_S });
    await expect.poll(() => heldPolls.size).toBe(1);
    shutdown.abort();
    const { error } = await attempted;
    expect(error).toMatchObject({ type: 'StillPolling', message: expect.stringMatching(/shutting down/) });
    expect(error?.nextRetryDelay).toBeGreaterThan(5_000);
    expect(error?.nextRetryDelay).toBeLessThanOrEqual(9_900);
    await heldPolls.ended();
    expect(upstream.reads).toBe(1);
  });

  test('ends for a later one of the same job, and for none of another job', async () => {
    const { upstream, attempt, heldPolls } = holding();
    const earlier = attempt({ plan: EVERY_9_S });
    const deadlineAt = Date.now() + 6_000;
    const other = attempt({ plan: EVERY_9_S, jobId: 'job-2', known: record({ id: 'job-2' }), deadlineAt });
    await expect.poll(() => heldPolls.size).toBe(2);
    const later = attempt({ plan: EVERY_9_S, deadlineAt });
    expect((await earlier).error).toMatchObject({
      type: 'StillPolling',
      message: expect.stringMatching(/another poll of this job has begun/),
    });
    expect((await later).result?.reads).toBe(2);
    expect((await other).result?.reads).toBe(2);
    expect(upstream.reads).toBe(5);
  });

  test('whose waits have become long ends for a longer lease, but not before the tenth read of the batch', async () => {
    const { attempt } = holding();
    const { result } = await attempt({ plan: EVERY_MINUTE }, { info: { attempt: 10 } });
    expect(result).toMatchObject({ reading: { kind: 'unchanged' }, reads: 10 });
    const { attempt: early, heldPolls } = holding();
    expect((await early({ plan: EVERY_MINUTE }, { info: { attempt: 9 } })).error).toMatchObject({
      type: 'StillPolling',
    });
    expect(heldPolls.size).toBe(0);
    const { attempt: long, heldPolls: other } = holding();
    void long({ plan: EVERY_MINUTE }, { info: { attempt: 10, heartbeatTimeoutMs: 290_000 } });
    await expect.poll(() => other.size).toBe(1);
  });

  test('is each read where requests are limited', async () => {
    const { upstream, attempt } = holding({ heldPolls: null });
    expect((await attempt()).error).toMatchObject({ type: 'StillPolling' });
    expect(upstream.reads).toBe(1);
  });
});

describe('a lease', () => {
  /** Renewed after a second. */
  const SHORT = { heartbeatTimeoutMs: 16_000 };

  test('is renewed by a heartbeat, which shows people and the next attempt how far it is', async () => {
    const { attempt, shutdown } = holding();
    const heartbeats: unknown[] = [];
    const attempted = attempt(
      { plan: EVERY_600_MS },
      { info: SHORT, onHeartbeat: (details) => heartbeats.push(details) },
    );
    await expect.poll(() => heartbeats.length).toBe(2);
    expect(heartbeats[1]).toMatchObject({ status: 'active', polls: expect.any(Number), failures: 0 });
    shutdown.abort();
    expect((await attempted).kept).toMatchObject({ further: expect.any(Number) });
  });

  test.each([
    ['ActivityNotFoundError', 'the server knows it no more', 'nothing'],
    ['ActivityCancelledError', 'the workflow no longer wants it', 'a cancellation'],
  ])('is over at a %s, for %s: the server gets %s', async (name, _, told) => {
    const { attempt, heldPolls, upstream } = holding();
    const attempted = attempt({ plan: EVERY_600_MS }, { info: SHORT, answers: [Object.assign(new Error(), { name })] });
    await expect.poll(() => heldPolls.size).toBe(1);
    await expect.poll(() => heldPolls.size).toBe(0);
    const { reads } = upstream;
    const nothing = new Promise((resolve) => setTimeout(() => resolve({ wasCancelled: false }), 1_500));
    expect(await Promise.race([attempted, nothing])).toMatchObject({ wasCancelled: told === 'a cancellation' });
    expect(upstream.reads).toBe(reads);
  });

  test('goes on where the server did not answer, until it did', async () => {
    const { attempt, shutdown } = holding();
    const heartbeats: unknown[] = [];
    const attempted = attempt(
      { plan: EVERY_600_MS },
      { info: SHORT, answers: [new Error('unavailable')], onHeartbeat: (details) => heartbeats.push(details) },
    );
    await expect.poll(() => heartbeats.length).toBe(2);
    shutdown.abort();
    expect((await attempted).error).toMatchObject({ type: 'StillPolling' });
  });

  test('is not taken where it would have to be renewed within a wait: the server keeps that', async () => {
    const { attempt, heldPolls, upstream } = holding();
    const { error, kept } = await attempt({ plan: { minMs: 45_000, maxMs: 45_000, ratio: 0 } });
    expect(error).toMatchObject({ type: 'StillPolling' });
    expect(error?.nextRetryDelay).toBeGreaterThanOrEqual(40_500);
    expect({ kept, size: heldPolls.size, reads: upstream.reads }).toEqual({ kept: null, size: 0, reads: 1 });
  });

  test('is not taken where an operator took the heartbeat timeout away: the server keeps each wait', async () => {
    const { attempt, upstream } = holding();
    const { error } = await attempt({ maxReads: 1_000 }, { info: { heartbeatTimeoutMs: 0 } });
    expect(error).toMatchObject({
      type: 'StillPolling',
      message: expect.stringMatching(/^nothing is wrong: the job is active, next poll/),
    });
    expect(upstream.reads).toBe(1);
  });
});

describe('a heartbeat without an answer, which the server may have taken or not', () => {
  /** Renewed after 35 s. */
  const LEASE_MS = 50_000;
  const NO_ANSWER = new Error('deadline exceeded');

  async function held(options: HeldAttemptOptions) {
    const { upstream, heldPolls, attempt } = holding();
    let ended: HeldAttempt | null = null;
    const plan = { minMs: 30_000, maxMs: 30_000, ratio: 0 };
    void attempt({ plan }, { ...options, info: { heartbeatTimeoutMs: LEASE_MS } }).then((end) => (ended = end));
    await expect.poll(() => heldPolls.size).toBe(1);
    return { upstream, heldPolls, ended: () => ended };
  }

  test('one that ran out while the server was slow is handed back until the server has answered', async () => {
    const { skip } = aheadClock();
    const lost = [NO_ANSWER, NO_ANSWER];
    const { upstream, heldPolls, ended } = await held({ answers: lost, onHeartbeat: () => skip(LEASE_MS) });
    skip(36_000);
    await expect.poll(() => heldPolls.size).toBe(0);
    const { reads } = upstream;
    await expect.poll(ended).toMatchObject({
      error: { type: 'StillPolling', message: expect.stringContaining('Temporal did not answer') },
    });
    expect(lost).toEqual([]);
    expect(upstream.reads).toBe(reads);
  });

  test('one that ran out long after its last heartbeat is dropped: another worker polls the job', async () => {
    const { skip } = aheadClock();
    const { heldPolls, upstream, ended } = await held({ answers: [NO_ANSWER], onHeartbeat: () => skip(2 * LEASE_MS) });
    skip(36_000);
    await expect.poll(() => heldPolls.size).toBe(0);
    const { reads } = upstream;
    await heldPolls.ended();
    expect({ ended: ended(), reads: upstream.reads }).toEqual({ ended: null, reads });
  });

  test('of thousands that ran out no more than a hundred are handed back at once', async () => {
    const { skip } = aheadClock();
    const heldPolls = new HeldPolls(new AbortController().signal, noMetrics);
    let [heartbeats, calls, told, mostAtOnce] = [0, 0, 0, 0];
    const answered = { isOver: false };
    const attempt = {
      heartbeat: () => Promise.resolve((heartbeats++, 'unknown')),
      fail: async () => {
        mostAtOnce = Math.max(mostAtOnce, ++calls);
        await expect.poll(() => answered.isOver).toBe(true);
        calls -= 1;
        told += 1;
        return 'accepted';
      },
    };
    const poll = () => Promise.resolve({ kind: 'wait', ms: 30_000, why: '', isHealthy: true });
    const run = { elapsedMs: 0, progress: { polls: 1, hasChanged: false, saved: {} }, shown: '', poll };
    for (let i = 0; i < 2_000; i++) {
      const options = { name: `${i}`, workflowId: `${i}`, run, attempt, leaseMs: LEASE_MS };
      heldPolls.take(() => new PollLease(options as unknown as PollLeaseOptions), 30_000);
    }
    skip(36_000);
    await expect.poll(() => heartbeats).toBe(2_000);
    skip(20_000);
    await expect.poll(() => calls).toBe(100);
    answered.isOver = true;
    await expect.poll(() => told).toBe(2_000);
    expect({ mostAtOnce, size: heldPolls.size }).toEqual({ mostAtOnce: 100, size: 0 });
  });
});
