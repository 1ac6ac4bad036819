/** Which writes a worker holds: the rules one by one. held-writes.test.ts has thousands of writes. */
import { beforeEach, describe, expect, test } from 'vitest';
import { KeyHealth } from '../../src/activities/agent-job/key-health.js';
import type { WriteOperation } from '../../src/activities/metrics.js';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import { inDoubt, notDelivered, rejected, throttled, unauthorized } from '../support/outcomes.js';

const MINUTE = 60_000;
const accepted: WriteOutcome = { kind: 'accepted', jobId: 'j', job: null };
const refused = unauthorized('upstream answered 401');
const forbidden: WriteOutcome = { kind: 'unauthorized', reason: 'upstream answered 403', isForbidden: true };
const page: WriteOutcome = { kind: 'blocked', reason: 'a page instead of an answer: 403 Just a moment…' };

let now: number;
let version: string | null;
let health: KeyHealth;
let changes: string[];

beforeEach(() => {
  now = 0;
  version = 'old';
  changes = [];
  health = new KeyHealth({
    upstream: { keyVersion: () => Promise.resolve(version) },
    onChange: ({ operation, projectId }, held) =>
      void changes.push(`${operation} ${projectId}: ${held?.reason ?? 'go'}`),
    now: () => now,
  });
});

const write = (workflowId: string, operation: WriteOperation = 'create', projectId = 'p') => ({
  ...{ operation, projectId, workflowId },
});
const ended = (workflowId: string, outcome: WriteOutcome) => health.ended(write(workflowId), outcome);
/** Whether it is let go. */
const leaves = async (workflowId: string) => (await health.heldNow(write(workflowId))) === null;
const isLet = async (workflowId: string) => (await health.ask(write(workflowId))) === null;
const after = (minutes: number) => void (now = minutes * MINUTE);

test.each([
  [refused, ['p']],
  [page, []],
])('%j holds the writes of its project and operation until one is accepted', async (outcome, refusedProjects) => {
  expect(await ended('a', outcome)).toEqual(outcome);
  const { kind, reason } = outcome as { kind: string; reason: string };
  expect(await health.heldNow(write('b'))).toEqual({ kind, reason });
  expect(await health.ask(write('b'))).toEqual({ kind, reason, askAgainMs: 5_000 });
  expect(await health.heldNow(write('b', 'message'))).toBeNull();
  expect(await health.heldNow(write('b', 'create', 'q'))).toBeNull();
  expect(health.refusedProjects).toEqual(refusedProjects);
  await ended('a', outcome);
  await ended('c', accepted);
  expect([await leaves('b'), await isLet('b'), health.refusedProjects]).toEqual([true, true, []]);
  expect(changes).toEqual([`create p: ${reason}`, 'create p: go']);
});

test.each([
  [accepted, true],
  [rejected(400, ''), true],
  [throttled('429'), false],
  [notDelivered('no connection'), false],
  [inDoubt('no answer'), false],
])('after %j others may leave: %s', async (outcome, mayLeave) => {
  await ended('a', refused);
  after(1);
  expect(await leaves('b')).toBe(true);
  await ended('b', outcome);
  expect(await leaves('c')).toBe(mayLeave);
});

test('one is let go a minute after the last refusal, and those that ask at the same moment are not', async () => {
  await ended('a', refused);
  after(0.99);
  expect([await leaves('b'), await isLet('b')]).toEqual([false, false]);
  after(1);
  expect(await Promise.all(['b', 'c', 'd'].map(isLet))).toEqual([true, false, false]);
  // The promise may be of use to another worker; here the first that comes leaves.
  expect(await Promise.all(['e', 'b', 'c'].map(leaves))).toEqual([true, false, false]);
  after(1.5);
  await ended('e', refused);
  after(2.49);
  expect([await isLet('c'), await leaves('c')]).toEqual([false, false]);
  after(2.5);
  expect([await isLet('c'), await leaves('c')]).toEqual([true, true]);
});

test('a write that was let go may come back, for its turn or in another attempt; others a minute later', async () => {
  await ended('a', refused);
  after(1);
  expect(await leaves('b')).toBe(true);
  after(1.9);
  expect(await leaves('b')).toBe(true);
  after(2);
  expect(await leaves('c')).toBe(true);
  expect(await leaves('b')).toBe(false);
});

describe('the write that was refused last', () => {
  test('comes after another that waits, until that one asks no more', async () => {
    await ended('a', refused);
    after(0.5);
    await isLet('b');
    after(1);
    expect([await isLet('a'), await leaves('a')]).toEqual([false, false]);
    // It should have asked five seconds later, and has a minute to.
    now = 1.5 * MINUTE + 4_999;
    expect(await leaves('a')).toBe(false);
    now += 1;
    expect(await leaves('a')).toBe(true);
  });

  test('comes after another with another key, too', async () => {
    await ended('a', refused);
    await isLet('b');
    version = 'new';
    expect([await leaves('a'), await leaves('b')]).toEqual([false, true]);
  });

  test('tries each minute if it is alone', async () => {
    for (const minute of [0, 1, 2]) {
      after(minute);
      expect([await isLet('a'), await leaves('a')]).toEqual([true, true]);
      await ended('a', refused);
      expect([await isLet('a'), await leaves('a')]).toEqual([false, false]);
    }
  });
});

describe('another key', () => {
  test('is tried at once, and once', async () => {
    await ended('a', refused);
    version = 'new';
    expect(await Promise.all(['b', 'c'].map(isLet))).toEqual([true, false]);
    expect(await Promise.all(['c', 'b'].map(leaves))).toEqual([true, false]);
    await ended('c', refused);
    expect([await isLet('b'), await leaves('b')]).toEqual([false, false]);
  });

  test('says nothing of a page', async () => {
    await ended('a', page);
    version = 'new';
    expect([await isLet('b'), await leaves('b')]).toEqual([false, false]);
    version = null;
    after(1);
    expect([await isLet('b'), await leaves('b')]).toEqual([true, true]);
  });

  test('ends the wait for one that is missing, which no minute does', async () => {
    await ended('a', refused);
    version = null;
    // This one learns that it is missing.
    expect(await leaves('b')).toBe(true);
    await ended('b', unauthorized('ADMIN_API_KEY is not set'));
    after(60);
    expect([await isLet('c'), await leaves('c')]).toEqual([false, false]);
    expect(await health.heldNow(write('c'))).toMatchObject({ reason: 'ADMIN_API_KEY is not set' });
    version = 'new';
    expect([await isLet('c'), await leaves('c')]).toEqual([true, true]);
  });
});

describe.each([
  ['a 403', forbidden],
  ['a page', page],
])('%s within a minute of an accepted write of the project', (_, outcome) => {
  test('holds its write alone', async () => {
    await health.ended(write('a', 'message'), accepted);
    after(0.99);
    expect(await ended('b', outcome)).toEqual({ ...outcome, isAlone: true });
    expect(await leaves('c')).toBe(true);
    after(1);
    expect(await ended('b', outcome)).toEqual(outcome);
    expect(await leaves('c')).toBe(false);
  });

  test('holds all that an earlier one held', async () => {
    await ended('a', outcome);
    after(1);
    await health.ended(write('b', 'message'), accepted);
    await leaves('c');
    expect(await ended('c', outcome)).toEqual(outcome);
    expect(await leaves('d')).toBe(false);
  });
});

test('a 401 holds all, whatever was accepted before', async () => {
  await ended('a', accepted);
  expect(await ended('b', refused)).toEqual(refused);
  expect(await leaves('c')).toBe(false);
});

test('a page after a refused key, and a refused key after a page, change what the others wait for', async () => {
  for (const outcome of [refused, page, refused]) {
    await ended('a', outcome);
    expect(await health.heldNow(write('b'))).toEqual(outcome);
  }
  expect(changes).toHaveLength(3);
});

test('of thousands that wait, so many ask in a second', async () => {
  const slow = new KeyHealth({
    upstream: { keyVersion: () => Promise.resolve('key') },
    now: () => 0,
    asksPerSecond: 2,
  });
  for (const [keys, last] of [
    [health, 5_000 + 99 * 50],
    [slow, 5_000 + 99 * 500],
  ] as const) {
    await keys.ended(write('a'), refused);
    const waits = await Promise.all(Array.from({ length: 100 }, (_, i) => keys.ask(write(`w${i}`))));
    expect(waits.map((wait) => wait?.askAgainMs)).toEqual(
      Array.from({ length: 100 }, (_, i) => 5_000 + (i * (last - 5_000)) / 99),
    );
  }
});

test('a worker remembers at most 10,000 kinds of writes', async () => {
  for (let i = 0; i <= 10_000; i++) await health.ended(write('a', 'create', `p${i}`), refused);
  expect(health.refusedProjects).toHaveLength(10_000);
  expect(await health.heldNow(write('b', 'create', 'p0'))).toBeNull();
  expect(await health.heldNow(write('b', 'create', 'p1'))).not.toBeNull();
});
