/** The contract of the workflow `visitorExport`: its input, progress, result and snapshots. See docs/contract.md. */
import { defineQuery } from '@temporalio/workflow';
import { encodeId } from './shared.js';

/** Workflow type, for callers that start the workflow by name. */
export const VISITOR_EXPORT_WORKFLOW = 'visitorExport';

export function visitorExportWorkflowId(projectId: string, dateFrom: string, dateTo: string): string {
  return `visitor-export/${encodeId(projectId)}/${dateFrom}..${dateTo}`;
}

export function visitorExportScheduleId(projectId: string): string {
  return `visitor-export/${encodeId(projectId)}`;
}

/** The project that a Schedule's id names; as it is where whoever made it did not encode it. */
export function scheduledProject(scheduleId: string): string {
  const encoded = scheduleId.slice(visitorExportScheduleId('').length);
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}

/** One question to the export: an explicit range, `dateTo` exclusive (`YYYY-MM-DD`). */
export interface VisitorExportRange {
  projectId: string;
  dateFrom: string;
  dateTo: string;
}

/** What a Schedule gives: the `days` whole local days before the scheduled time. */
export interface VisitorExportNights {
  projectId: string;
  /** IANA time zone name. */
  timeZone: string;
  /** 1 to 366, default 1. */
  days?: number | null;
}

export type VisitorExportInput = VisitorExportRange | VisitorExportNights;

export interface VisitorTotals {
  human: number;
  ai: number;
  total: number;
}

export type DriftKind =
  'overlap' | 'totals' | 'repeatedPath' | 'firstPage' | 'noProgress' | 'order' | 'impossible' | 'shrunk';

/** Where a pass over the pages saw the data move, or contradict themselves. */
export interface Drift {
  kind: DriftKind;
  offset: number;
}

export interface SnapshotReceipt {
  /** Hash of window and content, whatever the order of the rows. */
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
  consistent: boolean;
  provisional: boolean;
  unchanged: boolean;
  drift?: Drift;
}

export interface VisitorExportResult {
  snapshots: SnapshotReceipt[];
  /** When the pace allows the next request; absent where there is nothing to wait for. */
  nextRequestAt?: string;
}

/** How far the export of a window is, to its last chunk of pages. */
export interface VisitorExportProgress {
  dateFrom: string;
  dateTo: string;
  /** From 1; a pass that drifted is repeated. */
  pass: number;
  pages: number;
  rows: number;
  /** As many as the snapshot before had; null where there is none. */
  expectedRows: number | null;
  /** Why it waits; null where it does not. */
  trouble: string | null;
  /** ISO 8601; null where the next request need not wait. */
  nextRequestAt: string | null;
}

/** Of the workflow that writes a window: `visitorExportWorkflowId`. */
export const visitorExportProgressQuery = defineQuery<VisitorExportProgress>('exportProgress');

export interface SnapshotManifest {
  snapshotId: string;
  projectId: string;
  dateFrom: string;
  dateTo: string;
  rows: number;
  totals: VisitorTotals;
  consistent: boolean;
  provisional: boolean;
  drift?: Drift;
  rounded?: boolean;
  exportedAt: string;
  files: { name: string; rows: number; bytes: number; sha256: string }[];
  /** Of each count, the sum over all rows and the largest of them: what the totals are held against. */
  rowSums?: VisitorTotals;
  rowMaxima?: VisitorTotals;
  /** The first run id of the workflow that wrote the manifest. */
  run?: string;
  /** When another snapshot took its place: only under `superseded/`. */
  supersededAt?: string;
  /** SHA-256 of all other fields. */
  checksum?: string;
}
