import { defineSearchAttributeKey } from '@temporalio/common';
import { expect, test } from 'vitest';
import { attributeType, jobStateQuery, SEARCH_ATTRIBUTE } from '../../src/contract.js';
import { inputHash } from '../../src/agent-job/input.js';
import { notDelivered, throttled } from '../support/outcomes.js';
import { useSkippedTime } from '../support/job-tests.js';
import { gaps, record } from '../support/observed-upstream.js';

const tests = useSkippedTime();
const PR = 'https://github.example/a/b/pull/1';
/** Between two calls tasks take real time, and this server's clock counts it too. */
const LATE_MS = 10_000;
/** Not all that wait go on in the same second. */
const SPREAD_MS = 30_000;
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

test('a job that the upstream shows as failed ends so, in the shape of the contract', async () => {
  const { upstream, bench } = tests;
  const status = 'failed';
  upstream.show = (read) => (read < 3 ? { status: 'active' } : { status, prLink: PR });
  const handle = await bench.start({ projectId: 'p 1', prompt: 'Fix it' });
  const result = await handle.result();
  expect(result).toEqual({
    outcome: status,
    projectId: 'p 1',
    jobId: 'job-1',
    job: record({ status, prLink: PR }),
    followUps: [],
    usedFollowUpIds: [],
    promptHashes: {},
    decisions: [],
    tags: [],
    metadata: {},
    startedAt: expect.stringMatching(ISO),
    finishedAt: expect.stringMatching(ISO),
    polls: 3,
  });
  expect(await handle.query(jobStateQuery)).toEqual({
    phase: 'done',
    projectId: 'p 1',
    jobId: 'job-1',
    job: record({ status, prLink: PR }),
    followUps: [],
    usedFollowUpIds: [],
    promptHashes: {},
    unknown: null,
    waiting: null,
    decisions: [],
    outcome: status,
    tags: [],
    metadata: {},
    startedAt: result.startedAt,
    lastChangeAt: expect.stringMatching(ISO),
    polls: 3,
  });
});

test('search attributes and memo tell the end, with one upsert per change', async () => {
  const { upstream, bench } = tests;
  upstream.show = (read) => (read < 3 ? { status: 'active' } : { status: 'completed', prLink: PR });
  upstream.createFaults.push(notDelivered('refused'));
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it' });
  const named = { title: 'p1: Fix it', inputHash: inputHash({ projectId: 'p1', prompt: 'Fix it' }) };
  await expect.poll(async () => (await handle.describe()).memo).toEqual(named);
  await handle.result();
  const { typedSearchAttributes, memo } = await handle.describe();
  const shown = Object.values(SEARCH_ATTRIBUTE).map((name) =>
    typedSearchAttributes.get(
      defineSearchAttributeKey(name, attributeType(name) === 'KeywordList' ? 'KEYWORD_LIST' : 'KEYWORD'),
    ),
  );
  expect(shown).toEqual(['p1', 'done', 'completed', PR, undefined, undefined, undefined, 'completed', 'job-2']);
  expect(memo).toEqual({ ...named, jobId: 'job-2', prLink: PR });
  const { events } = await handle.fetchHistory();
  expect(events!.filter((e) => e.upsertWorkflowSearchAttributesEventAttributes)).toHaveLength(4);
});

test('a pull request address over 255 characters is kept in the memo, not in the search attributes', async () => {
  const { upstream, bench } = tests;
  const prLink = `https://github.example/${'x'.repeat(300)}`;
  upstream.show = () => ({ status: 'completed', prLink });
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it' });
  await handle.result();
  const { typedSearchAttributes, memo } = await handle.describe();
  expect(typedSearchAttributes.get(defineSearchAttributeKey(SEARCH_ATTRIBUTE.prLink, 'KEYWORD'))).toBeUndefined();
  expect(memo?.prLink).toBe(prLink);
});

test('a create that is answered 429 waits as long as it is told, else ever longer, up to 20 minutes', async () => {
  const { upstream, bench } = tests;
  const told = [30_000, 0, 5 * 3_600_000];
  upstream.createFaults.push(
    ...told.map((ms) => throttled('429', ms)),
    ...Array.from({ length: 9 }, () => throttled('429')),
  );
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it' });
  expect(await handle.result()).toMatchObject({ outcome: 'completed', jobId: 'job-13' });
  const waits = gaps(upstream.createTimes);
  // One that is shorter than a second counts as a second, which is doubled as the second in a row.
  for (const [i, ms] of [30_000, 2_000, 3_600_000].entries()) {
    expect(waits[i]).toBeGreaterThanOrEqual(ms - 1);
    expect(waits[i]).toBeLessThan(ms + SPREAD_MS + LATE_MS);
  }
  const untold = waits.slice(3);
  expect(untold.every((wait) => wait >= 29_999 && wait < 1_200_000 + SPREAD_MS + LATE_MS)).toBe(true);
  // The first follows on what it was told; from then on the queue probes.
  const probes = untold.slice(1);
  expect(probes.every((wait, i) => wait >= (probes[i - 1] ?? 0) - SPREAD_MS - LATE_MS)).toBe(true);
  expect(probes.at(-1)).toBeGreaterThanOrEqual(1_199_999);
});

test('a create that surely never left is sent again, ever more slowly, at most 5 minutes apart', async () => {
  const { upstream, bench } = tests;
  upstream.createFaults.push(...Array.from({ length: 12 }, () => notDelivered('connection refused')));
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', onUnknownOutcome: 'fail' });
  expect(await handle.result()).toMatchObject({ outcome: 'completed' });
  const waits = gaps(upstream.createTimes);
  expect(waits.every((wait, i) => wait >= (waits[i - 1] ?? 0) - LATE_MS && wait < 300_000 + LATE_MS)).toBe(true);
  expect(waits.at(-1)).toBeGreaterThanOrEqual(299_999);
  expect(upstream.created).toHaveLength(13);
});

test('waits follow the job: a tenth of the time since the last change, between the bounds', async () => {
  const { upstream, bench } = tests;
  upstream.show = (read) => ({ status: read < 60 ? 'active' : 'completed' });
  const handle = await bench.start({
    projectId: 'p1',
    prompt: 'Fix it',
    polling: { min: '2 seconds', max: 60_000, ratio: 0.1 },
  });
  await handle.result();
  const changedAt = upstream.createTimes[0]!;
  // This server tells a retry the time at which the attempt before it ended.
  const times = upstream.readTimes.slice(1);
  for (const [i, wait] of gaps(times).entries()) {
    const planned = Math.min(60_000, Math.max(2_000, 0.1 * (times[i]! - changedAt)));
    expect(wait).toBeGreaterThan(planned * 0.75 - 200);
    expect(wait).toBeLessThan(Math.min(60_000, planned * 1.25) + LATE_MS);
  }
});
