import { afterAll, beforeAll, expect, test } from 'vitest';
import { shared } from '../support/shared.js';
import { runChaos } from './chaos-run.js';
import { everyFault } from './faults.js';
import { formatViolations } from './report.js';
import { startFileTemporal, type KillableTemporal } from './temporal-server.js';
import { newFolder } from '../support/folder.js';

/** A seed that kills the first two workers as the answer to a write comes, which a lost mark would double. */
const SEED = 20_392_974;

const folder = newFolder();
let temporal: KillableTemporal;

beforeAll(async () => {
  const { path } = await shared('dev-server-program');
  temporal = await startFileTemporal(path, folder);
});

afterAll(async () => {
  await temporal?.close();
});

test('no job is made twice and no follow-up lost while workers, Temporal and the upstream are killed', async () => {
  const report = await runChaos(temporal, {
    seed: SEED,
    loadMs: 8_000,
    maxJobs: 36,
    concurrency: 30,
    workers: 2,
    faults: everyFault(SEED, 1),
    disturbEveryMs: 2_000,
    workerFaultWithin: 6,
    suspends: false,
    upstreamTimeout: '2 seconds',
    calmMs: 200_000,
    say: () => {},
  });
  expect(formatViolations(report)).toBe('');
  expect(report).toMatchObject({ doubled: 0, lost: 0 });
  expect(report.jobs).toBeGreaterThan(20);
  // Eight seconds hold few faults of whole processes, and how many depends on the machine.
  expect([...report.faults.keys()].filter((name) => /killed|frozen|^worker: /.test(name))).not.toEqual([]);
}, 420_000);
