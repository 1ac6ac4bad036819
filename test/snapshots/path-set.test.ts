import fc from 'fast-check';
import { expect, test } from 'vitest';
import { NEW_SCAN } from '../../src/visitor-export/scan-checkpoint.js';
import { ChunkEncoder } from '../../src/snapshots/chunk-encoder.js';
import { Scan } from '../../src/snapshots/scan.js';
import { pathHash } from '../../src/snapshots/content-digest.js';
import { PathSet } from '../../src/snapshots/path-set.js';

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

/** Paths whose unkeyed hashes begin with ones: what a visitor of the site could look for and request. */
function craftedPaths(count: number): string[] {
  const found: string[] = [];
  for (let i = 0; found.length < count; i++) {
    const path = `/x${i.toString(36)}`;
    if (pathHash('', path).high >= 0xfff0_0000) found.push(path);
  }
  return found;
}

test('thousands of hashes at the end of the range are told apart before and after the set grew', () => {
  const paths = new PathSet();
  const most = 2 ** 32 - 1;
  const crowd = Array.from({ length: 3_000 }, (_, i) => ({
    high: most - (i % 3),
    low: Math.imul(i, 0x9e3779b1) >>> 0,
  }));
  const others = Array.from({ length: 30_000 }, (_, i) => pathHash('key', String(i)));
  expect(crowd.every((hash) => paths.add(hash))).toBe(true);
  expect(others.every((hash) => paths.add(hash))).toBe(true);
  expect([...crowd, ...others].some((hash) => paths.add(hash))).toBe(false);
});

test('whatever hashes come in whatever order, the set tells new from known as a set of JavaScript does', () => {
  const half = fc.oneof(
    fc.constantFrom(0, 1, 2 ** 32 - 1, 2 ** 32 - 2, 2 ** 31),
    fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  );
  const near = fc.tuple(half, half, fc.integer({ min: 1, max: 600 }));
  const property = fc.property(fc.array(near, { maxLength: 40 }), (runs) => {
    const [paths, known] = [new PathSet(), new Set<string>()];
    for (const [high, low, length] of runs) {
      for (let i = 0; i < length; i++) {
        const hash = { high, low: (low + i) >>> 0 || 1 };
        const name = `${hash.high}|${hash.low}`;
        if (paths.add(hash) === known.has(name)) return false;
        known.add(name);
      }
    }
    return true;
  });
  expect(() => fc.assert(property, { numRuns: 100 })).not.toThrow();
});

test('page paths that somebody chose by their hashes are read like any others, and each is known again', () => {
  const chosen = craftedPaths(600).map((path) => ({ path, human: 1, ai: 0, total: 1 }));
  const scan = new Scan(NEW_SCAN, new PathSet());
  const kept = new ChunkEncoder();
  scan.take({ totals: { human: 9, ai: 0, total: 9 }, visitors: chosen, hasMore: true }, kept);
  expect([kept.length, scan.inconsistency]).toEqual([chosen.length, null]);
  scan.take({ totals: { human: 9, ai: 0, total: 9 }, visitors: chosen, hasMore: false }, kept);
  expect([kept.length, scan.inconsistency?.kind]).toEqual([chosen.length, 'overlap']);
});

test('paths chosen by their unkeyed hashes fall anywhere under a key', () => {
  const highs = craftedPaths(64).map((path) => pathHash('any key', path).high);
  expect(Math.min(...highs)).toBeLessThan(2 ** 31);
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
