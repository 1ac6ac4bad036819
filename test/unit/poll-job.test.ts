import { MockActivityEnvironment } from '@temporalio/testing';
import { expect, test, vi } from 'vitest';
import { createPollJob } from '../../src/activities/agent-job/poll-job.js';
import type { PollJobInput, PollJobResult } from '../../src/activities/index.js';
import { pollInput } from '../support/held-attempt.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';

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
  const leaving = createPollJob({ upstream, shutdownSignal: shutdown.signal, poller: null });
  shutdown.abort();
  const first = await attempt(leaving, 1, undefined);
  const second = await attempt(leaving, 2, first.details);
  expect(second.failure).toMatchObject({ type: 'StillPolling', message: expect.stringContaining('shutting down') });
  expect(upstream.reads).toBe(0);
  const staying = createPollJob({ upstream, shutdownSignal: new AbortController().signal, poller: null });
  const third = await attempt(staying, 3, second.details);
  expect(third.result).toMatchObject({ reading: { kind: 'record' }, reads: 1 });
  expect(upstream.reads).toBe(1);
});

test.each(['text', null, { failures: 'many', missing: null, further: {} }, [1]])(
  'details that another release kept (%j) spoil no figure',
  async (kept) => {
    const watch = createPollJob({
      upstream: new ScriptedUpstream(),
      shutdownSignal: new AbortController().signal,
      poller: null,
    });
    expect((await attempt(watch, 2, kept)).result).toMatchObject({ reads: 2, failures: 0 });
  },
);

test('of polls that are due in the same second some are handed back, each with a time of its own', async () => {
  const upstream = new ScriptedUpstream();
  const watch = createPollJob({ upstream, shutdownSignal: new AbortController().signal, poller: null });
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
