/**
 * The publication of a finished scan. Decides whether the scan is `impossible` or `shrunk`, whether it replaces the
 * snapshot that is there, and in which order files change, so that a run that dies in between leaves the old snapshot,
 * or one that the next run finishes:
 *
 * 1. The snapshot that is there is copied to `superseded/`.
 * 2. The intent record in staging gets the manifest to come (a write-ahead record).
 * 3. The Parquet file appears beside the old one.
 * 4. The manifest names the new file: now the snapshot is published.
 * 5. The old file and the staging go.
 */
import { createHash } from 'node:crypto';
import type { Inconsistency, SnapshotManifest, SnapshotReceipt, VisitorExportRange } from '../../contract.js';
import { isProvisional, isReadEarly } from '../date-range.js';
import { type ScanCheckpoint, SECOND_SCAN_DELAY_MS, type SuspectScan } from '../scan-checkpoint.js';
import { COUNTS } from './content-digest.js';
import {
  encodeManifest,
  FORMAT_VERSION,
  isAsWritten,
  isWhole,
  readManifest,
  readManifestAt,
  receiptOf,
  snapshotId,
  unlessNewer,
} from './manifest.js';
import { chunkKey, intentKey, isParquetName, manifestKey, parquetName, snapshotFolder } from './layout.js';
import type { SnapshotStore } from './snapshot-store.js';
import {
  checkCheckpoint,
  cleanUpStaging,
  copyKeys,
  keepSuperseded,
  stagedParquet,
  type StagedScan,
  StaleStagingError,
} from './staging.js';

/** A finished scan, ready to be published. */
export interface FinishedScan extends StagedScan {
  checkpoint: ScanCheckpoint;
  inconsistency: Inconsistency | null;
  /** When the scan began, ISO 8601: before any wait. Later changes of the upstream are not in it. */
  exportedAt: string;
  /** The suspect scan of this run that this one confirms or refutes. */
  suspect?: SuspectScan | null;
}

/**
 * Publishes a scan unless the current snapshot is better, newer or the same. Then removes the staging of all runs of
 * the date range. `checkLease` throws once this attempt is no longer the one that the workflow waits for.
 */
export async function publishScan(
  store: SnapshotStore,
  finished: FinishedScan,
  checkLease: () => void = () => {},
  now: () => number = () => Date.parse(finished.exportedAt),
): Promise<SnapshotReceipt> {
  const { range, runId, checkpoint } = finished;
  checkCheckpoint(checkpoint);
  await finishPublication(store, range);
  const published = await readTrusted(store, range);
  const current = published && (await isWhole(store, published)) ? published : null;
  const candidate = judged(finished, published);
  const choice = current && choosePublication(current, candidate);
  let receipt: SnapshotReceipt;
  if (current && isSameScan(current, candidate)) {
    // Judged by itself, a suspect scan would be confirmed.
    receipt = receiptOf(store, current, false);
  } else if (published && isNewer(published, candidate)) {
    if (!current) throw new StaleStagingError('A scan that began later was published, and is damaged');
    receipt = receiptOf(store, current, true);
  } else if (current && choice === 'keep') {
    // An earlier scan of this run may have been published.
    const { drift } = candidate;
    receipt = { ...receiptOf(store, current, current.runId !== runId), ...(drift && { drift }) };
  } else {
    const isSame = current !== null && choice === 'manifest';
    if (current && !isSame) await keepSuperseded(store, current, new Date(now()).toISOString());
    const files = isSame ? current.files : await filesOf(store, finished);
    const manifest = { ...candidate, files };
    await write(store, finished, { manifest, hasNewFiles: !isSame }, checkLease);
    receipt = receiptOf(store, manifest, false);
  }
  await removeReplaced(store, range);
  await cleanUpStaging(store, range);
  return receipt;
}

/** Whether the current snapshot was made of this very scan, by an attempt whose answer was lost. */
function isSameScan(current: SnapshotManifest, candidate: SnapshotManifest): boolean {
  const { runId, exportedAt, snapshotId: id } = candidate;
  return current.runId === runId && current.exportedAt === exportedAt && current.snapshotId === id;
}

/** What becomes of the current snapshot: it stays, gets a new manifest alone, or is replaced. */
function choosePublication(current: SnapshotManifest, candidate: SnapshotManifest): 'keep' | 'manifest' | 'replace' {
  // A provisional snapshot, even a consistent one, gives way to a scan of the finished day.
  const isOnlyProvisional = current.provisional && !candidate.provisional;
  if (isSound(current) && !isSound(candidate) && !isOnlyProvisional) return 'keep';
  if (!isSound(candidate) && hasLostMost(candidate.rows, current.rows)) return 'keep';
  if (current.snapshotId !== candidate.snapshotId) return 'replace';
  // Else a day whose last night read the same rows would count for ever as one that was not read again.
  const isReadLate = isReadEarly(current) && !isReadEarly(candidate);
  const isConfirmed = candidate.consistent && (!current.consistent || isReadLate);
  return isConfirmed || isOnlyProvisional ? 'manifest' : 'keep';
}

/** Whether a scan saw nothing change: rows that are left out make a snapshot incomplete, not doubtful. */
function isSound({ consistent, drift }: SnapshotManifest): boolean {
  return consistent || drift?.kind === 'malformedRows';
}

/** The manifest of a scan; inconsistent if the scan is implausible and no second scan has confirmed it. */
function judged(finished: FinishedScan, current: SnapshotManifest | null): SnapshotManifest {
  const candidate = manifestOf(finished);
  if (!isSound(candidate)) return candidate;
  const isImpossible = contradictsItself(finished.checkpoint);
  if (!isImpossible && !hasShrunk(candidate, current, finished.suspect)) return candidate;
  const drift = { kind: isImpossible ? 'impossible' : 'shrunk', offset: candidate.rows } as const;
  return { ...candidate, consistent: false, drift };
}

/** Counts are approximate: differences of up to a tenth and two visitors are ignored. */
const TOLERANCE = { part: 0.1, visitors: 2 };
/** Two scans of a day agree if their rows differ by at most this part. */
const MAX_DIFFERENCE_PART = 0.1;

/** A visitor of the site visits at least one page, and a visitor of a page visits the site. */
function contradictsItself({ rows, totals, rowSums, rowMaxima }: ScanCheckpoint): boolean {
  const isLess = (count: number, other: number) => count < other * (1 - TOLERANCE.part) - TOLERANCE.visitors;
  if (rows === 0) return COUNTS.some((count) => totals[count] > 0);
  return COUNTS.some((count) => isLess(rowSums[count], totals[count]) || isLess(totals[count], rowMaxima[count]));
}

/** Whether a final day lost most of its rows, and no second scan agrees. */
function hasShrunk(
  { provisional, rows, exportedAt }: SnapshotManifest,
  current: SnapshotManifest | null,
  suspect: SuspectScan | null = null,
): boolean {
  if (provisional || !hasLostMost(rows, current?.rows ?? 0)) return false;
  if (!suspect || Date.parse(exportedAt) - Date.parse(suspect.exportedAt) < SECOND_SCAN_DELAY_MS) return true;
  return Math.abs(rows - suspect.rows) > MAX_DIFFERENCE_PART * Math.max(rows, suspect.rows);
}

function hasLostMost(rows: number, before: number): boolean {
  return rows < before / 2;
}

function manifestOf({ range, runId, checkpoint, inconsistency, exportedAt }: FinishedScan): SnapshotManifest {
  const { rows, content, totals, rounded } = checkpoint;
  const drift = inconsistency ?? checkpoint.malformed;
  const { projectId, dateFrom, dateTo } = range;
  return {
    formatVersion: FORMAT_VERSION,
    snapshotId: snapshotId(range, rows, content, totals),
    projectId,
    dateFrom,
    dateTo,
    rows,
    totals,
    consistent: drift === null,
    provisional: isProvisional(Date.parse(exportedAt), dateTo),
    ...(drift && { drift }),
    ...(rounded && { rounded }),
    exportedAt,
    files: [],
    runId,
  };
}

/** The Parquet file of a scan's rows, as the manifest describes it; none without rows. */
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

/** Steps 2 to 4. An object appears when its pieces end: before that this attempt must still be the writer. */
async function write(
  store: SnapshotStore,
  finished: FinishedScan,
  { manifest, hasNewFiles }: { manifest: SnapshotManifest; hasNewFiles: boolean },
  checkLease: () => void,
): Promise<void> {
  const { range } = finished;
  const bytes = encodeManifest(manifest);
  const asWriter = async function* (pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>) {
    yield* pieces;
    await assertNotOvertaken(store, finished);
    checkLease();
  };
  await store.put(intentKey(range), asWriter([bytes]));
  try {
    for (const { name } of hasNewFiles ? manifest.files : []) {
      await store.put(`${snapshotFolder(range)}/${name}`, asWriter(parquetOf(store, finished)));
    }
    await store.put(manifestKey(range), asWriter([bytes]));
  } catch (error) {
    // The file may be there, though the store did not say so.
    await removeReplaced(store, range).catch(() => {});
    throw error;
  }
}

/**
 * A stalled writer may wake after the date range's next run has removed its rows, or after a later scan was published:
 * an older manifest must not replace a newer one.
 */
async function assertNotOvertaken(store: SnapshotStore, finished: FinishedScan): Promise<void> {
  const { range, runId, scan, checkpoint } = finished;
  const size = await store.size(chunkKey(range, runId, scan, Math.max(0, checkpoint.chunks - 1)));
  if (size === null) throw new StaleStagingError('The staged rows were removed by another run');
  await assertNewest(store, range, finished);
}

async function assertNewest(store: SnapshotStore, range: VisitorExportRange, scan: Scanned): Promise<void> {
  const published = await readTrusted(store, range);
  if (!published || !isNewer(published, scan)) return;
  throw new StaleStagingError('A scan that began later was published meanwhile');
}

type Scanned = Pick<SnapshotManifest, 'exportedAt'>;

/** Whether the published scan began later. */
function isNewer(published: SnapshotManifest, candidate: Scanned): boolean {
  return Date.parse(published.exportedAt) > Date.parse(candidate.exportedAt);
}

/** The published manifest; null if there is none, or if its checksum shows that it was changed. */
async function readTrusted(store: SnapshotStore, range: VisitorExportRange): Promise<SnapshotManifest | null> {
  const manifest = await readManifest(store, range);
  return manifest && isAsWritten(manifest) ? manifest : null;
}

/** The manifest to come of the publication under way; null if none is, or a newer release's. */
function readIntent(store: SnapshotStore, range: VisitorExportRange): Promise<SnapshotManifest | null> {
  return unlessNewer(readManifestAt(store, intentKey(range)));
}

/** Finishes or removes what an attempt left after step 1, 3 or 4; `warn` gets errors that cost only space. */
export async function finishPublication(
  store: SnapshotStore,
  range: VisitorExportRange,
  warn: (error: unknown) => void = () => {},
): Promise<void> {
  const intent = await readIntent(store, range);
  for (const key of await unfinishedKeys(store, range, intent)) {
    await store.removeUnfinished(key).catch(warn); // Best effort: not every account may list uploads.
  }
  if (intent && (await isWhole(store, intent))) {
    const published = await readTrusted(store, range);
    const isOutdated = published && isNewer(published, intent);
    const asNewest = async function* () {
      yield encodeManifest(intent);
      await assertNewest(store, range, intent);
    };
    if (!isOutdated) await store.put(manifestKey(range), asNewest());
  }
  await removeReplaced(store, range);
}

/** What a killed writer may have been at: the copy of the snapshot that is there, or the file that it intended. */
async function unfinishedKeys(store: SnapshotStore, range: VisitorExportRange, intent: SnapshotManifest | null) {
  const published = await readTrusted(store, range);
  const intended = intent?.files ?? [];
  return [...(published ? copyKeys(published) : []), ...intended.map(({ name }) => `${snapshotFolder(range)}/${name}`)];
}

/**
 * Step 5: removes the Parquet files that neither the manifest names nor the intent record. The files are listed first:
 * a file that appears later is not in the list, or is named.
 */
async function removeReplaced(store: SnapshotStore, range: VisitorExportRange): Promise<void> {
  const folder = snapshotFolder(range);
  const names: string[] = [];
  for await (const key of store.list(folder)) names.push(key.slice(folder.length + 1));
  const intent = await readIntent(store, range);
  const published = await readTrusted(store, range);
  // The manifest of a late writer may name what is gone. Then the other files are all there is.
  if (!published || !(await isWhole(store, published, { sizesOnly: true }))) return;
  const underWay = intent && !isNewer(published, intent) ? intent.files : [];
  const named = new Set([...published.files, ...underWay].map(({ name }) => name));
  for (const name of names.filter(isParquetName)) if (!named.has(name)) await store.remove(`${folder}/${name}`);
}
