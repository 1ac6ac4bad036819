import { defineSearchAttributeKey } from '@temporalio/common';
import { expect, test } from 'vitest';
import { attributeType, jobStateQuery, SEARCH_ATTRIBUTE } from '../../src/contract.js';
import { inputHash } from '../../src/agent-job/input.js';
import { keyOf } from '../../src/agent-job/start-options.js';
import { toSummary } from '../../src/client/agent-job/list.js';
import { notDelivered } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';
import { record } from '../support/observed-upstream.js';

const { upstream, bench } = useDevServer();
const PR = 'https://github.example/a/b/pull/1';
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

test('a job that the upstream shows as failed ends so, in the shape of the contract', async () => {
  const status = 'failed';
  upstream.show = (read) => (read < 3 ? { status: 'active' } : { status, prLink: PR });
  const handle = await bench.start({ projectId: 'p 1', prompt: 'Fix it' });
  const result = await handle.result();
  const told = {
    ...{ outcome: status, projectId: 'p 1', jobId: 'job-1', job: record({ status, prLink: PR }), polls: 3 },
    ...{ prLink: PR, prLinks: [PR], sawWork: null, followUps: [], usedFollowUpIds: [], promptHashes: {} },
    ...{ decisions: [], tags: [], metadata: {}, startedAt: expect.stringMatching(ISO) as string },
  };
  expect(result).toEqual({ ...told, finishedAt: expect.stringMatching(ISO) });
  expect(await handle.query(jobStateQuery)).toEqual({
    ...{ ...told, startedAt: result.startedAt, lastChangeAt: expect.stringMatching(ISO) },
    ...{ phase: 'done', unknown: null, waiting: null },
  });
});

test('search attributes and memo show the end, with one upsert per change', async () => {
  upstream.show = (read) => (read < 3 ? { status: 'active' } : { status: 'completed', prLink: PR });
  upstream.createFaults.push(notDelivered('refused'), notDelivered('refused'));
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
  expect(shown).toEqual(['p1', 'done', 'completed', PR, undefined, undefined, undefined, 'completed', 'job-3']);
  expect(memo).toEqual(named);
  const { events } = await handle.fetchHistory();
  expect(events!.filter((e) => e.upsertWorkflowSearchAttributesEventAttributes)).toHaveLength(4);
});

test('a pull request address over 255 characters is in the memo alone, and lists show it', async () => {
  const prLink = `https://github.example/${'x'.repeat(300)}`;
  upstream.show = () => ({ status: 'completed', prLink });
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it' });
  await handle.result();
  const run = await handle.describe();
  expect(run.typedSearchAttributes.get(keyOf('prLink'))).toBeUndefined();
  expect(run.memo?.prLink).toBe(prLink);
  expect(toSummary(run)).toMatchObject({ jobId: 'job-1', prLink });
});

test('a shorter address after a long one takes it out of the memo', async () => {
  const long = `https://github.example/${'x'.repeat(300)}`;
  upstream.show = (read) => (read < 3 ? { status: 'active', prLink: long } : { status: 'completed', prLink: PR });
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it' });
  expect(await handle.result()).toMatchObject({ prLink: PR, prLinks: [long, PR] });
  const run = await handle.describe();
  expect(run.memo).not.toHaveProperty('prLink');
  expect(toSummary(run).prLink).toBe(PR);
});
