import { MockActivityEnvironment } from '@temporalio/testing';
import { describe, expect, test, vi } from 'vitest';
import { createPollJob } from '../../src/activities/agent-job/poll-job.js';
import { ReadFailedError } from '../../src/upstream/errors.js';
import { Poller, type PollJobInput, type PollJobResult } from '../../src/activities/index.js';
import { pollInput, runAttempt } from '../support/held-attempt.js';
import { aheadClock } from '../support/monotonic-clock.js';
import { record, ScriptedUpstream } from '../support/scripted-upstream.js';
import { noMetrics } from '../support/no-metrics.js';

const INPUT = pollInput({ plan: { minMs: 60_000, maxMs: 60_000, ratio: 0 }, known: null });

type Watch = (input: PollJobInput) => Promise<PollJobResult>;

/** One attempt: its result, or the failure with which it waits, and the last details that it kept. */
async function attempt(watch: Watch, number: number, kept: unknown, workflowId = 'w') {
  const environment = new MockActivityEnvironment({
    attempt: number,
    heartbeatDetails: kept,
    workflowExecution: { workflowId, runId: 'r' },
  });
  let details = kept;
  environment.on('heartbeat', (said: unknown) => (details = said));
  const outcome = await environment.run(watch, INPUT).then(
    (result) => ({ result, failure: null }),
    (failure: Error) => ({ result: null, failure }),
  );
  return { ...outcome, details };
}

test('an attempt that ends before its read is counted as none', async () => {
  const upstream = new ScriptedUpstream();
  const shutdown = new AbortController();
  const leaving = createPollJob({ upstream, metrics: noMetrics, shutdownSignal: shutdown.signal, poller: null });
  shutdown.abort();
  const first = await attempt(leaving, 1, undefined);
  const second = await attempt(leaving, 2, first.details);
  expect(second.failure).toMatchObject({ type: 'StillPolling', message: expect.stringContaining('shutting down') });
  expect(upstream.reads).toBe(0);
  const staying = createPollJob({
    upstream,
    metrics: noMetrics,
    shutdownSignal: new AbortController().signal,
    poller: null,
  });
  const third = await attempt(staying, 3, second.details);
  expect(third.result).toMatchObject({ reading: { kind: 'record' }, reads: 1 });
  expect(upstream.reads).toBe(1);
});

test.each(['text', null, { failures: 'many', missing: null, further: {} }, [1]])(
  'details that another release kept (%j) spoil no figure',
  async (kept) => {
    const watch = createPollJob({
      metrics: noMetrics,
      upstream: new ScriptedUpstream(),
      shutdownSignal: new AbortController().signal,
      poller: null,
    });
    expect((await attempt(watch, 2, kept)).result).toMatchObject({ reads: 2, failures: 0 });
  },
);

test('of polls that are due in the same second some are handed back, each with a time of its own', async () => {
  const upstream = new ScriptedUpstream();
  const watch = createPollJob({
    upstream,
    metrics: noMetrics,
    shutdownSignal: new AbortController().signal,
    poller: null,
  });
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0);
  const attempts = Array.from({ length: 6_000 }, (_, i) => attempt(watch, 1, undefined, `w${i}`));
  const outcomes = await Promise.all(attempts);
  clock.mockRestore();
  const later = outcomes.flatMap(({ failure }) => (failure ? [failure as Error & { nextRetryDelay: number }] : []));
  expect(upstream.reads).toBe(2_100);
  expect(later).toHaveLength(3_900);
  const delays = new Set(later.map(({ nextRetryDelay }) => nextRetryDelay));
  expect(delays.size).toBe(later.length);
});

describe('an upstream that wishes to be left alone', () => {
  function refusing(status: number, retryAfterMs?: number) {
    const upstream = new ScriptedUpstream();
    upstream.show = () => ({ status: 'active' });
    upstream.readFaults.push(new ReadFailedError(`the upstream answered ${status}`, status, retryAfterMs));
    const { signal } = new AbortController();
    return runAttempt(
      createPollJob({ upstream, metrics: noMetrics, shutdownSignal: signal, poller: new Poller(signal, noMetrics) }),
      pollInput(),
    );
  }

  test.each([429, 503])(
    'even for a second, with a %i, is told to the workflow: no pollNow may read',
    async (status) => {
      const { result } = await refusing(status, 1_000);
      expect(result?.reading).toMatchObject({ kind: 'failed', retryAfterMs: 1_000 });
    },
  );

  test('for less than a second after a 429 is left alone for one', async () => {
    expect((await refusing(429, 1)).result?.reading).toMatchObject({ retryAfterMs: 1_000, waitsFor: 'rateLimit' });
    for (const status of [401, 403])
      expect((await refusing(status, 1)).result?.reading).toMatchObject({ waitsFor: 'key' });
  });

  test.each([undefined, 0])(
    'without a time (%s) ends no batch, and is left alone for a second',
    async (retryAfterMs) => {
      const { error } = await refusing(429, retryAfterMs);
      expect(error).toMatchObject({ type: 'StillPolling' });
      expect(error?.nextRetryDelay).toBeGreaterThanOrEqual(1_000);
    },
  );
});

describe('a read that is answered slowly', () => {
  /** The upstream looks at the job as soon as it is asked, and its first answer comes so much later. */
  function answeringLate(lateMs: number, statuses: string[]) {
    const { skip } = aheadClock();
    const upstream = new ScriptedUpstream();
    upstream.show = (read) => {
      if (read === 1) skip(lateMs);
      return { status: statuses[read - 1]! };
    };
    const { signal } = new AbortController();
    const pollJob = createPollJob({
      upstream,
      metrics: noMetrics,
      shutdownSignal: signal,
      poller: new Poller(signal, noMetrics),
    });
    return { upstream, attempt: (input: Partial<PollJobInput>) => runAttempt(pollJob, pollInput(input)) };
  }

  test('and began within the settle time of a follow-up ends nothing: the job is read again at once', async () => {
    const { attempt } = answeringLate(40_000, ['completed', 'active']);
    const known = record({ status: 'completed' });
    const { result } = await attempt({ known, settledAt: Date.now() + 30_000 });
    expect(result).toMatchObject({ reading: { kind: 'record', job: { status: 'active' } }, reads: 2 });
  });

  test('and began before the deadline is not the last one', async () => {
    const { attempt } = answeringLate(40_000, ['active', 'completed']);
    const { result } = await attempt({ deadlineAt: Date.now() + 30_000 });
    expect(result).toMatchObject({ reading: { kind: 'record', job: { status: 'completed' } }, reads: 2 });
  });
});
