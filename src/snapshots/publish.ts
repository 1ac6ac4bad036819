/**
 * The publication of a snapshot: the parquet replaced first, the manifest last. What is about to be published is noted in
 * staging, so that whoever comes after a death between the two can finish it.
 */
import { createHash } from 'node:crypto';
import type { Inconsistency, SnapshotManifest, SnapshotReceipt, VisitorExportRange } from '../contract.js';
import { isProvisional } from '../visitor-export/date-range.js';
import type { Doubt, ScanCheckpoint } from '../visitor-export/scan-checkpoint.js';
import { PARQUET_NAME, chunkKey, manifestKey, parquetKey, publicationKey } from './layout.js';
import { neighboursOf } from './catalog.js';
import { encodeManifest, isAsWritten, parseManifest, readManifest, receiptOf, snapshotId } from './manifest.js';
import { joinParquet } from './parquet.js';
import { doubtsOf, hasLostMost } from './plausibility.js';
import type { SnapshotStore } from './snapshot-store.js';
import { StagingSpoiledError, stagedParquet, type StagedScan } from './staging.js';
import { keepSuperseded } from './superseded.js';
import { sweepStaging } from './cleanup.js';
import { isWhole } from './integrity.js';

/** A finished scan, ready to be published. */
export interface FinishedScan extends StagedScan {
  checkpoint: ScanCheckpoint;
  inconsistency: Inconsistency | null;
  /** When the scan began: what the upstream moved later is not in it. */
  exportedAt: string;
  /** The scan of this run that was doubted, where this one is the second look. */
  doubt?: Doubt | null;
}

/** Asked before each of the last writes; throws where this writer was given up and another one may be at work. */
export type StillWriter = () => void;

/** What becomes of a finished scan: the kept snapshot stays, gets a new manifest alone, or is replaced. */
export type Publication = 'keep' | 'manifest' | 'replace';

/** `kept` is null where there is none, or none that is whole. */
export function choosePublication(kept: SnapshotManifest | null, found: SnapshotManifest): Publication {
  if (!kept) return 'replace';
  // A provisional one, however consistent, gives way to what was read when the day was over.
  const isOnlyProvisional = kept.provisional && !found.provisional;
  if (kept.consistent && !found.consistent && !isOnlyProvisional) return 'keep';
  if (!found.consistent && hasLostMost(found.rows, kept.rows)) return 'keep';
  if (kept.snapshotId !== found.snapshotId) return 'replace';
  const isConfirmed = found.consistent && !kept.consistent;
  return isConfirmed || isOnlyProvisional ? 'manifest' : 'keep';
}

/** Publishes what a scan found, where it says more than the kept snapshot, and sweeps the date range's staging. */
export async function publishScan(
  store: SnapshotStore,
  finished: FinishedScan,
  stillWriter: StillWriter = () => {},
  now: () => number = () => Date.parse(finished.exportedAt),
): Promise<SnapshotReceipt> {
  const { range, run, exportedAt } = finished;
  const own = await finishPublication(store, range);
  // This run's own earlier attempt published it and died before it could say so.
  const isOwn = own?.run === run && own.manifest.exportedAt === exportedAt;
  const receipt = isOwn ? receiptOf(store, own.manifest, false) : await publish(store, finished, stillWriter, now);
  await sweepStaging(store, range);
  return receipt;
}

async function publish(
  store: SnapshotStore,
  finished: FinishedScan,
  stillWriter: StillWriter,
  now: () => number,
): Promise<SnapshotReceipt> {
  const { range, run } = finished;
  const before = await readTrue(store, range);
  const kept = before && (await isWhole(store, before)) ? before : null;
  const found = await judged(store, finished, before);
  if (before && isNewer(before, found)) return keptByNewer(store, kept);
  const publication = choosePublication(kept, found);
  if (kept && publication === 'keep') {
    // What this run's own earlier attempt published, before its answer was lost, is no old content.
    const isOwn = kept.run === run && kept.snapshotId === found.snapshotId;
    return { ...receiptOf(store, kept, !isOwn), ...(found.drift && { drift: found.drift }) };
  }
  const noteDown = async (manifest: SnapshotManifest) => {
    await assertStaged(store, finished);
    stillWriter();
    await store.put(publicationKey(range), Buffer.from(JSON.stringify({ run, manifest })));
    await assertNewest(store, finished);
  };
  const replaces = !kept || publication === 'replace';
  if (kept && replaces) await keepSuperseded(store, kept, new Date(now()).toISOString());
  const manifest = replaces ? await replaceParquet(store, finished, found, noteDown) : { ...found, files: kept.files };
  if (!replaces) await noteDown(manifest);
  await assertNoted(store, finished);
  stillWriter();
  await store.put(manifestKey(range), encodeManifest(manifest));
  return receiptOf(store, manifest, false);
}

/** The manifest of a scan, in doubt where it says what can't be, or what is to be seen twice. */
async function judged(
  store: SnapshotStore,
  finished: FinishedScan,
  kept: SnapshotManifest | null,
): Promise<SnapshotManifest> {
  const found = manifestOf(finished);
  if (found.drift) return found;
  const neighbours = await neighboursOf(store, finished.range);
  const inconsistency = doubtsOf(found, { kept, neighbours, doubt: finished.doubt ?? null });
  return inconsistency ? { ...found, consistent: false, drift: inconsistency } : found;
}

/** Whether what is published was read later: a writer that stalled may wake when others have long gone on. */
function isNewer(published: SnapshotManifest, found: Pick<SnapshotManifest, 'exportedAt'>): boolean {
  return Date.parse(published.exportedAt) > Date.parse(found.exportedAt);
}

/** What becomes of a scan that began before the published one. */
function keptByNewer(store: SnapshotStore, kept: SnapshotManifest | null): SnapshotReceipt {
  if (!kept) throw new StagingSpoiledError('A scan that began later was published, and is damaged');
  return receiptOf(store, kept, true);
}

/** A writer that stalled may wake when the date range's next run has long swept its rows. */
async function assertStaged(store: SnapshotStore, { range, run, scan, checkpoint }: FinishedScan): Promise<void> {
  const size = await store.size(chunkKey(range, run, scan, Math.max(0, checkpoint.chunks - 1)));
  if (size === null) throw new StagingSpoiledError('The staged rows were swept by another run');
}

/** Or when that run has published: the older manifest must not take the newer one's place. */
async function assertNoted(store: SnapshotStore, finished: FinishedScan): Promise<void> {
  const note = await store.read(publicationKey(finished.range));
  if (!note || parsePublication(note)?.run !== finished.run) {
    throw new StagingSpoiledError('The note of the publication was swept by another run');
  }
  await assertNewest(store, finished);
}

/** Or when its own run has looked again and published that. */
async function assertNewest(store: SnapshotStore, { range, exportedAt }: FinishedScan): Promise<void> {
  const published = await readTrue(store, range);
  if (published && isNewer(published, { exportedAt })) {
    throw new StagingSpoiledError('A scan that began later was published meanwhile');
  }
}

/** The published manifest; null where there is none, or one that was changed: its dates and its verdict bind nobody. */
async function readTrue(store: SnapshotStore, range: VisitorExportRange): Promise<SnapshotManifest | null> {
  const manifest = await readManifest(store, range);
  return manifest && isAsWritten(manifest) ? manifest : null;
}

/** Finishes what a run left between the last two writes; gives the publication that is now whole, and whose it was. */
export async function finishPublication(
  store: SnapshotStore,
  range: VisitorExportRange,
): Promise<{ run: string; manifest: SnapshotManifest } | null> {
  const note = await store.read(publicationKey(range));
  const publication = note && parsePublication(note);
  if (!publication) return null;
  if (!(await isWhole(store, publication.manifest))) return null;
  const before = await readTrue(store, range);
  if (before && isNewer(before, publication.manifest)) return null;
  await store.put(manifestKey(range), encodeManifest(publication.manifest));
  return publication;
}

/** Rows to expect: those of the date range's kept snapshot, else of the snapshot that ends where the date range begins; null where neither is. */
export async function expectedRows(store: SnapshotStore, range: VisitorExportRange): Promise<number | null> {
  const kept = await readManifest(store, range);
  if (kept) return kept.rows;
  const length = Date.parse(range.dateTo) - Date.parse(range.dateFrom);
  const dateFrom = new Date(Date.parse(range.dateFrom) - length).toISOString().slice(0, 10);
  const before = await readManifest(store, { ...range, dateFrom, dateTo: range.dateFrom });
  return before?.rows ?? null;
}

function manifestOf({ range, run, checkpoint, inconsistency, exportedAt }: FinishedScan): SnapshotManifest {
  const { rows, content, totals, rounded, rowSums, rowMaxima } = checkpoint;
  return {
    snapshotId: snapshotId(range, rows, content, totals),
    projectId: range.projectId,
    dateFrom: range.dateFrom,
    dateTo: range.dateTo,
    rows,
    totals,
    consistent: inconsistency === null,
    provisional: isProvisional(Date.parse(exportedAt), range.dateTo),
    ...(inconsistency && { drift: inconsistency }),
    ...(rounded && { rounded }),
    exportedAt,
    files: [],
    rowSums,
    rowMaxima,
    run,
  };
}

/** Puts the scan's rows in the parquet's place; gives the manifest that goes with them. */
async function replaceParquet(
  store: SnapshotStore,
  finished: FinishedScan,
  found: SnapshotManifest,
  noteDown: (manifest: SnapshotManifest) => Promise<void>,
): Promise<SnapshotManifest> {
  const { range } = finished;
  if (found.rows === 0) {
    await noteDown(found);
    await assertNoted(store, finished);
    await store.remove(parquetKey(range));
    return found;
  }
  let manifest = found;
  const hash = createHash('sha256');
  const source = async function* () {
    let bytes = 0;
    for await (const piece of joinParquet(stagedParquet(store, finished, finished.checkpoint))) {
      hash.update(piece);
      bytes += piece.length;
      yield piece;
    }
    manifest = { ...found, files: [{ name: PARQUET_NAME, rows: found.rows, bytes, sha256: hash.digest('hex') }] };
    // The object appears when its source ends: the note must be there before.
    await noteDown(manifest);
  };
  await store.put(parquetKey(range), source());
  return manifest;
}

function parsePublication(bytes: Buffer): { run: string; manifest: SnapshotManifest } | null {
  try {
    const { run, manifest } = JSON.parse(bytes.toString('utf8')) as { run: string; manifest: unknown };
    const parsed = parseManifest(Buffer.from(JSON.stringify(manifest)));
    return parsed && { run, manifest: parsed };
  } catch {
    return null;
  }
}
