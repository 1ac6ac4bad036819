/**
 * The publication of a snapshot: the parquet replaced first, the manifest last. What is about to be published is noted in
 * staging, so that whoever comes after a death between the two can finish it.
 */
import { createHash } from 'node:crypto';
import type { Drift, SnapshotManifest, SnapshotReceipt, VisitorExportRange } from '../contract.js';
import type { PassCheckpoint } from '../pass-checkpoint.js';
import {
  PARQUET_NAME,
  chunkKey,
  manifestKey,
  parquetKey,
  publicationKey,
  snapshotFolder,
  stagingFolder,
} from './layout.js';
import { encodeManifest, isProvisional, parseManifest, readManifest, receiptOf, snapshotId } from './manifest.js';
import { joinParquet } from './parquet.js';
import type { SnapshotStore } from './snapshot-store.js';
import { StagingSpoiledError, stagedParquet, type StagedPass } from './staging.js';

/** A finished pass, ready to be published. */
export interface FinishedPass extends StagedPass {
  checkpoint: PassCheckpoint;
  drift: Drift | null;
  /** When the pass began: what the upstream moved later is not in it. */
  exportedAt: string;
}

/** Asked before each of the last writes; throws where this writer was given up and another one may be at work. */
export type StillWriter = () => void;

/** What becomes of a finished pass: the kept snapshot stays, gets a new manifest alone, or is replaced. */
export type Publication = 'keep' | 'manifest' | 'replace';

export function choosePublication(kept: SnapshotManifest | null, found: SnapshotManifest): Publication {
  if (!kept) return 'replace';
  if (kept.consistent && !found.consistent) return 'keep';
  if (kept.snapshotId !== found.snapshotId) return 'replace';
  const isConfirmed = found.consistent && !kept.consistent;
  const isFinal = kept.provisional && !found.provisional;
  return isConfirmed || isFinal ? 'manifest' : 'keep';
}

/** Publishes what a pass found, where it says more than the kept snapshot, and sweeps the window's staging. */
export async function publishPass(
  store: SnapshotStore,
  finished: FinishedPass,
  stillWriter: StillWriter = () => {},
): Promise<SnapshotReceipt> {
  const { range, run } = finished;
  const own = await finishPublication(store, range);
  // This run's own earlier attempt published it and died before it could say so.
  const receipt =
    own?.run === run ? receiptOf(store, own.manifest, false) : await publish(store, finished, stillWriter);
  await sweepStaging(store, range);
  return receipt;
}

async function publish(
  store: SnapshotStore,
  finished: FinishedPass,
  stillWriter: StillWriter,
): Promise<SnapshotReceipt> {
  const kept = await readIntact(store, finished.range);
  const found = manifestOf(finished);
  const publication = choosePublication(kept, found);
  if (kept && publication === 'keep') {
    return { ...receiptOf(store, kept, true), ...(found.drift && { drift: found.drift }) };
  }
  const noteDown = async (manifest: SnapshotManifest) => {
    await assertStaged(store, finished);
    stillWriter();
    await store.put(publicationKey(finished.range), Buffer.from(JSON.stringify({ run: finished.run, manifest })));
  };
  const replaces = !kept || publication === 'replace';
  const manifest = replaces ? await replaceParquet(store, finished, found, noteDown) : { ...found, files: kept.files };
  if (!replaces) await noteDown(manifest);
  await assertNoted(store, finished);
  stillWriter();
  await store.put(manifestKey(finished.range), encodeManifest(manifest));
  return receiptOf(store, manifest, false);
}

/** A writer that stalled may wake when the window's next run has long swept its rows. */
async function assertStaged(store: SnapshotStore, { range, run, pass, checkpoint }: FinishedPass): Promise<void> {
  if (checkpoint.chunks === 0) return;
  const size = await store.size(chunkKey(range, run, pass, checkpoint.chunks - 1));
  if (size === null) throw new StagingSpoiledError('The staged rows were swept by another run');
}

/** Or when that run has published: the older manifest must not take the newer one's place. */
async function assertNoted(store: SnapshotStore, { range, run }: FinishedPass): Promise<void> {
  const note = await store.read(publicationKey(range));
  if (note && parsePublication(note)?.run === run) return;
  throw new StagingSpoiledError('The note of the publication was swept by another run');
}

/** Finishes what a run left between the last two writes; gives the publication that is now whole, and whose it was. */
export async function finishPublication(
  store: SnapshotStore,
  range: VisitorExportRange,
): Promise<{ run: string; manifest: SnapshotManifest } | null> {
  const note = await store.read(publicationKey(range));
  const publication = note && parsePublication(note);
  if (!publication) return null;
  const [file] = publication.manifest.files;
  const size = await store.size(parquetKey(range));
  const isInPlace = file
    ? size === file.bytes && (await sha256Of(store, parquetKey(range))) === file.sha256
    : size === null;
  if (!isInPlace) return null;
  await store.put(manifestKey(range), encodeManifest(publication.manifest));
  return publication;
}

/** Removes a window's work in progress, of every run. */
export async function sweepStaging(store: SnapshotStore, range: VisitorExportRange): Promise<void> {
  await store.removeFolder(stagingFolder(range));
  // Not every account may list uploads, and they are never visible.
  await store.removeUnfinished(snapshotFolder(range)).catch(() => {});
}

/** Rows to expect: those of the window's kept snapshot, else of the snapshot that ends where the window begins; null where neither is. */
export async function expectedRows(store: SnapshotStore, range: VisitorExportRange): Promise<number | null> {
  const kept = await readManifest(store, range);
  if (kept) return kept.rows;
  const length = Date.parse(range.dateTo) - Date.parse(range.dateFrom);
  const dateFrom = new Date(Date.parse(range.dateFrom) - length).toISOString().slice(0, 10);
  const before = await readManifest(store, { ...range, dateFrom, dateTo: range.dateFrom });
  return before?.rows ?? null;
}

function manifestOf({ range, checkpoint, drift, exportedAt }: FinishedPass): SnapshotManifest {
  const { rows, content, totals, rounded } = checkpoint;
  return {
    snapshotId: snapshotId(range, rows, content, totals),
    projectId: range.projectId,
    dateFrom: range.dateFrom,
    dateTo: range.dateTo,
    rows,
    totals,
    consistent: drift === null,
    provisional: isProvisional(exportedAt, range.dateTo),
    ...(drift && { drift }),
    ...(rounded && { rounded }),
    exportedAt,
    files: [],
  };
}

/** The kept snapshot, where its file is still there; else the window counts as having none. */
async function readIntact(store: SnapshotStore, range: VisitorExportRange): Promise<SnapshotManifest | null> {
  const kept = await readManifest(store, range);
  const size = await store.size(parquetKey(range));
  return kept && (kept.files[0]?.bytes ?? null) === size ? kept : null;
}

/** Puts the pass's rows in the parquet's place; gives the manifest that goes with them. */
async function replaceParquet(
  store: SnapshotStore,
  finished: FinishedPass,
  found: SnapshotManifest,
  noteDown: (manifest: SnapshotManifest) => Promise<void>,
): Promise<SnapshotManifest> {
  const { range } = finished;
  if (found.rows === 0) {
    await noteDown(found);
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

/** SHA-256 of an object, as 64 hexadecimal digits, read piece by piece. */
export async function sha256Of(store: SnapshotStore, key: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of store.stream(key)) hash.update(piece);
  return hash.digest('hex');
}
