import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runClientWrites } from './client-writes.js';
import { faultsSpreadOverMoments } from './faults.js';
import { addPiece, nextSeed, readPieces, sumOfPieces } from './pieces.js';

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-test-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test('pieces of a run of client writes add up, each under a seed of its own', async () => {
  const file = join(folder, 'pieces.jsonl');
  expect(nextSeed(readPieces(file), 7)).toBe(7);
  for (const seed of [7, 8]) {
    const faults = faultsSpreadOverMoments(seed, 20);
    const options = { writes: 60, writesPerJob: 5, concurrency: 10, faults, loadMs: 60_000, say: () => {} };
    addPiece(file, { ...(await runClientWrites(options)), seed });
  }
  const pieces = readPieces(file);
  const [first, second] = pieces.map(({ writes, inDoubt, injectedFaults, repeated }) => ({
    writes,
    inDoubt,
    injectedFaults,
    repeated,
  }));
  const sum = sumOfPieces(pieces);
  expect(sum).toMatchObject({ writes: first!.writes + second!.writes, doubled: [], lost: [] });
  expect(sum.writes).toBeGreaterThanOrEqual(120);
  for (const kind of ['inDoubt', 'injectedFaults', 'repeated'] as const) {
    const count = (counts: ReadonlyMap<string, number>) => [...counts.values()].reduce((a, b) => a + b, 0);
    expect(count(sum[kind])).toBe(count(first![kind]) + count(second![kind]));
  }
  expect(nextSeed(pieces, undefined)).toBe(9);
  expect(() => nextSeed(pieces, 8)).toThrow('already');
}, 120_000);
