import { readPages } from '../../src/activities/visitor-export/read-pages.js';
import type { SnapshotReceipt, VisitorExportRange } from '../../src/contract.js';
import { isProvisional } from '../../src/exports/date-range.js';
import {
  NEW_SCAN,
  type ScanCheckpoint,
  SECOND_SCAN_DELAY_MS,
  type SuspectScan,
  inconsistencyOf,
} from '../../src/exports/scan-checkpoint.js';
import { throttledWaitMs } from '../../src/agent-job/waits.js';
import { cleanUpStaging, stageChunk, stagedPaths } from '../../src/exports/snapshots/staging.js';
import { Scan } from '../../src/exports/snapshots/scan.js';
import { finishPublication, publishScan } from '../../src/exports/snapshots/publish.js';
import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';
import type { Upstream } from '../../src/upstream/upstream.js';
import type { SimulatedTime } from './upstream.js';

/** The worker's process ended here; another one goes on from the last checkpoint. */
export class WorkerKilled extends Error {}

/** The whole run was ended from outside: no run goes on. */
export class RunEnded extends Error {}

export interface ExportRun {
  range: VisitorExportRange;
  /** Names the run's staging. */
  runId: string;
  store: SnapshotStore;
  upstream: Pick<Upstream, 'getVisitors'>;
  time: SimulatedTime;
}

/** As in the workflow: two repeats a run. */
const REPEATS = 2;
const REQUESTS_PER_CHUNK = 3;
const RESTART_MS = 20_000;
const NEVER = new AbortController().signal;

/**
 * One run of a date range's writer, as the workflow drives it: the product's own scans, staging and publication, on
 * simulated time.
 */
export async function runExport({ range, runId, store, upstream, time }: ExportRun): Promise<SnapshotReceipt> {
  await untilDone(time, async () => {
    await finishPublication(store, range);
    await cleanUpStaging(store, range);
  });
  let before: ScanCheckpoint | null = null;
  let suspect: SuspectScan | null = null;
  for (let [scan, repeatsLeft] = [1, REPEATS]; ; scan++) {
    const startedAt = time.now;
    const exportedAt = new Date(startedAt).toISOString();
    const willRepeat = repeatsLeft > 0;
    const checkpoint = await readScan({ range, runId, store, upstream, time }, scan, willRepeat);
    if (checkpoint.inconsistency && willRepeat) {
      before = checkpoint;
      repeatsLeft -= 1;
      continue;
    }
    const finished = {
      range,
      runId,
      scan,
      checkpoint,
      inconsistency: inconsistencyOf(checkpoint, before),
      exportedAt,
      suspect,
    };
    const receipt = await untilDone(time, () => publishScan(store, finished));
    const isSuspect = receipt.drift?.kind === 'shrunk' || receipt.drift?.kind === 'impossible';
    if (!isSuspect || suspect || isProvisional(startedAt, range.dateTo)) return receipt;
    suspect = { rows: checkpoint.rows, exportedAt };
    before = null;
    time.now += SECOND_SCAN_DELAY_MS;
  }
}

async function readScan(
  { range, runId, store, upstream, time }: ExportRun,
  scan: number,
  willRepeat: boolean,
): Promise<ScanCheckpoint> {
  let checkpoint: ScanCheckpoint = NEW_SCAN;
  for (let failures = 0; checkpoint.stage !== 'ended';) {
    const { next, isBusy } = await untilDone(time, async () => {
      const staged = { range, runId, scan };
      const reading = new Scan(checkpoint, await stagedPaths(store, staged, checkpoint));
      const limits = { requests: REQUESTS_PER_CHUNK, duration: 60_000, willRepeat };
      const signals = { stop: NEVER, cancel: NEVER };
      const { rows, interruption } = await readPages(upstream, range, reading, { ...limits, ...signals });
      const written = await stageChunk(store, staged, checkpoint, rows);
      return { next: { ...reading.checkpoint(), ...written }, isBusy: interruption !== null };
    });
    checkpoint = next;
    failures = isBusy ? failures + 1 : 0;
    if (isBusy) time.now += throttledWaitMs(failures, undefined);
  }
  return checkpoint;
}

/** As Temporal does: an activity whose worker died is tried again. */
async function untilDone<T>(time: SimulatedTime, work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof WorkerKilled)) throw error;
      time.now += RESTART_MS;
    }
  }
}
