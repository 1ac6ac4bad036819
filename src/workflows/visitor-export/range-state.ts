/** What a date range's export remembers, and what people and callers see of it. */
import { defineSearchAttributeKey } from '@temporalio/common';
import { upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import type { AskedTurn } from '../../activities/visitor-export/export-turns.js';
import { plainMarkdown } from '../../agent-job/web-ui-text.js';
import {
  SEARCH_ATTRIBUTE,
  type SnapshotReceipt,
  type VisitorExportProgress,
  type VisitorExportRange,
} from '../../contract.js';
import type { RequestTurn } from '../../contract/request-queue.js';
import { EXPORT_IN_DOUBT } from '../../contract/shared.js';
import { NEW_SCAN, type ScanCheckpoint, type SuspectScan } from '../../visitor-export/scan-checkpoint.js';

/** The plain data of a date range's export, passed on by continue-as-new. Times in milliseconds. */
export interface RangeState {
  /** The first run id of the chain: it names the staging. */
  runId: string;
  /** Counts the scans from 1. */
  scan: number;
  /** Repeats of an inconsistent scan that this run still allows. */
  repeatsLeft: number;
  /** Scans begun anew because their staged rows were lost. */
  staleStagings: number;
  scanStartedAt: number;
  checkpoint: ScanCheckpoint;
  /** The inconsistent scan before this one. */
  before: ScanCheckpoint | null;
  /** The implausible scan that this one confirms or refutes, if this is the second scan of the day. */
  suspect?: SuspectScan | null;
  expectedRows: number | null;
  /** Consecutive chunks that were interrupted before they got a page. */
  failures: number;
  /** When the upstream began to give no page at all; null while it gives pages. */
  failingSince: number | null;
  /** No request is made before this time. */
  notBefore: number;
  /** Why the export waits; null if it does not. */
  waitReason: string | null;
  /** Its turns in the queue of all exports. */
  turns: TurnState;
}

/** What an export knows of its turns. */
interface TurnState {
  /** Whether this export was answered 429. */
  isThrottled: boolean;
  /** The turn that was asked for and did not come yet. */
  asked: AskedTurn | null;
  /** The turn that came and was not used yet. */
  turn: RequestTurn | null;
}

/** Requests are shared with others: after two repeats the last scan is published as it is. */
const MAX_REPEATS = 2;

/** The state of a date range's export at its beginning; `runId` names its staging. */
export function newRangeState(runId: string): RangeState {
  return {
    runId,
    scan: 1,
    repeatsLeft: MAX_REPEATS,
    staleStagings: 0,
    scanStartedAt: Date.now(),
    checkpoint: NEW_SCAN,
    before: null,
    expectedRows: null,
    failures: 0,
    failingSince: null,
    notBefore: 0,
    waitReason: null,
    turns: { isThrottled: false, asked: null, turn: null },
  };
}

/** When the export may send its next request, as far as it knows; in the past if it need not wait. */
function nextRequestTime({ notBefore, turns }: RangeState): number {
  const expectedAt = turns.asked?.place.expectedAt;
  return expectedAt === undefined ? notBefore : Math.max(notBefore, Date.parse(expectedAt));
}

// What people and callers see.

/** A summary holds 200 bytes; the dates and the words around the project's id take the rest. */
const MAX_PROJECT_BYTES = 150;

/** One line that names an export wherever Temporal lists it, as Markdown. */
export function rangeTitle({ projectId, dateFrom, dateTo }: VisitorExportRange): string {
  return `Visitors of ${plainMarkdown(projectId, MAX_PROJECT_BYTES)}, ${dateFrom}..${dateTo}`;
}

/** Markdown for an export's page in the web UI: its progress, and what it waits for. */
export function rangeDetails(range: VisitorExportRange, state: RangeState, now: number): string {
  const { scan, checkpoint, before, waitReason, expectedRows } = state;
  const nextRequestAt = nextRequestTime(state);
  const about = expectedRows === null ? '' : ` of about ${grouped(Math.max(expectedRows, checkpoint.rows))}`;
  const seen = before?.inconsistency;
  const lines = [
    `**${rangeTitle(range)}**`,
    `**Scan ${scan}**: ${grouped(checkpoint.pages)} pages, ${grouped(checkpoint.rows)} rows${about}`,
    ...(seen ? [`**Repeated**: ${seen.kind} at row ${seen.offset}`] : []),
    ...(waitReason ? [`**Waits**: ${plainMarkdown(waitReason)}`] : []),
    ...(nextRequestAt > now ? [`**Next request**: ${new Date(nextRequestAt).toISOString()}`] : []),
  ];
  return lines.join('\n\n');
}

/** The answer to `exportProgress`. */
export function rangeProgress(range: VisitorExportRange, state: RangeState, now: number): VisitorExportProgress {
  const { scan, checkpoint, expectedRows, waitReason, turns } = state;
  const { dateFrom, dateTo } = range;
  const { pages, rows } = checkpoint;
  const next = nextRequestTime(state);
  const nextRequestAt = next > now ? new Date(next).toISOString() : null;
  const position = turns.asked?.place?.position;
  const queued = position !== undefined && { position };
  return { dateFrom, dateTo, scan, pages, rows, expectedRows, waitReason, nextRequestAt, ...queued };
}

function grouped(count: number): string {
  return count.toLocaleString('en-US');
}

const OUTCOME = defineSearchAttributeKey(SEARCH_ATTRIBUTE.outcome, 'KEYWORD');

/** Marks the run while its last publication is in doubt, so that people can list such exports. */
export function markDoubt({ consistent, drift }: SnapshotReceipt): void {
  const wanted = consistent && drift === undefined ? undefined : EXPORT_IN_DOUBT;
  const isShown = workflowInfo().typedSearchAttributes.get(OUTCOME) === wanted;
  if (!isShown) upsertSearchAttributes([{ key: OUTCOME, value: wanted ?? null }]);
}
