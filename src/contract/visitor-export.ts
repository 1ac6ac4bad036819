/** The contract of the workflow `visitorExport`: its input, progress, result and snapshots. See docs/exports.md. */
import type { Priority } from './agent-job.js';
import { decodeId, type DurationInput, defineQuery, encodeId } from './shared.js';

/** Workflow type, for callers that start the workflow by name. */
export const VISITOR_EXPORT_WORKFLOW = 'visitorExport';

/** The workflow id of one date range's export; a second export of that range waits for the first, or joins it. */
export function visitorExportWorkflowId(projectId: string, dateFrom: string, dateTo: string): string {
  return `visitor-export/${encodeId(projectId)}/${dateFrom}..${dateTo}`;
}

/** The id of the Schedule of a project's exports. */
export function visitorExportScheduleId(projectId: string): string {
  return `visitor-export/${encodeId(projectId)}`;
}

/** The project that a Schedule's id names. An id that can't be decoded stands for itself: no id may end a list. */
export function scheduledProject(scheduleId: string): string {
  const encoded = scheduleId.slice(visitorExportScheduleId('').length);
  return decodeId(encoded) ?? encoded;
}

/** An explicit date range to export; dates are `YYYY-MM-DD`, `dateTo` is exclusive and later. */
export interface VisitorExportRange {
  projectId: string;
  dateFrom: string;
  dateTo: string;
}

/** What starts the export of an explicit range. */
export interface VisitorExportRangeInput extends VisitorExportRange {
  /** Whether a finished day whose scan is implausible is scanned again an hour later; default true. */
  secondScan?: boolean | null | undefined;
  /** Which export goes first if several wait for their shared budget: 1 to 5, 1 first; default 3. */
  priority?: Priority | null | undefined;
  /** How long the upstream may give no page before the export fails; default 24 hours. */
  giveUpAfter?: DurationInput | null | undefined;
}

/** What a Schedule gives: the `days` whole local days before the scheduled time. */
export interface ScheduledExportInput {
  projectId: string;
  /** IANA time zone name. */
  timeZone: string;
  /** 1 to 366, default 1. */
  days?: number | null | undefined;
}

/** The only argument of `visitorExport`: a date range, or the time zone whose days a Schedule exports. */
export type VisitorExportInput = VisitorExportRangeInput | ScheduledExportInput;

/** Visitors of one path or of the whole site. */
export interface VisitorTotals {
  human: number;
  ai: number;
  total: number;
}

/** What a scan saw. src/exports/scan-checkpoint.ts names all places of a new kind. */
export type InconsistencyKind =
  | 'overlap'
  | 'totals'
  | 'repeatedPath'
  | 'firstPage'
  | 'noProgress'
  | 'order'
  | 'impossible'
  | 'shrunk'
  | 'malformedRows';

/** The place at which a scan of the pages saw the data change, or contradict itself. */
export interface Inconsistency {
  kind: InconsistencyKind;
  offset: number;
  /** Of `malformedRows`: how many rows were left out. */
  count?: number;
  /** Of the first one: its wrong field, and what is wrong with it. */
  field?: string;
  /** The path of that row, at most 100 characters; absent if it has none. */
  path?: string;
}

/** One snapshot, as an export's result describes it. */
export interface SnapshotReceipt {
  /** Hash of date range and content, whatever the order of the rows. */
  snapshotId: string;
  projectId: string;
  dateFrom: string;
  dateTo: string;
  /** URL of the snapshot's folder. */
  location: string;
  rows: number;
  totals: VisitorTotals;
  /** How many Parquet files: 0 or 1. */
  files: number;
  /** No path is there twice, and none is missing, as far as the upstream's responses can show. */
  consistent: boolean;
  /** The scan began before 12:00 UTC of `dateTo`, so the last day may not have been over yet. */
  provisional: boolean;
  /** The snapshot was there before, and no file was touched. */
  unchanged: boolean;
  drift?: Inconsistency;
}

/** The result of `visitorExport`: one snapshot for an explicit range, one per day for a Schedule. */
export interface VisitorExportResult {
  snapshots: SnapshotReceipt[];
}

/** A day that a Schedule's run could not export. */
export interface FailedDay {
  dateFrom: string;
  dateTo: string;
  /** The type of the day's failure. */
  type: string;
  message: string;
  /** Details of the day's failure; null if it has none. */
  details: unknown;
}

/** Details of a failure of `visitorExport` over several days; the failure's type is that of the first failed day. */
export interface FailedDaysDetails {
  snapshots: SnapshotReceipt[];
  failed: FailedDay[];
}

/** Details of the failure `ExportRejected`. */
export interface ExportRejectedDetails {
  /** The HTTP status. */
  status: number;
  /** The upstream's own text. */
  error: string;
}

/** Details of the failure `SnapshotStoreFailed`. */
export interface SnapshotStoreFailedDetails {
  operation: string;
  error: string;
}

/** Details of the failures `UpstreamUnavailable` and `ExportFailed`. */
export interface ExportFailureDetails {
  /** The last reason. */
  error: string;
}

/** How far the export of a date range is, to its last chunk of pages. */
export interface VisitorExportProgress {
  dateFrom: string;
  dateTo: string;
  /** From 1; an inconsistent scan is repeated. */
  scan: number;
  pages: number;
  rows: number;
  /** The rows of the snapshot before; null if there is none. */
  expectedRows: number | null;
  /** Why the export waits; null if it does not. */
  waitReason: string | null;
  /** ISO 8601; null if the next request need not wait. */
  nextRequestAt: string | null;
  /** The export's place in the queue of all exports, from 1; absent if it does not wait there. */
  position?: number;
}

/** Asked of the workflow `visitor-export/<projectId>/<dateFrom>..<dateTo>`, which writes that date range. */
export const visitorExportProgressQuery = defineQuery<VisitorExportProgress>('exportProgress');

/** `manifest.json` of a snapshot: the snapshot exists when its manifest does, and is then complete. */
export interface SnapshotManifest {
  /** 1, also if absent. A reader of version 1 knows nothing else about a manifest with a greater version. */
  formatVersion?: number;
  snapshotId: string;
  projectId: string;
  dateFrom: string;
  dateTo: string;
  rows: number;
  totals: VisitorTotals;
  consistent: boolean;
  provisional: boolean;
  drift?: Inconsistency;
  rounded?: boolean;
  /** When the scan began, ISO 8601: before any wait for a turn or a worker. Later changes are not in it. */
  exportedAt: string;
  files: { name: string; rows: number; bytes: number; sha256: string }[];
  /** The first run id of the workflow that wrote the manifest. */
  runId?: string;
  /** When another snapshot replaced this one: only under `superseded/`. */
  supersededAt?: string;
  /** SHA-256 of all other fields, as canonical JSON (RFC 8785). */
  checksum?: string;
}
