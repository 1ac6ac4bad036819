/**
 * The publication of a snapshot: the parquet beside the one before, then the manifest, then the one before goes. An
 * intent record in staging (write-ahead intent) names the manifest before either is written: a later run can finish a
 * publication whose writer died.
 */
import { createHash } from 'node:crypto';
import type { Inconsistency, SnapshotManifest, SnapshotReceipt, VisitorExportRange } from '../contract.js';
import { isProvisional, shifted } from '../visitor-export/date-range.js';
import type { ScanCheckpoint, SuspectScan } from '../visitor-export/scan-checkpoint.js';
import {
  encodeManifest,
  FORMAT_VERSION,
  isAsWritten,
  isWhole,
  parseManifest,
  readManifest,
  receiptOf,
  snapshotId,
  unlessNewer,
} from './manifest.js';
import { chunkKey, intentKey, isParquetName, manifestKey, parquetName, snapshotFolder } from './layout.js';
import { hasLostMost, implausibilityOf } from './plausibility.js';
import type { SnapshotStore } from './snapshot-store.js';
import { checkCheckpoint, cleanUpStaging, stagedParquet, type StagedScan, StaleStagingError } from './staging.js';
import { keepSuperseded } from './superseded.js';

/** A finished scan, ready to be published. */
export interface FinishedScan extends StagedScan {
  checkpoint: ScanCheckpoint;
  inconsistency: Inconsistency | null;
  /** When the scan began, ISO 8601. What the upstream changed later is not in it. */
  exportedAt: string;
  /** The suspect scan of this run that this one confirms or refutes. */
  suspect?: SuspectScan | null;
}

/** How many date ranges before one, and after it, tell what is usual. */
const NEIGHBOURS = 14;

/**
 * Publishes a scan unless the current snapshot is better, newer or the same (`choosePublication`). Then removes the
 * staging of all runs of the date range. `checkLease` is called before each of the last writes: it throws where this
 * attempt is no longer the writer.
 */
export async function publishScan(
  store: SnapshotStore,
  finished: FinishedScan,
  checkLease: () => void = () => {},
  now: () => number = () => Date.parse(finished.exportedAt),
): Promise<SnapshotReceipt> {
  const { range, runId, exportedAt, checkpoint } = finished;
  checkCheckpoint(checkpoint);
  const earlier = await finishIntent(store, range);
  // An earlier attempt of this run may have published the scan and died before it could report that.
  const isOwn = earlier?.runId === runId && earlier.manifest.exportedAt === exportedAt;
  const receipt = isOwn ? receiptOf(store, earlier.manifest, false) : await publish(store, finished, checkLease, now);
  await removeReplaced(store, range);
  await cleanUpStaging(store, range);
  return receipt;
}

async function publish(
  store: SnapshotStore,
  finished: FinishedScan,
  checkLease: () => void,
  now: () => number,
): Promise<SnapshotReceipt> {
  const { range, runId } = finished;
  const published = await readTrusted(store, range);
  const current = published && (await isWhole(store, published)) ? published : null;
  const candidate = await judged(store, finished, published);
  if (published && isNewer(published, candidate)) return receiptOfNewer(store, current);
  const publication = choosePublication(current, candidate);
  if (current && publication === 'keep') {
    // An earlier attempt of this run may have published this content before its answer was lost.
    const isOwn = current.run === runId && current.snapshotId === candidate.snapshotId;
    return { ...receiptOf(store, current, !isOwn), ...(candidate.drift && { drift: candidate.drift }) };
  }
  const replaces = !current || publication === 'replace';
  if (current && replaces) await keepSuperseded(store, current, new Date(now()).toISOString());
  const files = replaces ? await filesOf(store, finished) : current.files;
  const manifest = { ...candidate, files };
  await recordIntent(store, finished, manifest, checkLease);
  const assertWriter = async () => {
    await assertIntent(store, finished);
    checkLease();
  };
  try {
    if (replaces) for (const { name } of files) await putParquet(store, finished, name, assertWriter);
    await assertWriter();
  } catch (error) {
    // The file may be there, though the store did not say so.
    await removeReplaced(store, range).catch(() => {});
    throw error;
  }
  await store.put(manifestKey(range), encodeManifest(manifest));
  return receiptOf(store, manifest, false);
}

async function recordIntent(
  store: SnapshotStore,
  finished: FinishedScan,
  manifest: SnapshotManifest,
  checkLease: () => void,
): Promise<void> {
  await assertStaged(store, finished);
  checkLease();
  const intent: Intent = { runId: finished.runId, manifest };
  await store.put(intentKey(finished.range), Buffer.from(JSON.stringify(intent)));
  await assertNewest(store, finished);
}

/** The manifest of a scan; inconsistent where the scan is implausible and no second scan has confirmed it. */
async function judged(
  store: SnapshotStore,
  finished: FinishedScan,
  current: SnapshotManifest | null,
): Promise<SnapshotManifest> {
  const candidate = manifestOf(finished);
  if (candidate.drift) return candidate;
  const neighbours = await neighboursOf(store, finished.range);
  const drift = implausibilityOf(candidate, { current, neighbours, suspect: finished.suspect ?? null });
  return drift ? { ...candidate, consistent: false, drift } : candidate;
}

/** The manifests of the nearest date ranges of the same length. One that was changed vouches for nothing. */
async function neighboursOf(store: SnapshotStore, range: VisitorExportRange): Promise<SnapshotManifest[]> {
  const steps = Array.from({ length: 2 * NEIGHBOURS + 1 }, (_, i) => i - NEIGHBOURS).filter((step) => step !== 0);
  const manifests = await Promise.all(steps.map((step) => unlessNewer(readTrusted(store, shifted(range, step)))));
  return manifests.filter((manifest) => manifest !== null);
}

/** The receipt of a scan that began before the published one. */
function receiptOfNewer(store: SnapshotStore, current: SnapshotManifest | null): SnapshotReceipt {
  if (!current) throw new StaleStagingError('A scan that began later was published, and is damaged');
  return receiptOf(store, current, true);
}

/** A stalled writer may wake after the date range's next run has removed its rows. */
async function assertStaged(store: SnapshotStore, { range, runId, scan, checkpoint }: FinishedScan): Promise<void> {
  const size = await store.size(chunkKey(range, runId, scan, Math.max(0, checkpoint.chunks - 1)));
  if (size === null) throw new StaleStagingError('The staged rows were removed by another run');
}

/** A stalled writer may wake after that run has published: the older manifest must not replace the newer one. */
async function assertIntent(store: SnapshotStore, finished: FinishedScan): Promise<void> {
  const intent = await readIntent(store, finished.range);
  if (intent?.runId !== finished.runId) {
    throw new StaleStagingError('The intent record of the publication was removed by another run');
  }
  await assertNewest(store, finished);
}

/** A stalled writer may wake after its own run has published a second scan. */
async function assertNewest(store: SnapshotStore, { range, exportedAt }: FinishedScan): Promise<void> {
  const published = await readTrusted(store, range);
  if (published && isNewer(published, { exportedAt })) {
    throw new StaleStagingError('A scan that began later was published meanwhile');
  }
}

/** The published manifest; null where there is none, or where its checksum shows that it was changed. */
async function readTrusted(store: SnapshotStore, range: VisitorExportRange): Promise<SnapshotManifest | null> {
  const manifest = await readManifest(store, range);
  return manifest && isAsWritten(manifest) ? manifest : null;
}

/**
 * Finishes what a run left between the last two writes; returns the intent record of the publication that is now whole.
 */
export async function finishPublication(store: SnapshotStore, range: VisitorExportRange): Promise<Intent | null> {
  const intent = await finishIntent(store, range);
  await removeReplaced(store, range);
  return intent;
}

async function finishIntent(store: SnapshotStore, range: VisitorExportRange): Promise<Intent | null> {
  const intent = await readIntent(store, range);
  if (!intent || !(await isWhole(store, intent.manifest))) return null;
  const published = await readTrusted(store, range);
  if (published && isNewer(published, intent.manifest)) return null;
  await store.put(manifestKey(range), encodeManifest(intent.manifest));
  return intent;
}

/** Rows to expect: of the current snapshot, else of the one that ends where the range begins; null where neither is. */
export async function expectedRows(store: SnapshotStore, range: VisitorExportRange): Promise<number | null> {
  const manifest = (await readManifest(store, range)) ?? (await unlessNewer(readManifest(store, shifted(range, -1))));
  return manifest?.rows ?? null;
}

function manifestOf({ range, runId, checkpoint, inconsistency, exportedAt }: FinishedScan): SnapshotManifest {
  const { rows, content, totals, rounded, rowSums, rowMaxima } = checkpoint;
  return {
    formatVersion: FORMAT_VERSION,
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
    run: runId,
  };
}

/** The Parquet file of a scan's rows, as the manifest tells it; none without rows. */
async function filesOf(store: SnapshotStore, finished: FinishedScan): Promise<SnapshotManifest['files']> {
  const { rows } = finished.checkpoint;
  if (rows === 0) return [];
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const piece of parquetOf(store, finished)) {
    hash.update(piece);
    bytes += piece.length;
  }
  const sha256 = hash.digest('hex');
  return [{ name: parquetName(sha256, finished.exportedAt), rows, bytes, sha256 }];
}

async function* parquetOf(store: SnapshotStore, finished: FinishedScan): AsyncGenerator<Uint8Array> {
  const { joinParquet } = await import('./parquet.js');
  yield* joinParquet(stagedParquet(store, finished, finished.checkpoint));
}

async function putParquet(
  store: SnapshotStore,
  finished: FinishedScan,
  name: string,
  assertWriter: () => Promise<void>,
): Promise<void> {
  const source = async function* () {
    yield* parquetOf(store, finished);
    // The object appears when its source ends.
    await assertWriter();
  };
  await store.put(`${snapshotFolder(finished.range)}/${name}`, source());
}

/**
 * Removes the Parquet files that neither the manifest names nor that of a publication under way. They are listed first:
 * what others publish meanwhile is not in the list, or is named.
 */
async function removeReplaced(store: SnapshotStore, range: VisitorExportRange): Promise<void> {
  const folder = snapshotFolder(range);
  const names: string[] = [];
  for await (const key of store.list(folder)) names.push(key.slice(folder.length + 1));
  const intent = await readIntent(store, range);
  const published = await readTrusted(store, range);
  // The manifest of a late writer may name what is gone: then others are all there is.
  if (!published || !(await isWhole(store, published, { sizesOnly: true }))) return;
  const underWay = intent && !isNewer(published, intent.manifest) ? intent.manifest.files : [];
  const named = new Set([...published.files, ...underWay].map(({ name }) => name));
  for (const name of names.filter(isParquetName)) if (!named.has(name)) await store.remove(`${folder}/${name}`);
}

/** What staging tells of a publication under way: the manifest to come, and the first run id of its workflow. */
interface Intent {
  runId: string;
  manifest: SnapshotManifest;
}

async function readIntent(store: SnapshotStore, range: VisitorExportRange): Promise<Intent | null> {
  const bytes = await store.read(intentKey(range));
  if (!bytes) return null;
  try {
    const { runId, manifest } = JSON.parse(String(bytes)) as { runId: string; manifest: unknown };
    const parsed = parseManifest(Buffer.from(JSON.stringify(manifest)));
    return parsed && { runId, manifest: parsed };
  } catch {
    return null;
  }
}

// Which snapshot of a date range replaces which.

/** The fate of a finished scan: the current snapshot stays, gets a new manifest alone, or is replaced. */
type Publication = 'keep' | 'manifest' | 'replace';

/** Decides what replaces what; `current` is null where there is no snapshot, or none that is whole. */
function choosePublication(current: SnapshotManifest | null, candidate: SnapshotManifest): Publication {
  if (!current) return 'replace';
  // A provisional snapshot, even a consistent one, gives way to what was read when the day was over.
  const isOnlyProvisional = current.provisional && !candidate.provisional;
  if (current.consistent && !candidate.consistent && !isOnlyProvisional) return 'keep';
  if (!candidate.consistent && hasLostMost(candidate.rows, current.rows)) return 'keep';
  if (current.snapshotId !== candidate.snapshotId) return 'replace';
  const isConfirmed = candidate.consistent && !current.consistent;
  return isConfirmed || isOnlyProvisional ? 'manifest' : 'keep';
}

/** Whether the published scan began later: a stalled writer may wake after others have published. */
function isNewer(published: SnapshotManifest, candidate: Pick<SnapshotManifest, 'exportedAt'>): boolean {
  return Date.parse(published.exportedAt) > Date.parse(candidate.exportedAt);
}
