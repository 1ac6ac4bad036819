/** What people and callers see of an export: its page in the web UI, its progress, and its search attribute. */
import { defineSearchAttributeKey } from '@temporalio/common';
import { upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import {
  SEARCH_ATTRIBUTE,
  type SnapshotReceipt,
  type VisitorExportProgress,
  type VisitorExportRange,
} from '../../contract.js';
import { plainMarkdown } from '../../agent-job/web-ui-text.js';
import { EXPORT_IN_DOUBT } from '../../contract/shared.js';
import { nextRequestTime, type RangeState } from './range-state.js';

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
