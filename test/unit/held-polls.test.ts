/** What the clock, the operator, another release and a stranger do to polls that a worker holds. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { MockActivityEnvironment } from '@temporalio/testing';
import type { Client } from '@temporalio/client';
import { expect, test, vi } from 'vitest';
import { createPollJob, type PollJobOptions } from '../../src/activities/agent-job/held-polls.js';
import { PollProgress } from '../../src/activities/agent-job/poll-attempt.js';
import { HeldPolls } from '../../src/activities/agent-job/held-polls.js';
import type { PollJobInput } from '../../src/activities/agent-job/poll-attempt.js';
import { pollInput, runAttempt, type HeldAttemptOptions } from '../support/held-attempt.js';
import { record, ScriptedUpstream } from '../support/scripted-upstream.js';
import { noMetrics } from '../support/no-metrics.js';

const EVERY_9_S = { minMs: 9_000, maxMs: 9_000, ratio: 0 };
const EVERY_MINUTE = { minMs: 60_000, maxMs: 60_000, ratio: 0 };
const EVERY_20_MS = { minMs: 20, maxMs: 20, ratio: 0 };

const INPUT = pollInput({ plan: EVERY_9_S });

function holding(options: Partial<PollJobOptions> = {}) {
  const upstream = new ScriptedUpstream();
  upstream.show = () => ({ status: 'active' });
  const shutdown = new AbortController();
  const heldPolls = new HeldPolls(shutdown.signal, noMetrics);
  const pollJob = createPollJob({
    upstream,
    metrics: noMetrics,
    shutdownSignal: shutdown.signal,
    heldPolls,
    ...options,
  });
  const attempt = (input: Partial<PollJobInput> = {}, of: HeldAttemptOptions = {}) =>
    runAttempt(pollJob, { ...INPUT, ...input }, of);
  return { upstream, shutdown, heldPolls, attempt };
}

test('a poll whose first read outlasts the begin of a later poll is not held in its place', async () => {
  const { upstream, shutdown, heldPolls, attempt } = holding();
  let answer = () => {};
  const slow = new Promise<void>((resolve) => (answer = resolve));
  const getJob = upstream.getJob.bind(upstream);
  upstream.getJob = async (input) => {
    const isFirst = upstream.reads === 0;
    const job = await getJob(input);
    if (isFirst) await slow;
    return job;
  };
  const earlier = attempt();
  await expect.poll(() => upstream.reads).toBe(1);
  const later = attempt();
  await expect.poll(() => heldPolls.size).toBe(1);
  answer();
  expect((await earlier).error).toMatchObject({ type: 'StillPolling' });
  expect(heldPolls.size).toBe(1);
  shutdown.abort();
  expect((await later).error).toMatchObject({ message: expect.stringMatching(/shutting down/) });
});

test('only the polls of workflows that were named are handed back', async () => {
  const { upstream, shutdown, heldPolls, attempt } = holding();
  const of = (workflowId: string) => ({ info: { workflowExecution: { workflowId, runId: 'run' } } });
  const left = attempt({}, of('left'));
  const stays = attempt({}, of('stays'));
  await expect.poll(() => heldPolls.size).toBe(2);
  heldPolls.handBack(new Set(['left', 'unknown']), 'another version is current');
  expect((await left).error).toMatchObject({ type: 'StillPolling', message: expect.stringMatching(/another version/) });
  expect(heldPolls.size).toBe(1);
  const reads = upstream.reads;
  shutdown.abort();
  expect((await stays).error).toMatchObject({ message: expect.stringMatching(/shutting down/) });
  expect(upstream.reads).toBe(reads);
});

test('a result that cannot be told does not end the worker: another attempt reads', async () => {
  const endSeen = () => {
    throw new Error('no metrics');
  };
  const { upstream, heldPolls, attempt } = holding({ metrics: { endSeen } });
  upstream.show = (read) => ({ status: read > 1 ? 'completed' : 'active' });
  expect((await attempt({ plan: EVERY_20_MS })).error).toMatchObject({ type: 'StillPolling' });
  await heldPolls.ended();
  expect(heldPolls.size).toBe(0);
});

test('names that look alike are two jobs', async () => {
  const { shutdown, heldPolls, attempt } = holding();
  const all = [
    attempt({}, { info: { workflowExecution: { workflowId: 'w p', runId: 'r' } } }),
    attempt({ projectId: 'p p1' }, { info: { workflowExecution: { workflowId: 'w', runId: 'r' } } }),
  ];
  await expect.poll(() => heldPolls.size).toBe(2);
  shutdown.abort();
  await Promise.all(all);
});

test('an operator who resets the attempts makes no figure negative', () => {
  const input = { failures: 0, notFound: null };
  const progress = new PollProgress(input, { attempt: 1, heartbeatDetails: { unread: 40, further: 3 } });
  progress.add('record');
  expect(progress.reads).toBe(4);
});

test('what a lease tells people is no news to the next attempt', () => {
  const input = { failures: 0, notFound: null };
  const heartbeatDetails = {
    status: 'active',
    polls: 7,
    ...new PollProgress(input, { attempt: 1, heartbeatDetails: null }).saved,
  };
  expect(new PollProgress(input, { attempt: 2, heartbeatDetails }).hasChanged).toBe(false);
});

test('a hand-back that the server did not hear is told again with the wait that is left then', async () => {
  const { shutdown, heldPolls, attempt } = holding();
  const attempted = attempt({}, { answers: [new Error('unavailable')] });
  await expect.poll(() => heldPolls.size).toBe(1);
  shutdown.abort();
  const { error } = await attempted;
  expect(error?.nextRetryDelay).toBeLessThanOrEqual(9_900 - 2_000);
});

test('a lease that follows failed reads tells the server at once that they are over', async () => {
  const { heldPolls, shutdown, attempt } = holding();
  const told: unknown[] = [];
  const heartbeatDetails = { failures: 7, notFound: 0, further: 0, unread: 0 };
  const info = { attempt: 8, heartbeatDetails };
  const attempted = attempt({}, { info, onHeartbeat: (details) => told.push(details) });
  await expect.poll(() => heldPolls.size).toBe(1);
  await expect.poll(() => told).toMatchObject([{ failures: 0 }]);
  shutdown.abort();
  await attempted;
});

test.each([
  ['after failed reads before the batch', { failures: 5 }, { attempt: 10 }],
  ['that another release chose', { plan: EVERY_MINUTE }, { attempt: 10, heartbeatTimeoutMs: 120_000 }],
])('a lease %s is not ended for a longer one, which might never come', async (_, input, info) => {
  const { heldPolls, shutdown, attempt } = holding();
  const attempted = attempt(input, { info });
  await expect.poll(() => heldPolls.size).toBe(1);
  shutdown.abort();
  await attempted;
});

test('a machine that was suspended hands its polls back, as its clock may be behind', async () => {
  const { upstream, heldPolls, attempt } = holding();
  const attempted = attempt({ plan: { minMs: 3_000, maxMs: 3_000, ratio: 0 } });
  await expect.poll(() => heldPolls.size).toBe(1);
  const now = Date.now.bind(Date);
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => now() + 60_000);
  try {
    expect((await attempted).error).toMatchObject({ type: 'StillPolling' });
  } finally {
    clock.mockRestore();
  }
  expect(upstream.reads).toBe(1);
});

test('a deadline that has passed by the clock alone is left to another attempt, which knows the time', async () => {
  const { upstream, attempt } = holding();
  const info = { currentAttemptScheduledTimestampMs: Date.now() - 3_600_000 };
  const { error } = await attempt({ deadlineAt: Date.now() - 1_000 }, { info });
  expect(error).toMatchObject({
    type: 'StillPolling',
    message: expect.stringMatching(/^nothing is wrong: the job is active, next poll/),
  });
  expect(upstream.reads).toBe(1);
});

test('how late an end was seen is measured, not planned, where reads had to wait for each other', async () => {
  const late: number[] = [];
  const { upstream, heldPolls, attempt } = holding({ metrics: { endSeen: (seconds) => late.push(seconds) } });
  upstream.show = (read) => ({ status: read > 1 ? 'completed' : 'active' });
  vi.spyOn(heldPolls.pacing, 'reserve')
    .mockReturnValueOnce({ ms: 0, why: '', isShort: true })
    .mockReturnValueOnce({ ms: 3_000, why: 'many reads are due at once', isShort: false });
  expect((await attempt({ plan: EVERY_20_MS })).result).toMatchObject({ reads: 2 });
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
    await environment.run(pollJob, { ...INPUT, known }).catch(() => {});
    return new WeakRef(known);
  };
  const known = await begin();
  expect(heldPolls.size).toBe(1);
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  await expect.poll(() => (collect(), known.deref() === undefined)).toBe(true);
  expect(heldPolls.size).toBe(1);
});

test('a held read tells how late it began', async () => {
  const late: number[] = [];
  const shutdown = new AbortController();
  const heldPolls = new HeldPolls(shutdown.signal, { readBegins: (seconds) => late.push(seconds) });
  const upstream = new ScriptedUpstream();
  upstream.show = (read) => ({ status: read > 2 ? 'completed' : 'active' });
  const pollJob = createPollJob({ upstream, metrics: noMetrics, shutdownSignal: shutdown.signal, heldPolls });
  await runAttempt(pollJob, { ...INPUT, plan: EVERY_20_MS });
  // The first read is not held: it was not late.
  expect(late).toHaveLength(2);
  for (const seconds of late) expect(seconds).toBeGreaterThan(-0.1);
});
