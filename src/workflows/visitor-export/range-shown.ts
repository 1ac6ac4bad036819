/** What people and callers see of a date range's export. */
import { defineSearchAttributeKey } from '@temporalio/common';
import { upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import { plainMarkdown } from '../../agent-job/web-ui-text.js';
import {
  SEARCH_ATTRIBUTE,
  type SnapshotReceipt,
  type VisitorExportProgress,
  type VisitorExportRange,
} from '../../contract.js';
import { EXPORT_IN_DOUBT } from '../../contract/shared.js';
import type { Queued } from '../../contract/write-outcome.js';
import { next, type RangeState, stuckOn } from '../../exports/range-transitions.js';

/** When the export may send its next request, as far as it knows; in the past if it need not wait. */
function nextRequestTime({ notBefore, turns }: RangeState): number {
  const expectedAt = turns.queued?.expectedAt;
  return expectedAt === undefined ? notBefore : Math.max(notBefore, Date.parse(expectedAt));
}

/** Why the export waits, for its turn or for another reason; null if it does not. */
function waitReasonOf(state: RangeState, now: number): string | null {
  const step = next(state, now);
  return step.kind === 'awaitTurn' ? queueReasonOf(step.queued) : state.waitReason;
}

function queueReasonOf({ for: what, position }: Queued): string {
  if (position === undefined) return 'its turn in the queue of all exports';
  const why = what === 'turn' ? 'the budget that all exports share' : 'the upstream, which answered 429';
  return `${why} (position ${position} in the queue of all exports)`;
}

/** A summary holds 200 bytes; the dates and the words around the project's id take the rest. */
const MAX_PROJECT_BYTES = 150;

/** One line that names an export wherever Temporal lists it, as Markdown. */
export function rangeTitle({ projectId, dateFrom, dateTo }: VisitorExportRange): string {
  return `Visitors of ${plainMarkdown(projectId, MAX_PROJECT_BYTES)}, ${dateFrom}..${dateTo}`;
}

/** Markdown for an export's page in the web UI: its progress, and what it waits for. */
export function rangeDetails(range: VisitorExportRange, state: RangeState, now: number): string {
  const { scan, checkpoint, before, expectedRows } = state;
  const waitReason = waitReasonOf(state, now);
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
  const { scan, checkpoint, expectedRows, turns } = state;
  const waitReason = waitReasonOf(state, now);
  const { dateFrom, dateTo } = range;
  const { pages, rows } = checkpoint;
  const next = nextRequestTime(state);
  const nextRequestAt = next > now ? new Date(next).toISOString() : null;
  const position = turns.queued?.position;
  const queued = position !== undefined && { position };
  return { dateFrom, dateTo, scan, pages, rows, expectedRows, waitReason, nextRequestAt, ...queued };
}

function grouped(count: number): string {
  return count.toLocaleString('en-US');
}

const OUTCOME_KEY = defineSearchAttributeKey(SEARCH_ATTRIBUTE.outcome, 'KEYWORD');
const WAITING_FOR_KEY = defineSearchAttributeKey(SEARCH_ATTRIBUTE.waitingFor, 'KEYWORD');

/** Marks the run while its last publication is in doubt, so that people can list such exports. */
export function markDoubt({ consistent, drift }: SnapshotReceipt): void {
  mark(OUTCOME_KEY, consistent && drift === undefined ? null : EXPORT_IN_DOUBT);
}

/** Marks the run while it has waited for an hour. */
export function markWait(state: RangeState, now: number): void {
  mark(WAITING_FOR_KEY, stuckOn(state, now));
}

function mark(key: typeof OUTCOME_KEY, value: string | null): void {
  const isShown = (workflowInfo().typedSearchAttributes.get(key) ?? null) === value;
  if (!isShown) upsertSearchAttributes([{ key, value }]);
}
