import type { VisitorExportRange } from '../../contract.js';
import { plainMarkdown } from '../../temporal/markdown.js';
import type { RangeState } from './range-run.js';

const PAGE_ROWS = 249; // 250, one of which is the page's before
const HOUR_MS = 3_600_000;
/** A summary holds 200 bytes. */
const PROJECT_BYTES = 150;

/** One line that names an export wherever Temporal lists it, as Markdown. */
export function rangeTitle({ projectId, dateFrom, dateTo }: VisitorExportRange): string {
  return `Visitors of ${plainMarkdown(projectId, PROJECT_BYTES)}, ${dateFrom}..${dateTo}`;
}

/** Markdown for an export's page in the web UI: how far it is, and what it waits for. */
export function rangeDetails(range: VisitorExportRange, run: RangeState, now: number): string {
  const { scan, checkpoint, trouble, expectedRows } = run;
  const about = expectedRows === null ? '' : ` of about ${grouped(Math.max(expectedRows, checkpoint.rows))}`;
  const lines = [
    `**${rangeTitle(range)}**`,
    `**Scan ${scan}**: ${grouped(checkpoint.pages)} pages, ${grouped(checkpoint.rows)} rows${about}`,
    ...paceLine(run),
    ...(run.before ? [`**Repeated**: ${run.before.inconsistency?.kind} at row ${run.before.inconsistency?.offset}`] : []),
    ...(trouble ? [`**Waits**: ${plainMarkdown(trouble)}`] : []),
    ...(run.notBefore > now ? [`**Next request**: ${new Date(run.notBefore).toISOString()}`] : []),
  ];
  return lines.join('\n\n');
}

function paceLine({ requestsPerHour, expectedRows, checkpoint }: RangeState): string[] {
  if (requestsPerHour === null) return [];
  const pace = `**Pace**: ${grouped(requestsPerHour)} requests an hour`;
  if (expectedRows === null || checkpoint.stage === 'ended') return [pace];
  const pagesLeft = Math.max(0, Math.ceil((expectedRows - checkpoint.rows) / PAGE_ROWS)) + 1; // and the first one again
  return [`${pace}, about ${hours((pagesLeft / requestsPerHour) * HOUR_MS)} left`];
}

function hours(ms: number): string {
  return ms < HOUR_MS ? `${Math.ceil(ms / 60_000)} minutes` : `${(ms / HOUR_MS).toFixed(1)} hours`;
}

function grouped(count: number): string {
  return count.toLocaleString('en-US');
}
