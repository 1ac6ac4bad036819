import { expect, test } from 'vitest';
import { NEW_SCAN } from '../../src/exports/scan-checkpoint.js';
import { Scan } from '../../src/exports/snapshots/scan.js';
import { pathHash } from '../../src/exports/snapshots/content-digest.js';

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
  const [one, two] = [new Scan(NEW_SCAN, new Set()), new Scan(NEW_SCAN, new Set())].map((scan) => scan.checkpoint());
  expect(one!.pathKey).toMatch(/^[0-9a-f]{32}$/);
  expect(two!.pathKey).not.toBe(one!.pathKey);
  const later = { ...one!, chunks: 1 };
  expect(new Scan(later, new Set()).checkpoint().pathKey).toBe(one!.pathKey);
});
