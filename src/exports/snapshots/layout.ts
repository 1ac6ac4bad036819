/** The keys of a store: what is published, what was replaced, and work in progress; and how large a probe of it is. */
import { encodeId, type VisitorExportRange } from '../../contract.js';
import type { DateRange } from '../date-range.js';

/** The folder of what is published. */
const SNAPSHOTS_FOLDER = 'visitors';
const SUPERSEDED_FOLDER = 'superseded';
/** The folder of work in progress. */
export const STAGING = 'staging';
/** A probe is as large as a small chunk: a full disk may still have room for a few bytes. */
export const PROBE_BYTES = 1 << 20;

/** The folder of all snapshots, or of those of a project. */
export function projectFolder(projectId?: string): string {
  return SNAPSHOTS_FOLDER + (projectId === undefined ? '' : `/projectId=${encodeId(projectId)}`);
}

/** The folder of one date range's snapshot: what lies here is published. */
export function snapshotFolder({ projectId, dateFrom, dateTo }: VisitorExportRange): string {
  return `${projectFolder(projectId)}/dateFrom=${dateFrom}/dateTo=${dateTo}`;
}

/** The manifest of one date range's snapshot. */
export function manifestKey(range: VisitorExportRange): string {
  return `${snapshotFolder(range)}/manifest.json`;
}

/** The name follows from content and scan, so that no Parquet file is rewritten under a reader, or removed too late. */
export function parquetName(sha256: string, exportedAt: string): string {
  return `visitors-${sha256.slice(0, 16)}-${Date.parse(exportedAt).toString(36)}.parquet`;
}

/** Whether an object of a snapshot's folder has such a name. */
export function isParquetName(name: string): boolean {
  return /^visitors-[\da-f]{16}-[\da-z]+\.parquet$/.test(name);
}

/** The folder of what a project has replaced. */
export function supersededProjectFolder(projectId: string): string {
  return projectFolder(projectId).replace(SNAPSHOTS_FOLDER, SUPERSEDED_FOLDER);
}

/** The folder of what was replaced in a date range, or of one snapshot of it. */
export function supersededFolder(range: VisitorExportRange, snapshotId?: string): string {
  const folder = snapshotFolder(range).replace(SNAPSHOTS_FOLDER, SUPERSEDED_FOLDER);
  return snapshotId === undefined ? folder : `${folder}/snapshotId=${snapshotId}`;
}

/** The folder of the files that say whose a project's folders are. */
export const MARKERS_FOLDER = 'projects';

/** The file that says whose a project's folders are. */
export function projectMarkerKey(projectId: string): string {
  return `${MARKERS_FOLDER}/projectId=${encodeId(projectId)}/project.json`;
}

/** The folder of a project's report. */
export function reportFolder(projectId: string): string {
  return `reports/projectId=${encodeId(projectId)}`;
}

/** The page of a project's report: of the last days, which each night replaces, or of a range. */
export function reportKey(projectId: string, range?: DateRange): string {
  const name = range ? `${range.dateFrom}_${range.dateTo}` : 'index';
  return `${reportFolder(projectId)}/${name}.html`;
}

/** The folder of a date range's work in progress, of every run. */
export function stagingFolder(range: VisitorExportRange): string {
  return stagingKey(snapshotFolder(range));
}

/** The key of work on an object until it takes the object's place. */
export function stagingKey(key: string): string {
  return key.startsWith(`${STAGING}/`) ? key : `${STAGING}/${key}`;
}

/** The rows of one chunk of a scan; the same name when the chunk is read again. */
export function chunkKey(range: VisitorExportRange, runId: string, scan: number, chunk: number): string {
  return `${runFolder(range, runId)}/scan-${scan}/${String(chunk).padStart(6, '0')}.rows`;
}

/** The folder of one run's work: `runId` is the first run id of its chain. */
export function runFolder(range: VisitorExportRange, runId: string): string {
  return `${stagingFolder(range)}/${runId}`;
}

/** The intent record: the manifest that is about to be published. */
export function intentKey(range: VisitorExportRange): string {
  return `${stagingFolder(range)}/publication.json`;
}
