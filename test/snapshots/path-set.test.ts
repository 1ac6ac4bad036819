import { expect, test } from 'vitest';
import { pathHash } from '../../src/snapshots/content-digest.js';
import { PathSet } from '../../src/snapshots/path-set.js';

test('each of 300,000 paths is new once, however often the set grew in between', () => {
  const paths = new PathSet();
  let isRight = true;
  for (let i = 0; i < 300_000; i++) {
    isRight &&= paths.add(pathHash(`/page/${i}`));
    // One that was there before, from anywhere in the set.
    isRight &&= !paths.add(pathHash(`/page/${Math.imul(i, 7_919) % (i + 1)}`.replace('-', '')));
  }
  expect(isRight).toBe(true);
});

test('hashes at both ends of the range, and those that differ in one half alone, are told apart', () => {
  const most = 2 ** 32 - 1;
  const hashes = [0, 1, 2, most - 1, most].flatMap((high) => [1, 2, most].map((low) => ({ high, low })));
  const paths = new PathSet();
  expect(hashes.map((hash) => paths.add(hash))).toEqual(hashes.map(() => true));
  expect(hashes.map((hash) => paths.add(hash))).toEqual(hashes.map(() => false));
  // The mark of an empty slot stands in for nothing but itself.
  expect([paths.add({ high: 0, low: 0 })]).toEqual([false]);
  const other = new PathSet();
  expect([other.add({ high: 0, low: 0 }), other.add({ high: 0, low: 0 })]).toEqual([true, false]);
});
