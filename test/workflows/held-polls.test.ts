import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createPollJob } from '../../src/activities/agent-job/held-polls.js';
import { HeldPolls } from '../../src/activities/agent-job/held-polls.js';
import type { PollJobInput } from '../../src/activities/agent-job/poll-attempt.js';
import { ReadFailedError } from '../../src/upstream/errors.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { pollInput, runAttempt, type HeldAttemptOptions } from '../support/held-attempt.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { record, ScriptedUpstream } from '../support/scripted-upstream.js';
import { noMetrics } from '../support/no-metrics.js';

const EVERY_600_MS = { minMs: 600, maxMs: 600, ratio: 0 };
const EVERY_9_S = { minMs: 9_000, maxMs: 9_000, ratio: 0 };

function watching({ holdsPolls = true } = {}) {
  const upstream = new ScriptedUpstream();
  upstream.show = () => ({ status: 'active' });
  const shutdown = new AbortController();
  const heldPolls = holdsPolls ? new HeldPolls(shutdown.signal, noMetrics) : null;
  const pollJob = createPollJob({ upstream, metrics: noMetrics, shutdownSignal: shutdown.signal, heldPolls });
  const attempt = (input: Partial<PollJobInput> = {}, options: HeldAttemptOptions = {}) =>
    runAttempt(pollJob, pollInput(input), options);
  return { upstream, shutdown, heldPolls, attempt };
}

describe('one attempt', () => {
  test('reads until something has changed, and counts its reads', async () => {
    const { upstream, attempt, heldPolls } = watching();
    upstream.show = (read) => ({ status: read < 4 ? 'active' : 'completed' });
    const { result, kept } = await attempt();
    expect(result).toMatchObject({ reading: { kind: 'record', job: { status: 'completed' } }, reads: 4 });
    expect(kept).toBeNull();
    expect(heldPolls?.size).toBe(0);
  });

  test('goes back to the server with a failed read, which it shows, and with what it has counted', async () => {
    const { upstream, attempt } = watching();
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
    const { upstream, shutdown, attempt, heldPolls } = watching();
    const attempted = attempt({ plan: EVERY_9_S });
    await expect.poll(() => heldPolls?.size).toBe(1);
    shutdown.abort();
    const { error } = await attempted;
    expect(error).toMatchObject({ type: 'StillPolling', message: expect.stringMatching(/shutting down/) });
    expect(error?.nextRetryDelay).toBeGreaterThan(5_000);
    expect(error?.nextRetryDelay).toBeLessThanOrEqual(9_900);
    await heldPolls?.ended();
    expect(upstream.reads).toBe(1);
  });

  test('ends for a later one of the same job, and for none of another job', async () => {
    const { upstream, attempt, heldPolls } = watching();
    const earlier = attempt({ plan: EVERY_9_S });
    const deadlineAt = Date.now() + 3_000;
    const other = attempt({ plan: EVERY_9_S, jobId: 'job-2', known: record({ id: 'job-2' }), deadlineAt });
    await expect.poll(() => heldPolls?.size).toBe(2);
    const later = attempt({ plan: EVERY_9_S, deadlineAt });
    expect((await earlier).error).toMatchObject({
      type: 'StillPolling',
      message: expect.stringMatching(/later poll/),
    });
    expect((await later).result?.reads).toBe(2);
    expect((await other).result?.reads).toBe(2);
    expect(upstream.reads).toBe(5);
  });

  test('whose waits have become long ends for a longer lease, but not before the tenth read of the batch', async () => {
    const EVERY_MINUTE = { minMs: 60_000, maxMs: 60_000, ratio: 0 };
    const { attempt } = watching();
    const { result } = await attempt({ plan: EVERY_MINUTE }, { info: { attempt: 10 } });
    expect(result).toMatchObject({ reading: { kind: 'unchanged' }, reads: 10 });
    const { attempt: early, heldPolls } = watching();
    expect((await early({ plan: EVERY_MINUTE }, { info: { attempt: 9 } })).error).toMatchObject({
      type: 'StillPolling',
    });
    expect(heldPolls?.size).toBe(0);
    const { attempt: long, heldPolls: other } = watching();
    void long({ plan: EVERY_MINUTE }, { info: { attempt: 10, heartbeatTimeoutMs: 290_000 } });
    await expect.poll(() => other?.size).toBe(1);
  });

  test('is each read where requests are limited', async () => {
    const { upstream, attempt } = watching({ holdsPolls: false });
    expect((await attempt()).error).toMatchObject({ type: 'StillPolling' });
    expect(upstream.reads).toBe(1);
  });
});

describe('a lease', () => {
  /** Renewed after a second. */
  const SHORT = { heartbeatTimeoutMs: 16_000 };

  test('is renewed by a heartbeat, which tells people and the next attempt how far it is', async () => {
    const { attempt, shutdown } = watching();
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
  ])('is over at a %s, for %s: it tells the server %s', async (name, _, told) => {
    const { attempt, heldPolls, upstream } = watching();
    const attempted = attempt({ plan: EVERY_600_MS }, { info: SHORT, answers: [Object.assign(new Error(), { name })] });
    await expect.poll(() => heldPolls?.size).toBe(1);
    await expect.poll(() => heldPolls?.size).toBe(0);
    const { reads } = upstream;
    const nothing = new Promise((resolve) => setTimeout(() => resolve({ wasCancelled: false }), 1_500));
    expect(await Promise.race([attempted, nothing])).toMatchObject({ wasCancelled: told === 'a cancellation' });
    expect(upstream.reads).toBe(reads);
  });

  test('goes on where the server did not answer, until it did', async () => {
    const { attempt, shutdown } = watching();
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
    const { attempt, heldPolls, upstream } = watching();
    const { error, kept } = await attempt({ plan: { minMs: 45_000, maxMs: 45_000, ratio: 0 } });
    expect(error).toMatchObject({ type: 'StillPolling' });
    expect(error?.nextRetryDelay).toBeGreaterThanOrEqual(40_500);
    expect({ kept, size: heldPolls?.size, reads: upstream.reads }).toEqual({ kept: null, size: 0, reads: 1 });
  });

  test('is not taken where an operator took the heartbeat timeout away: the server keeps each wait', async () => {
    const { attempt, upstream } = watching();
    const { error } = await attempt({ maxReads: 1_000 }, { info: { heartbeatTimeoutMs: 0 } });
    expect(error).toMatchObject({
      type: 'StillPolling',
      message: expect.stringMatching(/^nothing is wrong: the job is active, next poll/),
    });
    expect(upstream.reads).toBe(1);
  });
});

describe('on a server', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await connectDevServer();
  });
  afterAll(async () => server.close());

  async function withBench(work: (bench: JobBench, upstream: ScriptedUpstream) => Promise<void>) {
    const upstream = new ScriptedUpstream();
    const bench = await startJobBench(server, upstream, { holdsPolls: true });
    try {
      await work(bench, upstream);
    } finally {
      await bench.stop();
    }
  }

  test('reads in one attempt cost no action of their own, and are all counted', () =>
    withBench(async (bench, upstream) => {
      upstream.show = (read) => (read > 5 ? { status: 'completed' } : { status: 'active' });
      const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', polling: { min: 1_000, max: 1_000 } });
      expect(await handle.result()).toMatchObject({ outcome: 'completed', polls: 6 });
      const { events } = await handle.fetchHistory();
      const attempts = events?.flatMap(({ activityTaskStartedEventAttributes: started }) => started?.attempt ?? []);
      expect(attempts).toEqual([1, 1]);
    }));
});
