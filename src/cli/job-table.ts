/** Jobs as a table: for a terminal, which it fits, and for a program, which reads the same text today as before. */
import type { JobSummary } from '../starter.js';
import { fittedTable, type Cell, type Column } from './fitted-table.js';
import { readableTime, relativeTime, table, type Colour } from './text.js';

const COLUMNS: readonly Column[] = [
  { heading: 'WORKFLOW', least: 24, isCutInMiddle: true },
  { heading: 'PHASE' },
  { heading: 'WAITS FOR' },
  { heading: 'OUTCOME' },
  { heading: 'UPSTREAM', least: 9, dropRank: 1 },
  { heading: 'TEMPORAL', dropRank: 3 },
  { heading: 'STARTED', dropRank: 2 },
  { heading: 'PULL REQUEST', least: 20, isCutInMiddle: true, dropRank: 4 },
  { heading: 'TAGS', least: 8, dropRank: 5 },
  { heading: 'TITLE', least: 12, dropRank: 6 },
];
/** Texts of the caller are nobody's state, whatever they are. */
const UNCOLOURED = ['WORKFLOW', 'PULL REQUEST', 'TAGS', 'TITLE'];
/** `--json` has titles whole. */
const TITLE_CHARACTERS = 60;

const COLOURS: Record<string, Colour> = {
  needsAttention: 'red',
  person: 'red',
  key: 'red',
  upstream: 'yellow',
  turn: 'yellow',
  rateLimit: 'yellow',
  completed: 'green',
  archived: 'green',
  failed: 'red',
  terminated: 'red',
  timed_out: 'red',
  cancelled: 'yellow',
  running: 'cyan',
};

/** The table as a text, for a terminal of this width or, without one, for a program. */
export function formatJobs(jobs: readonly JobSummary[], terminal?: { width: number; now: number }): string {
  if (terminal === undefined) {
    const rows = jobs.map((job) => cellsOf(job, readableTime(job.startedAt)));
    return table(
      COLUMNS.map(({ heading }) => heading),
      rows,
    );
  }
  const { width, now } = terminal;
  const rows = jobs.map((job) => cellsOf(job, relativeTime(job.startedAt, now)).map(coloured));
  return fittedTable(COLUMNS, rows, width).join('\n');
}

/** The terminal of standard output; undefined where that is a file or a pipe. */
export function outputTerminal(): { width: number; now: number } | undefined {
  return process.stdout.isTTY ? { width: process.stdout.columns || 80, now: Date.now() } : undefined;
}

function cellsOf(job: JobSummary, started: string): string[] {
  return [
    job.workflowId,
    job.phase ?? '',
    job.waitingFor ?? '',
    job.outcome ?? '',
    job.status ?? '',
    readableStatus(job.workflowStatus),
    started,
    job.prLink ?? '',
    job.tags.join(', '),
    shortTitle(job),
  ];
}

/** Temporal's status of a workflow, for people. */
export function readableStatus(workflowStatus: string): string {
  return workflowStatus.toLowerCase();
}

/** The project stands in the workflow's id. */
function shortTitle({ title, projectId }: JobSummary): string {
  const characters = Array.from((title ?? '').replace(`${projectId}: `, ''));
  if (characters.length <= TITLE_CHARACTERS) return characters.join('');
  return `${characters.slice(0, TITLE_CHARACTERS - 1).join('')}…`;
}

function coloured(text: string, column: number): Cell {
  const colour = UNCOLOURED.includes(COLUMNS[column]!.heading) ? undefined : COLOURS[text];
  return colour === undefined ? text : { text, colour };
}
