/** Writes that wait for a 429 to end: what that costs, and what ends it. */
import type { WorkflowFailedError, WorkflowHandle } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { followUpSignal, jobStateQuery } from '../../src/contract.js';
import { startSandbox, type Sandbox } from '../../src/testing.js';
import { createUpstream } from '../../src/upstream/client.js';
import { createKeySource } from '../../src/upstream/keys.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { throttled } from '../support/outcomes.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';

const JOBS = 20;
const PROMPT_BYTES = 50_000;
const PATIENCE = { timeout: 120_000, interval: 250 };

let server: TestServer;
let sandbox: Sandbox;

beforeAll(async () => {
  server = await connectDevServer();
  sandbox = await startSandbox({ script: { activeMs: 0 }, keptRequests: 100_000 });
});
afterAll(async () => {
  await sandbox?.close();
  await server?.close();
});

test(
  'jobs that wait for a 429 to end hold their prompt in history once for each request, and a bounded number of events',
  { timeout: 240_000 },
  async () => {
    const upstream = createUpstream({
      baseUrl: sandbox.url,
      keys: createKeySource({ adminApiKey: sandbox.apiKey }),
      timeoutMs: 5_000,
      notTakenStatuses: [],
    });
    const bench = await startJobBench(server, upstream);
    try {
      await sandbox.setRateLimits({ create: 1, windowMs: 5_000, retryAfter: 'seconds' });
      const prompt = 'x'.repeat(PROMPT_BYTES);
      const jobs = await Promise.all(
        Array.from({ length: JOBS }, (_, i) => bench.start({ projectId: 'busy', prompt: `${i} ${prompt}` })),
      );
      const creates = () => sandbox.creates({ projectId: 'busy' });
      await expect.poll(async () => (await creates()).length, PATIENCE).toBe(4);
      await sandbox.setRateLimits({});
      for (const job of jobs) expect(await job.result()).toMatchObject({ outcome: 'completed' });
      expect(await creates()).toHaveLength(JOBS);

      const requests = await sandbox.requests({});
      const sent = requests.filter(({ operation, projectId }) => operation === 'create' && projectId === 'busy').length;
      const histories = await Promise.all(jobs.map(historyOf));
      // The start has the prompt, so has each try; a job may be held back once, at its first try.
      const prompts = sum(histories.map(({ bytes }) => Math.floor(bytes / PROMPT_BYTES)));
      expect(prompts).toBeLessThanOrEqual(JOBS + sent + JOBS);
      // 22 events of a job, 6 of a first try that is held back; 6 more and at most 14 of waiting for each refusal.
      expect(sum(histories.map(({ events }) => events))).toBeLessThanOrEqual(JOBS * (22 + 6 + 8) + (sent - JOBS) * 20);
    } finally {
      await bench.stop();
      await upstream.close();
    }
  },
);

const tooMany = (ms: number) => throttled('upstream answered 429', ms);

/** Another job of the project was told to come back in an hour. */
async function withClosedLane(work: (bench: JobBench, upstream: ScriptedUpstream) => Promise<void>) {
  const upstream = new ScriptedUpstream();
  const bench = await startJobBench(server, upstream);
  try {
    upstream.createFaults.push(tooMany(3_600_000));
    await bench.start({ projectId: 'p1', prompt: 'The one that was refused' });
    await expect.poll(() => upstream.created.length).toBe(1);
    await work(bench, upstream);
    expect(upstream.created).toHaveLength(1);
  } finally {
    await bench.stop();
  }
}

async function untilItWaits(handle: WorkflowHandle): Promise<void> {
  const waits = async () => {
    const { raw } = await handle.describe();
    return (raw.pendingActivities ?? []).map(({ activityType }) => activityType?.name);
  };
  await expect.poll(waits, PATIENCE).toEqual(['awaitTurn']);
}

test('a job that waits for its turn to create is cancelled at once, and nothing was sent', () =>
  withClosedLane(async (bench) => {
    const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it' });
    await untilItWaits(handle);
    const { waiting } = await handle.query(jobStateQuery);
    expect(waiting).toMatchObject({ for: 'rateLimit', reason: 'the upstream asked this project to wait' });
    expect(await handle.query('__temporal_workflow_metadata')).toMatchObject({
      currentDetails: expect.stringContaining(`- waits for: **rateLimit** since ${waiting?.since} (the upstream asked`),
    });
    await handle.cancel();
    const error = await handle.result().catch((e: unknown) => e);
    expect((error as WorkflowFailedError).cause).toBeInstanceOf(CancelledFailure);
    expect(await handle.query(jobStateQuery)).toMatchObject({ phase: 'done', jobId: null, unknown: null });
  }));

test('a job that waits for its turn to create is timedOut at its deadline, and nothing was sent', () =>
  withClosedLane(async (bench) => {
    const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', deadline: '5 seconds' });
    await untilItWaits(handle);
    expect(await handle.result()).toMatchObject({ outcome: 'timedOut', jobId: null, job: null });
  }));

test.each([
  ['the deadline', { deadline: '8 seconds' }, 'timedOut'],
  ['a cancellation', {}, 'CancelledFailure'],
])(
  'a follow-up that waits for its turn is abandoned at %s, and the job is read on meanwhile',
  async (_, options, end) => {
    const upstream = new ScriptedUpstream();
    upstream.show = () => ({ status: 'active' });
    const bench = await startJobBench(server, upstream);
    try {
      upstream.messageFaults.push(tooMany(3_600_000));
      const first = await bench.start({ projectId: 'p1', jobId: 'first' });
      await first.signal(followUpSignal, { prompt: 'The one that was refused' });
      await expect.poll(() => upstream.messages.length).toBe(1);
      const handle = await bench.start({ projectId: 'p1', jobId: 'second', polling: { max: '1 second' }, ...options });
      await handle.signal(followUpSignal, { prompt: 'go on', id: 'one' });
      const reads = () => upstream.reads;
      const before = reads();
      await expect.poll(reads, PATIENCE).toBeGreaterThan(before + 2);
      if (end === 'CancelledFailure') await handle.cancel();
      const howItEnded = await handle.result().then(
        ({ outcome }) => outcome,
        (error: WorkflowFailedError) => error.cause?.name,
      );
      expect(howItEnded).toBe(end);
      const { followUps, usedFollowUpIds } = await handle.query(jobStateQuery);
      expect([followUps, usedFollowUpIds]).toEqual([[{ id: 'one', state: 'abandoned' }], []]);
      expect(upstream.messages).toEqual(['The one that was refused']);
    } finally {
      await bench.stop();
    }
  },
);

async function historyOf(handle: WorkflowHandle): Promise<{ events: number; bytes: number }> {
  const { historyLength, raw } = await handle.describe();
  return { events: historyLength, bytes: Number(raw.workflowExecutionInfo?.historySizeBytes ?? 0) };
}

function sum(numbers: number[]): number {
  return numbers.reduce((all, one) => all + one, 0);
}
