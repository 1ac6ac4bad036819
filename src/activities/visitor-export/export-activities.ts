/**
 * The activities of `visitorExport`, on a task queue of their own. Rows go from the upstream to the store; the workflow
 * sees counts and digests only.
 */
import { ApplicationFailure, Context, heartbeat, log } from '@temporalio/activity';
import {
  type ExportRejectedDetails,
  FAILURE,
  type SnapshotReceipt,
  type SnapshotStoreFailedDetails,
  type VisitorExportRange,
} from '../../contract.js';
import { missedDays } from '../../exports/snapshots/catalog.js';
import { PROBE_BYTES, runFolder } from '../../exports/snapshots/layout.js';
import { checkProject } from '../../exports/snapshots/project-marker.js';
import { loadOptional } from '../../exports/snapshots/open-store.js';
import { readManifest } from '../../exports/snapshots/manifest.js';
import { type FinishedScan, finishPublication, publishScan } from '../../exports/snapshots/publish.js';
import { type PathSet, Scan } from '../../exports/snapshots/scan.js';
import { type SnapshotStore, SnapshotStoreError } from '../../exports/snapshots/snapshot-store.js';
import {
  checkCheckpoint,
  cleanUpStaging,
  removeExpired,
  stageChunk,
  stagedPaths,
  type StagedScan,
  StaleStagingError,
} from '../../exports/snapshots/staging.js';
import { invalidInputFailure } from '../../agent-job/closed-run.js';
import { InvalidInputError } from '../../contract/errors.js';
import { startClock } from '../../temporal/activity-attempt.js';
import { RejectedError } from '../../upstream/errors.js';
import type { Upstream } from '../../upstream/upstream.js';
import type { DateRange } from '../../exports/date-range.js';
import { type ChunkResult, type Prepared, STALE_STAGING } from '../../exports/range-transitions.js';
import type { ScanCheckpoint } from '../../exports/scan-checkpoint.js';
import type { Metrics, SnapshotVerdict } from '../metrics.js';
import { Turns, type Held } from '../turns.js';
import { CountedUpstream, wantedTurn, type ExportTurnRequest } from './export-turns.js';
import { readPages } from './read-pages.js';

/** What the export activities work with. */
export interface ExportActivitiesDependencies {
  upstream: Upstream;
  store: SnapshotStore;
  /** Ends chunks early; the pages read so far are staged. */
  shutdownSignal: AbortSignal;
  /** The budget of all exports together; none is set if undefined. */
  requestsPerHour?: number | undefined;
}

/** What one chunk of a scan goes on from. */
export interface ReadChunkInput extends StagedScan, ExportTurnRequest {
  checkpoint: ScanCheckpoint;
  /** Whether an inconsistent scan will be repeated, so that the rest of a long one need not be read. */
  willRepeat: boolean;
  /** Whether the store or the worker just failed: the store is tried before pages are requested. */
  probeStore: boolean;
}

interface PrepareInput extends ExportTurnRequest {
  range: VisitorExportRange;
}

/** The activities of exports, as a worker registers them. */
export type ExportActivities = ReturnType<typeof createExportActivities>;

/** Bounds the work that a killed worker loses. */
const MAX_CHUNK_MS = 60_000;
const CHUNK_HEARTBEAT_MS = 2_000;

/** What the worker of the export task queue registers. */
export function createExportActivities(dependencies: ExportActivitiesDependencies) {
  const { store, requestsPerHour } = dependencies;
  const pathSets = new PathSets();
  const turns = new Turns(() => ({ perHour: requestsPerHour ?? null }));
  return {
    /** Finishes what an earlier run left, removes its staging, and asks for the first turn where one is needed. */
    prepareExport: ({ range, ...request }: PrepareInput): Promise<Prepared> =>
      reported(async () => {
        await checkProject(store, range.projectId, true);
        await finishPublication(store, range, warn);
        await cleanUpStaging(store, range);
        // Best effort: expired copies cost space, and nothing else.
        await removeExpired(store, startClock().server(), range.projectId).catch(warn);
        const expectedRows = (await readManifest(store, range))?.rows ?? null;
        const held = await turns.askIfNeeded(wantedTurn(request, requestsPerHour));
        return { expectedRows, queued: held?.held ?? null };
      }),

    /** Reads the next pages of a scan into staging; without the turn that it needs, it only asks for one. */
    readChunk: (input: ReadChunkInput): Promise<ChunkResult | Held> => readChunk(dependencies, pathSets, turns, input),

    /** Publishes a finished scan if it says more than the current snapshot. */
    publishSnapshot: (finished: FinishedScan): Promise<SnapshotReceipt> =>
      reported(async () => {
        const { cancellationSignal } = Context.current();
        const { server: now } = startClock();
        return heartbeating(() => publishScan(store, finished, () => cancellationSignal.throwIfAborted(), now));
      }),

    /** Days that earlier runs missed. Temporal retries it. */
    findMissedDays: ({ projectId }: { projectId: string }): Promise<DateRange[]> =>
      heartbeating(() => missedDays(store, projectId, startClock().server())),

    /** Writes the project's report anew from its snapshots. Temporal retries it: no run waits for a report. */
    writeReport: async ({ projectId }: { projectId: string }): Promise<string> => {
      // Loads the charts' library, which few runs need.
      const { writeReport } = await loadOptional('the report', () => import('../../exports/report/report.js'));
      return heartbeating(() => writeReport(store, projectId, new Date(startClock().server()).toISOString()));
    },

    /** Finishes a publication that the run left half-done, and removes the date range's work in progress. */
    cleanUpExport: ({ range, ...request }: PrepareInput): Promise<void> =>
      reported(() =>
        heartbeating(async () => {
          await turns.giveBack(wantedTurn(request, requestsPerHour));
          await finishPublication(store, range, warn);
          await cleanUpStaging(store, range);
        }),
      ),
  };
}

function warn(error: unknown): void {
  log.warn('Old work of an export could not be removed: it costs space', { error });
}

type Chunk = Omit<ChunkResult, 'queued'>;

async function readChunk(
  dependencies: ExportActivitiesDependencies,
  pathSets: PathSets,
  turns: Turns,
  { taskQueue, priority, askedAt, turn: given, isOverdue, ...chunk }: ReadChunkInput,
): Promise<ChunkResult | Held> {
  const request = { taskQueue, priority, askedAt, turn: given, isOverdue };
  const wanted = wantedTurn(request, dependencies.requestsPerHour);
  return heartbeating(async () => {
    const ended = await turns.withTurn(wanted, async (turn) => {
      const counted = new CountedUpstream(dependencies.upstream, turn);
      const work = reported(() => readCountedChunk(counted, dependencies, pathSets, chunk));
      const result = await work.catch((error: unknown) => ({ error }));
      const asksAgain = !('error' in result) && wantsTurn(result, chunk.willRepeat, turn !== null);
      return { result, used: counted.used, asksAgain };
    });
    if ('held' in ended) return ended;
    const { result, queued } = ended;
    if ('error' in result) throw result.error;
    return { ...result, queued };
  });
}

/** Whether the next chunk needs a turn, and may be read as soon as it has one. */
function wantsTurn({ checkpoint, interruption }: Chunk, willRepeat: boolean, hadTurn: boolean): boolean {
  const isOver = checkpoint.stage === 'ended' && !(willRepeat && checkpoint.inconsistency);
  if (isOver || interruption?.kind === 'failed') return false;
  return hadTurn || interruption !== null;
}

async function readCountedChunk(
  counted: CountedUpstream,
  { store, shutdownSignal }: ExportActivitiesDependencies,
  pathSets: PathSets,
  { checkpoint, willRepeat, probeStore, ...staged }: Omit<ReadChunkInput, keyof ExportTurnRequest>,
): Promise<Chunk> {
  checkCheckpoint(checkpoint);
  if (probeStore) await probe(store, staged);
  const paths = await pathSets.take(store, staged, checkpoint);
  const scan = new Scan(checkpoint, paths);
  const limits = {
    requests: counted.maxRequests,
    willRepeat,
    duration: Math.min(MAX_CHUNK_MS, counted.usableMs),
    stop: shutdownSignal,
    cancel: Context.current().cancellationSignal,
  };
  const { rows, readAs, interruption } = await readPages(counted, staged.range, scan, limits);
  if (readAs.size > 0) log.warn('Pages lacked what the interface names', { ...staged.range, readAs: [...readAs] });
  // Nothing was learned of the upstream, so the workflow must not count this as a page or as an outage.
  if (shutdownSignal.aborted && scan.state.pages === checkpoint.pages && !interruption) {
    throw failure('WorkerStopped', 'The worker stopped before a page came', null);
  }
  const written = await stageChunk(store, staged, checkpoint, rows);
  const next = { ...scan.checkpoint(), ...written };
  pathSets.keep(next, paths);
  return { checkpoint: next, pages: next.pages - checkpoint.pages, requests: counted.requests, interruption };
}

/** Heartbeats while the work runs, so that a dead worker is noticed and a cancellation arrives. */
async function heartbeating<T>(work: () => Promise<T>): Promise<T> {
  const beats = setInterval(() => heartbeat(), CHUNK_HEARTBEAT_MS);
  try {
    return await work();
  } finally {
    clearInterval(beats);
  }
}

/** Whether there is room again. */
async function probe(store: SnapshotStore, { range, runId }: StagedScan): Promise<void> {
  const key = `${runFolder(range, runId)}/probe`;
  await store.put(key, Buffer.alloc(PROBE_BYTES));
  await store.remove(key);
}

// The failures by which the workflow decides. None is retried by Temporal: the workflow owns the retries.

/** Runs the work of an activity; converts what it throws. */
async function reported<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toFailure(error);
  }
}

function toFailure(error: unknown): unknown {
  if (error instanceof SnapshotStoreError) {
    const details: SnapshotStoreFailedDetails = { operation: error.operation, error: error.error };
    return failure(FAILURE.snapshotStoreFailed, error.message, details);
  }
  if (error instanceof RejectedError) {
    const details: ExportRejectedDetails = { status: error.status, error: error.error };
    return failure(FAILURE.exportRejected, error.message, details);
  }
  if (error instanceof InvalidInputError) return invalidInputFailure(error);
  if (error instanceof StaleStagingError) return ApplicationFailure.nonRetryable(error.message, STALE_STAGING);
  if (error instanceof ApplicationFailure || Context.current().cancellationSignal.aborted) return error;
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return failure(FAILURE.exportFailed, message, null, error instanceof Error ? error : undefined);
}

function failure(type: string, message: string, details: object | null, cause?: Error): ApplicationFailure {
  return ApplicationFailure.create({
    type,
    message,
    nonRetryable: true,
    details: details === null ? [] : [details],
    ...(cause && { cause }),
  });
}

/** Bounds the memory of a worker: a set takes 16 to 32 bytes a path. */
const MAX_CACHED = 4;

/** The path sets of the scans that this worker reads; others are rebuilt from staging. */
class PathSets {
  readonly #cached = new Map<string, PathSet>();

  /** The paths of a scan at a checkpoint. The caller owns the set: a chunk that fails leaves no changed set behind. */
  async take(store: SnapshotStore, staged: StagedScan, checkpoint: ScanCheckpoint): Promise<PathSet> {
    const name = nameOf(checkpoint);
    const cached = this.#cached.get(name);
    this.#cached.delete(name);
    return cached ?? (await stagedPaths(store, staged, checkpoint));
  }

  /** Caches a set for the next chunk of its scan. */
  keep(checkpoint: ScanCheckpoint, paths: PathSet): void {
    if (checkpoint.stage === 'ended') return;
    this.#cached.set(nameOf(checkpoint), paths);
    const [oldest] = this.#cached.keys();
    if (this.#cached.size > MAX_CACHED && oldest !== undefined) this.#cached.delete(oldest);
  }
}

// The chain of hashes identifies the rows themselves; of another attempt's reading of them the key is another.
function nameOf({ pathKey, staged }: ScanCheckpoint): string {
  return `${pathKey}|${staged}`;
}

// Counts what the steps of exports come to: verdicts of published snapshots, and failures.

type Counting = Pick<Metrics, 'snapshotPublished' | 'malformedRows' | 'exportFailed'>;

/** The same activities; each result and failure is counted once it is known. */
export function countExports(activities: ExportActivities, metrics: Counting): ExportActivities {
  const publishSnapshot: ExportActivities['publishSnapshot'] = async (finished) => {
    const receipt = await activities.publishSnapshot(finished);
    metrics.snapshotPublished(verdictOf(receipt));
    if (receipt.drift?.count) metrics.malformedRows(receipt.drift.count);
    return receipt;
  };
  const counted = Object.entries({ ...activities, publishSnapshot }).map(([name, activity]) => {
    const run = activity as (input: unknown) => Promise<unknown>;
    const counting = (input: unknown) =>
      run(input).catch((error: unknown) => {
        if (error instanceof ApplicationFailure) metrics.exportFailed(error.type ?? '');
        throw error;
      });
    return [name, counting];
  });
  return Object.fromEntries(counted) as ExportActivities;
}

/** A consistent receipt with drift is of the earlier snapshot, which the scan that drifted did not replace. */
function verdictOf({ consistent, drift }: Pick<SnapshotReceipt, 'consistent' | 'drift'>): SnapshotVerdict {
  if (!consistent) return 'inconsistent';
  return drift ? 'kept' : 'consistent';
}
