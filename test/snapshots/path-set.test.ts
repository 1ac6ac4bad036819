import { expect, test } from 'vitest';
import { NEW_SCAN } from '../../src/exports/scan-checkpoint.js';
import { PathSet, Scan } from '../../src/exports/snapshots/scan.js';
import { pathHash } from '../../src/exports/snapshots/content-digest.js';

test('each of 300,000 paths is new once, however often the set grew in between', () => {
  const paths = new PathSet();
  let isRight = true;
  for (let i = 0; i < 300_000; i++) {
    isRight &&= paths.add(pathHash('key', `/page/${i}`));
    // One that was there before, from anywhere in the set.
    isRight &&= !paths.add(pathHash('key', `/page/${Math.imul(i, 7_919) % (i + 1)}`.replace('-', '')));
  }
  expect(isRight).toBe(true);
});

test('hashes at both ends of the range, and those that share a place, are distinguished', () => {
  const most = 2n ** 64n - 1n;
  const hashes = [1n, 2n, most - 1n, most, 1n << 20n, 1n << 21n, (1n << 63n) + 1n];
  const paths = new PathSet();
  expect(hashes.map((hash) => paths.add(hash))).toEqual(hashes.map(() => true));
  expect(hashes.map((hash) => paths.add(hash))).toEqual(hashes.map(() => false));
  // The mark of an empty slot is taken for the hash next to it.
  const other = new PathSet();
  expect([other.add(0n), other.add(0n)]).toEqual([true, false]);
});

/** Paths whose unkeyed hashes begin with ones: what a visitor of the site could look for and request. */
function craftedPaths(count: number): string[] {
  const found: string[] = [];
  for (let i = 0; found.length < count; i++) {
    const path = `/x${i.toString(36)}`;
    if (pathHash('', path) >> 52n === 0xfffn) found.push(path);
  }
  return found;
}

test('paths chosen by their unkeyed hashes fall anywhere under a key', () => {
  const hashes = craftedPaths(64).map((path) => pathHash('any key', path));
  expect(hashes.some((hash) => hash < 2n ** 63n)).toBe(true);
});

test('each scan has a key of its own, which lasts while its rows do', () => {
  const [one, two] = [new Scan(NEW_SCAN, new PathSet()), new Scan(NEW_SCAN, new PathSet())].map((scan) =>
    scan.checkpoint(),
  );
  expect(one!.pathKey).toMatch(/^[0-9a-f]{32}$/);
  expect(two!.pathKey).not.toBe(one!.pathKey);
  const later = { ...one!, chunks: 1 };
  expect(new Scan(later, new PathSet()).checkpoint().pathKey).toBe(one!.pathKey);
});
