import { MockActivityEnvironment } from '@temporalio/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createPollJob, type PollJobInput, type PollJobResult } from '../../src/activities/agent-job/poll-job.js';
import { followUpSignal, pollNowSignal } from '../../src/contract.js';
import { ReadFailedError } from '../../src/upstream/errors.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { record, ScriptedUpstream } from '../support/scripted-upstream.js';

/** What one attempt came to, and what it left for the next. */
interface Attempt {
  result?: PollJobResult;
  error?: { message: string; type?: string; name: string; nextRetryDelay?: number };
  kept: unknown;
}

const EVERY_20_MS = { minMs: 20, maxMs: 20, ratio: 0 };

function watching(pollingBudgetMs: number) {
  const upstream = new ScriptedUpstream();
  upstream.show = () => ({ status: 'active' });
  const shutdown = new AbortController();
  const pollJob = createPollJob({ upstream, shutdownSignal: shutdown.signal, pollingBudgetMs });
  const attempt = async (input: Partial<PollJobInput> = {}, info: object = {}): Promise<Attempt> => {
    const environment = new MockActivityEnvironment({ attempt: 1, currentAttemptScheduledTimestampMs: 0, ...info });
    let kept: unknown = null;
    environment.on('heartbeat', (details) => (kept = details));
    const whole = { ...anyInput(), ...input };
    return (environment.run(pollJob, whole) as Promise<PollJobResult>).then(
      (result) => ({ result, kept }),
      (error: NonNullable<Attempt['error']>) => ({ error, kept }),
    );
  };
  return { upstream, shutdown, attempt };
}

function anyInput(): PollJobInput {
  return {
    projectId: 'p1',
    jobId: 'job-1',
    plan: EVERY_20_MS,
    known: record(),
    lastChangeAt: 0,
    deadlineAt: null,
    settledAt: 0,
    endsAtTerminal: true,
    failures: 0,
    notFound: null,
    maxReads: 60,
    afterReset: false,
  };
}

describe('while waits are short', () => {
  test('one attempt reads until something has changed, and counts its reads', async () => {
    const { upstream, attempt } = watching(10_000);
    upstream.show = (read) => ({ status: read < 4 ? 'active' : 'completed' });
    const { result, kept } = await attempt();
    expect(result).toMatchObject({ reading: { kind: 'record', job: { status: 'completed' } }, reads: 4 });
    expect(kept).toBeNull();
  });

  test('an attempt hands over to the server when its time is over, and the next one counts on', async () => {
    const { upstream, attempt } = watching(1_000);
    const first = await attempt({ maxReads: 1_000 });
    expect(first.error).toMatchObject({ type: 'StillPolling', message: 'active, next poll in 1 s' });
    const reads = upstream.reads;
    expect(reads).toBeGreaterThan(1);
    upstream.show = () => ({ status: 'completed' });
    const second = await attempt({ maxReads: 1_000 }, { attempt: 2, heartbeatDetails: first.kept });
    expect(second.result?.reads).toBe(reads + 1);
  });

  test('an attempt makes no more reads than the watch has left', async () => {
    const { upstream, attempt } = watching(10_000);
    expect((await attempt({ maxReads: 3 })).result).toMatchObject({ reading: { kind: 'unchanged' }, reads: 3 });
    expect(upstream.reads).toBe(3);
  });

  test('the last look is at the deadline', async () => {
    const { attempt } = watching(10_000);
    const plan = { minMs: 5_000, maxMs: 5_000, ratio: 0 };
    expect((await attempt({ plan, deadlineAt: 1_000 })).result).toMatchObject({
      reading: { kind: 'unchanged' },
      reads: 2,
    });
  });

  test('a failed read goes back to the server, which shows why', async () => {
    const { upstream, attempt } = watching(10_000);
    upstream.readFaults.push(new ReadFailedError('the upstream answered 503', 503));
    expect((await attempt()).error?.message).toMatch(/^the upstream answered 503, next poll in/);
    expect(upstream.reads).toBe(1);
  });

  test('a worker that shuts down waits no longer', async () => {
    const { upstream, shutdown, attempt } = watching(10_000);
    const plan = { minMs: 9_000, maxMs: 9_000, ratio: 0 };
    const attempted = attempt({ plan });
    await expect.poll(() => upstream.reads).toBe(1);
    shutdown.abort();
    expect((await attempted).error).toMatchObject({ type: 'StillPolling', nextRetryDelay: 1 });
    expect(upstream.reads).toBe(1);
  });

  test('a later poll of the same job ends the earlier one, and none of another job', async () => {
    const { upstream, attempt } = watching(10_000);
    const plan = { minMs: 9_000, maxMs: 9_000, ratio: 0 };
    const earlier = attempt({ plan });
    const other = attempt({ plan, jobId: 'job-2', known: record({ id: 'job-2' }), deadlineAt: 3_000 });
    await expect.poll(() => upstream.reads).toBe(2);
    const later = attempt({ plan, deadlineAt: 3_000 });
    expect((await earlier).error).toMatchObject({
      type: 'StillPolling',
      message: expect.stringMatching(/later poll/),
    });
    expect((await later).result?.reads).toBe(2);
    expect((await other).result?.reads).toBe(2);
  });
});

test('a long wait is the server’s, and costs no heartbeat', async () => {
  const { upstream, attempt } = watching(100_000);
  const { error, kept } = await attempt({ plan: { minMs: 20_000, maxMs: 20_000, ratio: 0 } });
  expect(error).toMatchObject({ type: 'StillPolling' });
  expect(error?.nextRetryDelay).toBeGreaterThanOrEqual(18_000);
  expect(kept).toBeNull();
  expect(upstream.reads).toBe(1);
});

test('where requests are limited, each read is an attempt', async () => {
  const { upstream, attempt } = watching(0);
  expect((await attempt()).error).toMatchObject({ type: 'StillPolling' });
  expect(upstream.reads).toBe(1);
});

describe('on a server', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await connectDevServer();
  });
  afterAll(async () => server.close());

  async function withBench(work: (bench: JobBench, upstream: ScriptedUpstream) => Promise<void>) {
    const upstream = new ScriptedUpstream();
    const bench = await startJobBench(server, upstream, { pollingBudgetMs: 25_000 });
    try {
      await work(bench, upstream);
    } finally {
      await bench.stop();
    }
  }

  test('a follow-up is sent in the middle of a wait, and the job read right after it', () =>
    withBench(async (bench, upstream) => {
      upstream.show = () => (upstream.messages.length > 0 ? { status: 'completed' } : { status: 'active' });
      const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', settle: 0, polling: { min: 9_000 } });
      await expect.poll(() => upstream.reads).toBe(1);
      await handle.signal(followUpSignal, { prompt: 'And a test', id: 'one' });
      expect(await handle.result()).toMatchObject({
        outcome: 'completed',
        followUps: [{ id: 'one', state: 'sent' }],
      });
      expect(upstream.reads).toBe(2);
      expect((await handle.describe()).historyLength).toBeLessThanOrEqual(40);
    }));

  test('pollNow reads in the middle of a wait', () =>
    withBench(async (bench, upstream) => {
      upstream.show = (read) => (read > 1 ? { status: 'completed' } : { status: 'active' });
      const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', polling: { min: 9_000 } });
      await expect.poll(() => upstream.reads).toBe(1);
      await handle.signal(pollNowSignal);
      expect(await handle.result()).toMatchObject({ outcome: 'completed', polls: 2 });
    }));

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
