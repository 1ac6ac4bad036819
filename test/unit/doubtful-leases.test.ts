/** What becomes of a held poll whose heartbeat got no answer: the server may have taken it, or not. */
import { expect, test } from 'vitest';
import { createPollJob } from '../../src/activities/agent-job/held-polls.js';
import { PollLease, type PollLeaseOptions } from '../../src/activities/agent-job/poll-lease.js';
import { HeldPolls } from '../../src/activities/agent-job/held-polls.js';
import { pollInput, runAttempt, type HeldAttempt, type HeldAttemptOptions } from '../support/held-attempt.js';
import { aheadClock } from '../support/monotonic-clock.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { noMetrics } from '../support/no-metrics.js';

/** Renewed after 35 s. */
const LEASE_MS = 50_000;
const NO_ANSWER = new Error('deadline exceeded');

async function held(options: HeldAttemptOptions) {
  const upstream = new ScriptedUpstream();
  upstream.show = () => ({ status: 'active' });
  const { signal } = new AbortController();
  const heldPolls = new HeldPolls(signal, noMetrics);
  const pollJob = createPollJob({ upstream, metrics: noMetrics, shutdownSignal: signal, heldPolls });
  const input = pollInput({ plan: { minMs: 30_000, maxMs: 30_000, ratio: 0 } });
  let ended: HeldAttempt | null = null;
  void runAttempt(pollJob, input, { ...options, info: { heartbeatTimeoutMs: LEASE_MS } }).then((end) => (ended = end));
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
  await expect.poll(ended, { timeout: 60_000 }).toMatchObject({
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
  const read = () => Promise.resolve({ kind: 'wait', ms: 30_000, why: '', isHealthy: true });
  const run = { elapsedMs: 0, progress: { reads: 1, hasChanged: false, saved: {} }, shown: '', read };
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
