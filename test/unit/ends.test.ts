import { describe, expect, test } from 'vitest';
import {
  candidateAfter,
  endCounts,
  isEndless,
  standingOf,
  unrestAfter,
  workSigns,
  workSignsAfter,
  type EndCandidate,
  type EndRules,
  type SeenEnd,
  type Unrest,
} from '../../src/agent-job/ends.js';

const SETTLE = 30_000;
const A = 'https://github.example/a/b/pull/1';
const B = 'https://github.example/a/b/pull/2';

/** What a poll may show, by a short word. */
const SEEN = {
  active: { end: null, prLink: null },
  activeA: { end: null, prLink: A },
  bare: { end: 'completed', prLink: null },
  A: { end: 'completed', prLink: A },
  B: { end: 'completed', prLink: B },
  failed: { end: 'failed', prLink: null },
  archived: { end: 'archived', prLink: null },
} as const satisfies Record<string, SeenEnd>;
type Word = keyof typeof SEEN;

/** An end that a poll first showed at 0. */
function candidate(word: 'bare' | 'A' | 'B' | 'failed', hasStood = false): EndCandidate {
  return { ...SEEN[word], since: 0, hasStood };
}

describe('an end counts', () => {
  const rules: EndRules = { candidate: null, settleMs: SETTLE, followUpsTaken: 0, brokenAt: null };
  const after = { followUpsTaken: 1 };

  test.for<[counts: boolean, when: string, word: Word, begunAt: number, rules?: Partial<EndRules>]>([
    [false, 'never: a status that ends nothing', 'active', 99_000, { candidate: candidate('bare', true) }],
    [false, 'not yet: a status without an end took one back', 'active', SETTLE - 1, { brokenAt: 0 }],
    [true, 'as a job that goes on: that status has stood', 'active', SETTLE, { brokenAt: 0 }],
    [true, 'at once: `completed` with a link', 'A', 0],
    [true, 'at once: `failed`', 'failed', 0],
    [true, 'at once: `archived`', 'archived', 0],
    [false, 'not at once: `completed` without a link', 'bare', 0],
    [false, 'not before it has stood', 'bare', SETTLE - 1, { candidate: candidate('bare') }],
    [true, 'once it has stood', 'bare', SETTLE, { candidate: candidate('bare') }],
    [false, 'not if another end has stood', 'bare', SETTLE, { candidate: candidate('failed') }],
    [true, 'at once: a link that comes after an end without one', 'A', 1_000, { candidate: candidate('bare') }],
    [true, 'at once with `settle: 0`', 'bare', 0, { settleMs: 0 }],
    [false, 'not at once after a follow-up, with a link', 'A', 0, after],
    [false, 'not at once after a follow-up, as `failed`', 'failed', 0, after],
    [false, 'not at once after a follow-up, as `archived`', 'archived', 0, after],
    [true, 'after a follow-up once it has stood', 'A', SETTLE, { ...after, candidate: candidate('A') }],
    [false, 'after a follow-up not with another link', 'B', SETTLE, { ...after, candidate: candidate('A') }],
    [true, 'at once after a follow-up with `settle: 0`', 'A', 0, { ...after, settleMs: 0 }],
  ])('%s: %s', ([counts, , word, begunAt, more]) => {
    expect(endCounts(SEEN[word], begunAt, { ...rules, ...more })).toBe(counts);
  });
});

test.for<[what: string, before: EndCandidate | null, word: Word, counts: boolean, after: EndCandidate | null]>([
  ['the first end begins at its read', null, 'bare', false, { ...SEEN.bare, since: 9, hasStood: false }],
  ['an end that counts at once has stood', null, 'A', true, { ...SEEN.A, since: 9, hasStood: true }],
  ['the same end keeps its begin', candidate('bare'), 'bare', false, candidate('bare')],
  ['the same end has stood once it counts', candidate('bare'), 'bare', true, candidate('bare', true)],
  ['an end that has stood stays so', candidate('bare', true), 'bare', false, candidate('bare', true)],
  ['another status begins anew', candidate('bare'), 'failed', false, { ...SEEN.failed, since: 9, hasStood: false }],
  ['another link begins anew', candidate('A'), 'B', false, { ...SEEN.B, since: 9, hasStood: false }],
  ['a status without an end takes it back', candidate('A', true), 'active', false, null],
])('of candidates, %s', ([, before, word, counts, after]) => {
  expect(candidateAfter(before, SEEN[word], { counts, now: 9 })).toEqual(after);
});

test.for<[candidate: EndCandidate | null, now: number, standing: object | undefined]>([
  [null, 9, undefined],
  [candidate('bare', true), 9, undefined],
  [candidate('bare'), 0, { forMs: 0, leftMs: SETTLE }],
  [candidate('bare'), 10_000, { forMs: 10_000, leftMs: 20_000 }],
  [candidate('bare'), SETTLE + 1, { forMs: SETTLE + 1, leftMs: 0 }],
  [candidate('bare'), -5_000, { forMs: 0, leftMs: SETTLE }],
])('%j must still stand at %i ms: %j', ([one, now, standing]) => {
  expect(standingOf({ candidate: one, settleMs: SETTLE }, now)).toEqual(standing);
});

/** One poll a second; none of the ends counts. */
function reads(words: readonly Word[], everyMs = 1_000) {
  let [unrest, before, now]: [Unrest | null, EndCandidate | null, number] = [null, null, 0];
  for (const word of words) {
    const goesOn = SEEN[word].end === null && unrest?.brokenAt != null && now >= unrest.brokenAt + SETTLE;
    before = candidateAfter(before, SEEN[word], { counts: goesOn, now });
    unrest = unrestAfter(unrest, SEEN[word], before, { counts: goesOn, now });
    now += everyMs;
  }
  return unrest && { since: unrest.since, changes: unrest.changes, end: unrest.last, brokenAt: unrest.brokenAt };
}

const times = (count: number, ...words: Word[]) => Array.from({ length: count }, () => words).flat();

test.for<[what: string, words: Word[], unrest: object]>([
  ['no end was read', ['active', 'active'], { since: null }],
  ['one end stays', ['active', 'bare', 'bare'], { since: 1_000, changes: 0, end: candidateAt('bare', 1_000) }],
  ['an end is taken back', ['bare', 'active'], { since: 0, changes: 1, brokenAt: 1_000, end: candidateAt('bare', 0) }],
  [
    'an end that was taken back counts as one change',
    ['bare', 'active', 'active', 'bare'],
    { changes: 1, brokenAt: null, end: candidateAt('bare', 3_000) },
  ],
  ['a link changes with each read', ['A', 'B', 'A'], { since: 0, changes: 2, end: candidateAt('A', 2_000) }],
  ['the job goes on for `settle`', ['bare', ...times(32, 'active')], { since: null }],
  [
    'an end comes after the job went on for `settle`',
    ['bare', ...times(31, 'active'), 'A'],
    { since: 32_000, changes: 0, end: candidateAt('A', 32_000) },
  ],
])('unrest: %s', ([, words, unrest]) => {
  expect(reads(words) ?? { since: null }).toMatchObject(unrest);
});

function candidateAt(word: Word, since: number): object {
  return { ...SEEN[word], since, hasStood: false };
}

test.for<[changes: number, afterMs: number, isEndless: boolean]>([
  [0, 99 * SETTLE, false],
  [1, 99 * SETTLE, false],
  [2, 10 * SETTLE - 1, false],
  [2, 10 * SETTLE, true],
])('an upstream that took %i ends back in %i ms will go on so for ever: %s', ([changes, afterMs, answer]) => {
  const unrest = { since: 1_000, changes, last: candidate('bare'), brokenAt: null };
  expect(isEndless(unrest, SETTLE, 1_000 + afterMs)).toBe(answer);
});

test.for<[what: string, before: Word | null, reads: Word[], sawWork: boolean | null]>([
  ['cannot be known after a status without an end', 'active', ['A', 'B'], null],
  ['none while nothing changes', 'A', ['A', 'A'], false],
  ['a status without an end', 'A', ['A', 'active', 'A'], true],
  ['an end other than the one before', 'A', ['B', 'B'], true],
  ['an end other than the first one after', null, ['A', 'A', 'B'], true],
  ['none if nothing was read before and one end after', null, ['A', 'A'], false],
  ['none before the first read', 'A', [], false],
])('a sign of work: %s', ([, before, words, sawWork]) => {
  let signs = workSigns(before && SEEN[before]);
  for (const word of words) signs = signs && workSignsAfter(signs, SEEN[word]);
  expect(signs && signs.sawWork).toBe(sawWork);
});
