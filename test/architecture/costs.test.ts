/** What docs/performance.md says that a job costs follows from the waits, the batches and the leases of polls. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import {
  MIN_POLLS_PER_LEASE,
  pollLeaseMs,
  POLLS_PER_BATCH,
  pollWaitMs,
  renewEarlyMs,
} from '../../src/agent-job/poll-waits.js';
import { HOUR_MS } from '../../src/contract/shared.js';

const PAGE = readFileSync(new URL('../../docs/performance.md', import.meta.url), 'utf8').replaceAll(/\s+/g, ' ');
/** Of default polling, without a change. */
const PLAN = { minMs: 2_000, maxMs: 60_000, ratio: 0.1 };
const [OF_ONE_POLL, OF_A_BATCH] = [6, 2];
/** The jitter of two waits that have the mean of all. */
const RANDOM = [0.25, 0.75];

/** The actions of a job whose upstream shows the same until its end. */
function actionsOf(jobMs: number): number {
  let [now, polls, actions] = [0, 0, OF_ONE_POLL - OF_A_BATCH];
  const waitMs = (random: number) => pollWaitMs(PLAN, { sinceChangeMs: now, failures: 0, random });
  const pass = () => (now += waitMs(RANDOM[(polls += 1) % RANDOM.length]!));
  while (now < jobMs) {
    actions += OF_A_BATCH;
    const leaseMs = pollLeaseMs(waitMs(0.5));
    const since = now;
    const isOver = (count: number) => {
      const mayHaveLonger = count >= MIN_POLLS_PER_LEASE && leaseMs < pollLeaseMs(waitMs(0.5));
      return now >= jobMs || count >= POLLS_PER_BATCH || mayHaveLonger;
    };
    for (let count = 1; !isOver(count); count++) pass();
    actions += Math.floor((now - since) / (leaseMs - renewEarlyMs(leaseMs)));
    if (now < jobMs) pass();
  }
  return actions;
}

test('the actions of a job by its length are those of the waits', () => {
  const sentence = PAGE.match(/A job with default polling takes .*? for a day/)![0];
  const said = sentence.match(/\d+/g)!.map(Number);
  const counted = [HOUR_MS / 60, HOUR_MS / 6, HOUR_MS, 8 * HOUR_MS, 24 * HOUR_MS].map(actionsOf);
  expect(said).toHaveLength(counted.length);
  // A random wait may move the end of a batch.
  said.forEach((actions, i) => expect(Math.abs(actions - counted[i]!)).toBeLessThanOrEqual(1));
});
