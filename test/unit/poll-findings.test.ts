import { expect, test } from 'vitest';
import type { Reading } from '../../src/activities/agent-job/poll-attempt.js';
import type { JobRecord } from '../../src/contract.js';
import { firstPollData, PollFindings } from '../../src/workflows/agent-job/poll-findings.js';
import { whyEnded } from '../../src/workflows/agent-job/poll-texts.js';
import { shown } from '../support/scripted-upstream.js';

const A = 'https://github.example/a/b/pull/1';
const B = 'https://github.example/a/b/pull/2';

/** What a run knows after readings, each a second after the one before. */
function findings(minMs = 1) {
  let now = 0;
  const polls = new PollFindings(
    firstPollData(0),
    { polling: { minMs, maxMs: minMs, ratio: 0 }, settleMs: 30_000 },
    () => now,
  );
  const asked = (followUpsTaken: number) => ({ followUpsTaken }) as Parameters<PollFindings['observe']>[1];
  return {
    polls,
    read(reading: Reading, { waitMs = 1_000, followUpsTaken = polls.known.followUpsTaken } = {}) {
      now += waitMs;
      polls.observe({ reading, reads: 1, failures: 0, isAtDeadline: false }, asked(followUpsTaken));
    },
  };
}

const showing = (fields: Partial<JobRecord>, counts = false, prLinks?: string[]): Reading => ({
  ...{ kind: 'record', counts, ...shown(fields) },
  ...(prLinks && { prLinks }),
});
const gone = (count: number, page?: string): Reading => ({ kind: 'notFound', count, ...(page && { page }) });

test('an upstream that goes on changing is believed its last end, until an end counts by itself', () => {
  const { polls, read } = findings();
  for (let i = 0; i < 7; i++) {
    read(showing({ status: 'completed' }), { waitMs: 25_000 });
    read(showing({ status: 'active' }), { waitMs: 25_000 });
  }
  expect(polls).toMatchObject({ hasEnded: true, lastEnd: 'completed', known: { candidate: null } });
  read(showing({ status: 'failed' }, true));
  expect(polls).toMatchObject({ hasEnded: true, lastEnd: 'failed' });
  expect(whyEnded(polls, 0)).toBeNull();
});

test('answers 404 and pages in place of answers are counted apart, each from its own begin', () => {
  const { polls, read } = findings();
  read(gone(1));
  read(gone(2));
  expect(polls.known.notFound).toEqual({ count: 2, since: 1_000 });
  read(gone(1, 'a page'));
  read(gone(5, 'a page'), { waitMs: 60_000 });
  expect(polls.known).toMatchObject({ notFound: { count: 5, since: 3_000, page: 'a page' }, isGone: false });
  read(gone(6, 'a page'), { waitMs: 3_600_000 });
  expect(polls.known.isGone).toBe(true);
  expect(polls.forBatch.notFound).toMatchObject({ isLost: true });
  read(gone(5));
  expect(polls.known).toMatchObject({ notFound: { count: 5, since: 3_664_000 }, isGone: false });
  read(gone(6), { waitMs: 60_000 });
  expect(polls.known.isGone).toBe(true);
});

test('a link that was seen is kept: the last one, and the last 20 of all', () => {
  const { polls, read } = findings();
  read(showing({ prLink: B }, false, [A, B]));
  read(showing({ prLink: null }));
  expect(polls.known).toMatchObject({ prLink: B, prLinks: [A, B], job: { prLink: null } });
  read(showing({ prLink: A }));
  expect(polls.known).toMatchObject({ prLink: A, prLinks: [A, B] });
  for (let i = 1; i <= 25; i++) read(showing({ prLink: `${A}${i}` }));
  expect(polls.known.prLinks).toEqual(Array.from({ length: 20 }, (_, i) => `${A}${i + 6}`));
});

test('an end in a batch that began before a follow-up was accepted is shown, and ends nothing', () => {
  const { polls, read } = findings();
  read(showing({ status: 'completed', prLink: A }, true));
  expect(polls.hasEnded).toBe(true);
  polls.followUpTaken(null, {});
  read(showing({ status: 'completed', prLink: B }, true), { followUpsTaken: 0 });
  expect(polls.known).toMatchObject({ prLink: B, candidate: null, work: { first: null, sawWork: false } });
  read(showing({ status: 'completed', prLink: B }));
  expect(polls.known).toMatchObject({ candidate: { prLink: B, hasStood: false }, work: { sawWork: true } });
});

test('no read can tell whose work it shows if a follow-up comes right after the create, whatever that showed', () => {
  for (const job of [null, shown({ status: 'active' }).job]) {
    const { polls, read } = findings();
    polls.jobKnown(job, { end: null });
    polls.followUpTaken(null, {});
    read(showing({ status: 'active' }));
    expect(polls.known.work).toBeNull();
  }
});

test('the record in the answer to a message is shown, and is no read', () => {
  const { polls, read } = findings();
  read(showing({ status: 'completed', prLink: A }, true));
  polls.followUpTaken(shown({ status: 'active' }).job, {});
  expect(polls.known).toMatchObject({ job: { status: 'active' }, work: { sawWork: false } });
  expect(polls.forBatch).toMatchObject({ known: null, candidate: null, followUpsTaken: 1 });
  read(showing({ status: 'completed', prLink: A }));
  expect(polls.known).toMatchObject({ work: { sawWork: false } });
});

test('a link that is shown again stays in the list of the last 20', () => {
  const { polls, read } = findings();
  for (let i = 1; i <= 20; i++) read(showing({ prLink: `${A}${i}` }));
  read(showing({ prLink: `${A}1` }, false, [B, `${A}1`]));
  expect(polls.known.prLink).toBe(`${A}1`);
  expect(polls.known.prLinks).toHaveLength(20);
  expect(polls.known.prLinks).toEqual(expect.arrayContaining([`${A}1`, B]));
});

test('an upstream that changes with each of rare reads is believed its last end, too', () => {
  const { polls, read } = findings(60_000);
  for (let i = 0; i < 5; i++) {
    for (const status of ['completed', 'active']) read(showing({ status }), { waitMs: 60_000 });
  }
  expect(polls).toMatchObject({ hasEnded: true, lastEnd: 'completed' });
});

test('an end that is read long after the last one was taken back must stand like a first one', () => {
  const { polls, read } = findings();
  const [active, completed] = [showing({ status: 'active' }), showing({ status: 'completed' })];
  for (const reading of [completed, active, completed, active]) read(reading);
  // The upstream failed for an hour: the job may have gone on all the time.
  read(completed, { waitMs: 3_600_000 });
  expect(polls.hasEnded).toBe(false);
  expect(polls.standing).toEqual({ forMs: 0, leftMs: 30_000 });
});
