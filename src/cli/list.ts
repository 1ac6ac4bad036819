/** `list`: jobs by what Temporal lists of them. */
import type { Command } from 'commander';
import { OPERATIONS } from '../operations.js';
import type { JobFilter, JobSummary } from '../starter.js';
import { toLimit } from './flags.js';
import { addOperation, readArguments } from './operation.js';
import { print, printJson, printToStderr, withSession } from './session.js';
import { firstLine, showRows } from './show.js';

const DEFAULT_LIMIT = 100;
const COLUMNS = [
  ...['workflowId', 'phase', 'waitingFor', 'outcome', 'status', 'startedAt', 'workflowStatus', 'prLink', 'tags'],
  'title',
] as const;
/** `--json` has titles whole. */
const TITLE_CHARACTERS = 60;

interface ListFlags {
  project?: string;
  limit?: string;
  json?: boolean;
}

/** Adds `list`, which lists jobs. */
export function addList(program: Command): void {
  const command = addOperation(program, OPERATIONS.list, ['limit', 'cursor']);
  command
    .option('--limit <number>', `at most this many, 0 for all (default: ${DEFAULT_LIMIT}, with --json all)`)
    .action((flags: ListFlags) => list(command, flags));
}

async function list(command: Command, flags: ListFlags): Promise<void> {
  const limit = toLimit(flags.limit ?? (flags.json ? '0' : String(DEFAULT_LIMIT)));
  const { limit: _, ...typed } = flags;
  const { tag: tags, ...others } = readArguments(typed, OPERATIONS.list) as JobFilter & { tag?: string[] };
  const filter: JobFilter = { ...others, tags, projectId: flags.project };
  await withSession(command, async ({ jobs, signal }) => {
    const rows: JobSummary[] = [];
    let count = 0;
    for await (const job of jobs.list(filter, { signal })) {
      signal.throwIfAborted();
      if (count === limit) {
        printToStderr(`agent-jobs: there are more; --limit 0 lists all`);
        break;
      }
      count += 1;
      if (flags.json) printJson(job);
      else rows.push(shortened(job));
    }
    if (!flags.json) print(rows.length === 0 ? 'no jobs' : showRows(rows, COLUMNS));
  });
}

/** The project stands in the workflow's id. */
function shortened(job: JobSummary): JobSummary {
  const title = firstLine((job.title ?? '').replace(`${job.projectId}: `, ''), TITLE_CHARACTERS);
  return { ...job, title, workflowStatus: job.workflowStatus.toLowerCase() };
}
