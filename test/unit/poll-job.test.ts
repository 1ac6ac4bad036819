import { MockActivityEnvironment } from '@temporalio/testing';
import { describe, expect, test } from 'vitest';
import { createPollJob } from '../../src/activities/agent-job/held-polls.js';
import { isLost, type NotFound } from '../../src/agent-job/poll-waits.js';
import { ReadFailedError, RejectedError } from '../../src/upstream/errors.js';
import { HeldPolls } from '../../src/activities/agent-job/held-polls.js';
import { PollPacing } from '../../src/activities/agent-job/poll-pacing.js';
import type { PollJobInput, PollJobResult } from '../../src/activities/agent-job/poll-attempt.js';
import { pollInput, runAttempt } from '../support/held-attempt.js';
import { aheadClock } from '../support/monotonic-clock.js';
import { record, ScriptedUpstream } from '../support/scripted-upstream.js';
import { noMetrics } from '../support/no-metrics.js';

const INPUT = pollInput({ plan: { minMs: 60_000, maxMs: 60_000, ratio: 0 }, known: null });

type Watch = (input: PollJobInput) => Promise<PollJobResult>;

const { signal } = new AbortController();

/** Each poll is an attempt. */
const eachAnAttempt = (upstream: ScriptedUpstream, shutdownSignal = signal) =>
  createPollJob({ upstream, metrics: noMetrics, shutdownSignal, heldPolls: null });

const holding = (upstream: ScriptedUpstream) =>
  createPollJob({ upstream, metrics: noMetrics, shutdownSignal: signal, heldPolls: new HeldPolls(signal, noMetrics) });

/** One attempt: its result, or the failure with which it waits, and the last details that it kept. */
async function attempt(watch: Watch, number: number, kept: unknown) {
  const environment = new MockActivityEnvironment({ attempt: number, heartbeatDetails: kept });
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
  const leaving = eachAnAttempt(upstream, shutdown.signal);
  shutdown.abort();
  const first = await attempt(leaving, 1, undefined);
  const second = await attempt(leaving, 2, first.details);
  expect(second.failure).toMatchObject({ type: 'StillPolling', message: expect.stringContaining('shutting down') });
  expect(upstream.reads).toBe(0);
  const third = await attempt(eachAnAttempt(upstream), 3, second.details);
  expect(third.result).toMatchObject({ reading: { kind: 'record' }, reads: 1 });
  expect(upstream.reads).toBe(1);
});

test('a Retry-After that comes as the worker begins to shut down binds the next attempt', async () => {
  const upstream = new ScriptedUpstream();
  const shutdown = new AbortController();
  upstream.getJob = () => {
    shutdown.abort();
    return Promise.reject(new ReadFailedError('upstream answered 429', 429, 600_000));
  };
  const { result } = await attempt(eachAnAttempt(upstream, shutdown.signal), 1, undefined);
  expect(result).toMatchObject({ reading: { kind: 'failed', waitsFor: 'rateLimit', retryAfterMs: 600_000 } });
});

test.each(['text', null, { failures: 'many', missing: null, further: {} }, [1]])(
  'details that another release kept (%j) spoil no number',
  async (kept) => {
    expect((await attempt(eachAnAttempt(new ScriptedUpstream()), 2, kept)).result).toMatchObject({
      reads: 2,
      failures: 0,
    });
  },
);

test('ten thousand reads that are due at once are spread over ten seconds, and each begins', () => {
  let now = 0;
  const starts = new PollPacing(new AbortController().signal, () => now);
  const due = Array.from({ length: 10_000 }, () => 0);
  const perSecond: number[] = [];
  for (let rounds = 0; due.length > 0; rounds++) {
    expect(rounds).toBeLessThan(20_000);
    now = due.shift()!;
    const { isShort, ms } = starts.reserve();
    // What is handed back comes later than all before it.
    if (!isShort) due.push(now + ms);
    else perSecond[Math.floor((now + ms) / 1_000)] = (perSecond[Math.floor((now + ms) / 1_000)] ?? 0) + 1;
  }
  expect(perSecond.reduce((sum, count) => sum + count)).toBe(10_000);
  expect(Math.max(...perSecond)).toBeLessThanOrEqual(1_101);
  expect(perSecond.length).toBeLessThanOrEqual(11);
});

describe('an upstream that wishes to be left alone', () => {
  function refusing(status: number, retryAfterMs?: number) {
    const upstream = new ScriptedUpstream();
    upstream.show = () => ({ status: 'active' });
    upstream.readFaults.push(new ReadFailedError(`the upstream answered ${status}`, status, retryAfterMs));
    return runAttempt(holding(upstream), pollInput());
  }

  test.each([
    [429, 'rateLimit'],
    [401, 'key'],
    [403, 'key'],
  ])('with a %i is reported as %s', async (status, waitsFor) => {
    expect((await refusing(status, 1)).result?.reading).toMatchObject({ waitsFor });
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

describe('a batch ends when reads begin to fail or to succeed', () => {
  const failure = (retryAfterMs?: number) => new ReadFailedError('upstream answered 503', 503, retryAfterMs);
  const soon = { troubleReportsFrom: Date.now() + 600_000 };
  /** A poll after others of the same batch, whose numbers the attempt before has left. */
  function read(fault: Error | null, kept: number, input: Partial<PollJobInput>) {
    const upstream = new ScriptedUpstream();
    upstream.show = () => ({ status: 'active' });
    if (fault) upstream.readFaults.push(fault);
    const info = { attempt: 2, heartbeatDetails: { failures: kept, notFound: 0, further: 0, unread: 0 } };
    return runAttempt(eachAnAttempt(upstream), pollInput(input), { info });
  }

  test.each([
    ['at the second failure in a row', failure(), 1, {}, 'failed'],
    ['after a worker died with the end that it found', failure(), 2, {}, 'failed'],
    ['at the first Retry-After', failure(1_000), 0, {}, 'failed'],
    ['at the first Retry-After of reads that fail', failure(1_000), 9, { isFailing: true }, 'failed'],
    ['at a longer Retry-After', failure(2_000), 9, { isFailing: true, pauseMs: 1_000 }, 'failed'],
    ['at a longer Retry-After, also soon after another', failure(2_000), 0, { ...soon, pauseMs: 1_000 }, 'failed'],
    ['at the first good read', null, 9, { isFailing: true }, 'unchanged'],
    ['at the first good read, also soon after trouble', null, 9, { ...soon, isFailing: true }, 'unchanged'],
    ['at the first good read, also after a worker died', null, 0, { isFailing: true }, 'unchanged'],
    ['once trouble may be reported again', failure(), 9, { troubleReportsFrom: Date.now() - 1 }, 'failed'],
  ] as const)('%s', async (_, fault, kept, input, kind) => {
    expect((await read(fault, kept, input)).result?.reading).toMatchObject({ kind });
  });

  test.each([
    ['one failure', failure(), 0, {}],
    ['a good read', null, 1, {}],
    ['a good read after a worker died with the end of the trouble', null, 2, {}],
    ['a failure that changes nothing', failure(), 9, { isFailing: true }],
    ['another Retry-After', failure(1_000), 9, { isFailing: true, pauseMs: 1_000 }],
    ['trouble soon after other trouble', failure(), 9, soon],
    ['a Retry-After as long as one before, soon after it', failure(1_000), 9, { ...soon, pauseMs: 1_000 }],
  ] as const)('and goes on after %s', async (_, fault, kept, input) => {
    expect((await read(fault, kept, input)).error).toMatchObject({ type: 'StillPolling' });
  });
});

describe('a read that is answered slowly', () => {
  /** The upstream looks at the job as soon as it is asked, and its first answer comes later by this. */
  function answeringLate(lateMs: number, statuses: string[]) {
    const { skip } = aheadClock();
    const upstream = new ScriptedUpstream();
    upstream.show = (read) => {
      if (read === 1) skip(lateMs);
      return { status: statuses[read - 1]! };
    };
    return { upstream, attempt: (input: Partial<PollJobInput>) => runAttempt(holding(upstream), pollInput(input)) };
  }

  test('and began before its end had stood does not end the job: it is read again at once', async () => {
    const { attempt } = answeringLate(40_000, ['completed', 'completed']);
    const known = record({ status: 'completed' });
    const candidate = { end: 'completed', prLink: null, since: Date.now(), hasStood: false } as const;
    const { result } = await attempt({ plan: { minMs: 9_000, maxMs: 9_000, ratio: 0 }, known, candidate });
    expect(result).toMatchObject({ reading: { kind: 'record', end: 'completed', counts: true }, reads: 2 });
  });

  test('and began before the deadline is not the last one', async () => {
    const { attempt } = answeringLate(40_000, ['active', 'completed']);
    const { result } = await attempt({ deadlineAt: Date.now() + 30_000 });
    expect(result).toMatchObject({ reading: { kind: 'record', job: { status: 'completed' } }, reads: 2 });
  });
});

describe('answers 404', () => {
  const GONE = new RejectedError('no such job', 404, '');
  const GONE_FOR_GOOD = new RejectedError('no such job', 410, '');
  const PAGE = new ReadFailedError('404', 404, undefined, 'a page instead of an answer: 404 Not found', true);
  const page = { page: PAGE.reason };
  const ago = (ms: number) => Date.now() - ms;

  test.for<[what: string, fault: Error, before: NotFound | null, reported: object]>([
    ['the first', GONE, null, { count: 1 }],
    ['a 410', GONE_FOR_GOOD, { count: 1, since: 0 }, { count: 2 }],
    ['the first page', PAGE, null, { count: 1, ...page }],
    ['a page after others', PAGE, { count: 2, since: 0, ...page }, { count: 3, ...page }],
    ['a page after answers', PAGE, { count: 4, since: 0 }, { count: 1, ...page }],
    ['an answer after pages', GONE, { count: 4, since: 0, ...page }, { count: 1 }],
    ['the sixth, once they came for a minute', GONE, { count: 5, since: ago(60_000) }, { count: 6 }],
    [
      'the sixth page, once they came for an hour',
      PAGE,
      { count: 5, since: ago(3_600_000), ...page },
      { count: 6, ...page },
    ],
  ])('are reported: %s', async ([, fault, notFound, reported]) => {
    const upstream = new ScriptedUpstream();
    upstream.readFaults.push(fault);
    const { result } = await runAttempt(eachAnAttempt(upstream), pollInput({ notFound }));
    expect(result?.reading).toEqual({ kind: 'notFound', ...reported });
  });

  test.for<[what: string, fault: Error, notFound: NotFound]>([
    ['the sixth within a minute', GONE, { count: 5, since: ago(1_000) }],
    ['the sixth page within an hour', PAGE, { count: 5, since: ago(600_000), ...page }],
    ['one more of a job that is lost and whose run goes on', GONE, { count: 6, since: 0, isLost: true }],
  ])('and %s ends no batch', async ([, fault, notFound]) => {
    const upstream = new ScriptedUpstream();
    upstream.readFaults.push(fault);
    const { error } = await runAttempt(eachAnAttempt(upstream), pollInput({ notFound }));
    expect(error).toMatchObject({ type: 'StillPolling' });
  });

  test('make a job lost after five over a minute, and pages over an hour', () => {
    expect(isLost({ count: 5, since: 0 }, 59_999)).toBe(false);
    expect(isLost({ count: 5, since: 0 }, 60_000)).toBe(true);
    expect(isLost({ count: 4, since: 0 }, 60_000)).toBe(false);
    expect(isLost({ count: 5, since: 0, ...page }, 3_599_999)).toBe(false);
    expect(isLost({ count: 5, since: 0, ...page }, 3_600_000)).toBe(true);
  });
});
