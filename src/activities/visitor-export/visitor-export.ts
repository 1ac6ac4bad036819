/** The activities of `visitorExport`, on a task queue of their own. Rows go from the upstream to the store; the workflow sees counts and digests. */
import { ApplicationFailure, Context, heartbeat } from '@temporalio/activity';
import { FAILURE, type SnapshotReceipt, type VisitorExportRange } from '../../contract.js';
import type { ScanCheckpoint } from '../../visitor-export/scan-checkpoint.js';
import { ChunkEncoder } from '../../snapshots/chunk-encoder.js';
import { runFolder } from '../../snapshots/layout.js';
import { Scan } from '../../snapshots/scan.js';
import { expectedRows, finishPublication, publishScan, type FinishedScan } from '../../snapshots/publish.js';
import { SnapshotStoreError, type SnapshotStore } from '../../snapshots/snapshot-store.js';
import { removeExpired } from '../../snapshots/superseded.js';
import { cleanUpStaging } from '../../snapshots/staging.js';
import { StaleStagingError, stageChunk, type StagedScan } from '../../snapshots/staging.js';
import type { RejectedError } from '../../upstream/errors.js';
import type { Upstream } from '../../upstream/upstream.js';
import { PathSets } from './path-sets.js';
import { readPages, type Obstacle } from './read-pages.js';
import { startServerClock } from '../../temporal/server-clock.js';
import { retryingStore } from './store-retry.js';

export interface ExportActivitiesDependencies {
  upstream: Upstream;
  store: SnapshotStore;
  /** Ends chunks early; what was read is kept. */
  shutdownSignal: AbortSignal;
  /** Pace of each running export; none where undefined. */
  requestsPerHour?: number | undefined;
}

export interface ReadChunkInput extends StagedScan {
  checkpoint: ScanCheckpoint;
  /** Whether an inconsistent scan will be repeated, so that the rest of a long one need not be read. */
  willRepeat: boolean;
  /** Whether the last chunk got no page. */
  isUpstreamFailing: boolean;
  /** Whether the store just refused: it is tried before pages are asked for. */
  probeStore: boolean;
}

export interface ReadChunkResult {
  checkpoint: ScanCheckpoint;
  /** Pages taken, of the requests made. */
  pages: number;
  requests: number;
  obstacle: Obstacle | null;
  /** The wait that the pace asks for after these requests. */
  paceMs: number;
  requestsPerHour: number | null;
}

/** What chunks leave to the next ones: garbage of this size would be found late. */
interface ChunkMemory {
  pathSets: PathSets;
  /** Those that no chunk is using. */
  encoders: ChunkEncoder[];
}

export type ExportActivities = ReturnType<typeof createExportActivities>;

/** At full speed 100,000 rows are four chunks; a killed worker repeats one. */
const MOST_REQUESTS = 120;
const CHUNK_MS = 60_000;
/** A paced chunk is five minutes' worth of requests, so that waits are long and history short. */
const CHUNKS_PER_HOUR = 12;
const HOUR_MS = 3_600_000;
const HEARTBEAT_MS = 2_000;
const PROBE_BYTES = 1 << 20;

/** What the worker of the export task queue registers. */
export function createExportActivities(dependencies: ExportActivitiesDependencies) {
  const { store } = dependencies;
  const memory: ChunkMemory = { pathSets: new PathSets(), encoders: [] };
  return {
    /** Finishes what an earlier run of the date range left, sweeps its staging, and tells how many rows to expect. */
    prepareExport: ({ range }: { range: VisitorExportRange }): Promise<{ expectedRows: number | null }> =>
      reported(async () => {
        await finishPublication(store, range);
        await cleanUpStaging(store, range);
        // Tidiness fails no night.
        await removeExpired(store, startServerClock()(), range.projectId).catch(() => {});
        return { expectedRows: await expectedRows(store, range) };
      }),

    /** Reads the next pages of a scan into staging. */
    readChunk: (input: ReadChunkInput): Promise<ReadChunkResult> => readChunk(dependencies, memory, input),

    /** Publishes a finished scan where it says more than the kept snapshot. */
    publishSnapshot: (finished: FinishedScan): Promise<SnapshotReceipt> =>
      reported(async () => {
        const { cancellationSignal } = Context.current();
        const now = startServerClock();
        return beating(() => publishScan(store, finished, () => cancellationSignal.throwIfAborted(), now));
      }),

    /** Writes the project's report anew from its snapshots. Whatever goes wrong is tried again by Temporal: no run waits for a store to write a report. */
    writeReport: async ({ projectId }: { projectId: string }): Promise<string> => {
      const { writeReport } = await import('../../report/report.js'); // with its charts, for the few runs that need it
      return beating(() => writeReport(store, projectId, new Date().toISOString()));
    },

    /** Finishes a publication that the run left half-done, and removes the date range's work in progress; one that can't be finished stays for the date range's next run. */
    cleanUpExport: ({ range }: { range: VisitorExportRange }): Promise<void> =>
      reported(() =>
        beating(async () => {
          await finishPublication(store, range);
          await cleanUpStaging(store, range);
        }),
      ),
  };
}

async function readChunk(
  { upstream, store, shutdownSignal, requestsPerHour }: ExportActivitiesDependencies,
  { pathSets, encoders }: ChunkMemory,
  { checkpoint, willRepeat, isUpstreamFailing, probeStore, ...staged }: ReadChunkInput,
): Promise<ReadChunkResult> {
  const { range } = staged;
  const paced = new PacedUpstream(upstream, requestsPerHour);
  const reading = async () => {
    // A worker before this one may have died of the store, or waiting for it.
    if (probeStore || Context.current().info.attempt > 1) await probe(store, staged);
    const paths = await pathSets.take(store, staged, checkpoint);
    const scan = new Scan(checkpoint, paths);
    const kept = encoders.pop() ?? new ChunkEncoder();
    const { obstacle, rejection } = await readPages(
      paced,
      range,
      { scan, kept },
      {
        requests: requestsPerHour === undefined ? MOST_REQUESTS : pacedRequests(requestsPerHour),
        willRepeat,
        isQuickToRetry: !isUpstreamFailing,
        duration: CHUNK_MS,
        stop: shutdownSignal,
        cancel: Context.current().cancellationSignal,
      },
    );
    if (rejection) throw rejectedFailure(rejection, paced.nextRequestAt());
    if (shutdownSignal.aborted && scan.pages === checkpoint.pages && !obstacle) {
      // Nothing was learned of the upstream: another worker asks, and the workflow never hears of this one.
      throw ApplicationFailure.retryable('The worker stopped before a page came', 'WorkerStopped');
    }
    const written = await retryingStore(() => stageChunk(store, staged, checkpoint, kept));
    const next = { ...scan.checkpoint(), ...written };
    pathSets.keep(store, staged, next, paths);
    kept.clear();
    encoders.push(kept);
    const pages = next.pages - checkpoint.pages;
    const { requests, paceMs } = paced;
    return { checkpoint: next, pages, requests, obstacle, paceMs, requestsPerHour: requestsPerHour ?? null };
  };
  return beating(() => reported(reading, () => paced.nextRequestAt()));
}

/** Counts the requests of a chunk, however it ends, and knows the wait that the pace asks for after them. */
class PacedUpstream {
  requests = 0;
  readonly #upstream: Upstream;
  readonly #requestsPerHour: number | undefined;
  readonly #now = startServerClock();

  constructor(upstream: Upstream, requestsPerHour: number | undefined) {
    this.#upstream = upstream;
    this.#requestsPerHour = requestsPerHour;
  }

  getVisitors(...args: Parameters<Upstream['getVisitors']>): ReturnType<Upstream['getVisitors']> {
    this.requests++;
    return this.#upstream.getVisitors(...args);
  }

  get paceMs(): number {
    return this.#requestsPerHour === undefined ? 0 : Math.ceil((this.requests * HOUR_MS) / this.#requestsPerHour);
  }

  /** ISO 8601; undefined where no pace is kept. */
  nextRequestAt(): string | undefined {
    return this.paceMs > 0 ? new Date(this.#now() + this.paceMs).toISOString() : undefined;
  }
}

/** Beats while the work goes on, so that a dead worker is noticed and a cancellation arrives. */
async function beating<T>(work: () => Promise<T>): Promise<T> {
  const beats = setInterval(() => heartbeat(), HEARTBEAT_MS);
  try {
    return await work();
  } finally {
    clearInterval(beats);
  }
}

function pacedRequests(requestsPerHour: number): number {
  return Math.min(MOST_REQUESTS, Math.max(1, Math.floor(requestsPerHour / CHUNKS_PER_HOUR)));
}

/** Writes as much as a small chunk: a full disk has room for a byte. */
async function probe(store: SnapshotStore, { range, run }: StagedScan): Promise<void> {
  const key = `${runFolder(range, run)}/probe`;
  await store.put(key, Buffer.alloc(PROBE_BYTES));
  await store.remove(key);
}

/** The failure of a run that the upstream refuses; the requests that it took count for whoever goes on from here. */
function rejectedFailure(
  { status, error, message }: RejectedError,
  nextRequestAt: string | undefined,
): ApplicationFailure {
  const details = [{ status, error, ...(nextRequestAt !== undefined && { nextRequestAt }) }];
  return ApplicationFailure.create({ type: FAILURE.exportRejected, message, nonRetryable: true, details });
}

/** A failure that nobody foresaw: tried again by the workflow, which keeps the pace, and not for ever. */
function unforeseenFailure(error: unknown, nextRequestAt?: string): ApplicationFailure {
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  const details = nextRequestAt === undefined ? [] : [{ nextRequestAt }];
  const cause = error instanceof Error ? error : undefined;
  return ApplicationFailure.create({
    type: FAILURE.exportFailed,
    message,
    nonRetryable: true,
    details,
    ...(cause && { cause }),
  });
}

/** Turns what went wrong into the failure that the workflow decides by. */
async function reported<T>(work: () => Promise<T>, nextRequestAt?: () => string | undefined): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof SnapshotStoreError) {
      const details = [{ operation: error.operation, error: error.error }];
      throw ApplicationFailure.create({
        type: FAILURE.snapshotStoreFailed,
        message: error.message,
        nonRetryable: true,
        details,
      });
    }
    if (error instanceof StaleStagingError) throw ApplicationFailure.nonRetryable(error.message, 'StaleStaging');
    if (error instanceof ApplicationFailure || Context.current().cancellationSignal.aborted) throw error;
    throw unforeseenFailure(error, nextRequestAt?.());
  }
}
