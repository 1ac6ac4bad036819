import type { Command } from 'commander';
import type { JobSummary } from '../starter.js';
import type { JobCount } from '../client/agent-job/list.js';
import { formatJobs, outputTerminal, readableStatus } from './table.js';
import { print, printColoured, printJson, printToStderr, withSession } from './session.js';
import { fields } from './text.js';
import { requireBatch } from './batch.js';
import { addFilterOptions, toFilter, toLimit, type FilterFlags } from './options.js';

const DEFAULT_LIMIT = 100;

interface ListFlags extends FilterFlags {
  limit?: string;
  count?: boolean;
  json?: boolean;
}

/** Adds `list`, which lists jobs. */
export function addList(program: Command): void {
  const command = addFilterOptions(program.command('list').description('list jobs, one row a job'))
    .option('--limit <number>', `at most this many, 0 for all (default: ${DEFAULT_LIMIT}, with --json all)`)
    .option('--count', 'only how many they are, by the status of their workflows')
    .option('--json', 'print one line of JSON for each job')
    .action((flags: ListFlags) => list(command, flags));
}

async function list(command: Command, flags: ListFlags): Promise<void> {
  const limit = toLimit(flags.limit ?? (flags.json ? '0' : String(DEFAULT_LIMIT)));
  const filter = await toFilter(flags);
  await withSession(command, async ({ jobs, signal }) => {
    if (flags.count) {
      const found = await jobs.count(filter, { signal });
      if (found.total === 0) await requireBatch(jobs, flags.batch, signal);
      return printCount(found, flags.json ?? false);
    }
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
      else rows.push(job);
    }
    if (count === 0) await requireBatch(jobs, flags.batch, signal);
    if (!flags.json) printColoured(rows.length === 0 ? 'no jobs' : formatJobs(rows, outputTerminal()));
  });
}

function printCount(count: JobCount, isJson: boolean): void {
  if (isJson) return printJson(count);
  const rows = Object.entries(count.byStatus).map(([status, jobs]) => [readableStatus(status), String(jobs)] as const);
  print(fields([['All', String(count.total)], ...rows]));
}
