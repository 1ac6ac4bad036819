/** `list`: jobs by what Temporal lists of them. */
import type { Command } from 'commander';
import type { JobCount } from '../client/agent-job/list.js';
import {
  JOB_OUTCOMES,
  type JobOutcome,
  type Phase,
  PHASES,
  SHOWN_WAITING_FOR,
  type ShownWaitingFor,
} from '../contract.js';
import type { JobFilter, JobSummary } from '../starter.js';
import { fields, firstLine, readableTime, table } from './table.js';
import { print, printJson, printToStderr, withSession } from './session.js';
import { checkBatch, requireBatch } from './targets.js';
import { collect, toLimit, toTime } from './options.js';
import { UsageError } from './exit.js';

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
    if (!flags.json) print(rows.length === 0 ? 'no jobs' : table(HEADINGS, rows.map(rowOf)));
  });
}

const HEADINGS = [
  ...['WORKFLOW', 'PHASE', 'WAITS FOR', 'OUTCOME', 'UPSTREAM', 'STARTED', 'TEMPORAL', 'PULL REQUEST', 'TAGS', 'TITLE'],
];
/** `--json` has titles whole. */
const TITLE_CHARACTERS = 60;

function rowOf(job: JobSummary): string[] {
  return [
    ...[job.workflowId, job.phase, job.waitingFor, job.outcome, job.status].map((text) => text ?? ''),
    ...[readableTime(job.startedAt), readableStatus(job.workflowStatus), job.prLink ?? '', job.tags.join(', ')],
    // The project stands in the workflow's id.
    firstLine((job.title ?? '').replace(`${job.projectId}: `, ''), TITLE_CHARACTERS),
  ];
}

/** Temporal's status of a workflow, for people. */
function readableStatus(workflowStatus: string): string {
  return workflowStatus.toLowerCase();
}

function printCount(count: JobCount, isJson: boolean): void {
  if (isJson) return printJson(count);
  const rows = Object.entries(count.byStatus).map(([status, jobs]) => [readableStatus(status), String(jobs)] as const);
  print(fields([['All', String(count.total)], ...rows]));
}

interface FilterFlags {
  phase?: string;
  project?: string;
  jobId?: string;
  waitingFor?: string;
  batch?: string;
  tag?: string[];
  outcome?: string;
  since?: string;
  until?: string;
  endedSince?: string;
  running?: boolean;
}

/** Adds the options of `toFilter`. */
function addFilterOptions(command: Command): Command {
  return command
    .option('--phase <phase>', 'creating, watching, sending, needsAttention, lingering or done')
    .option('--project <id>', 'of one project')
    .option('--job-id <id>', 'that has this job of the upstream')
    .option('--waiting-for <reason>', 'running jobs that wait for a turn, rateLimit, upstream, key or person')
    .option('--batch <label>', 'of one batch')
    .option('--tag <label>', 'that have this tag; may be repeated', collect)
    .option('--outcome <outcome>', 'that ended so: completed, failed, timedOut, CreateRejected, Canceled …')
    .option('--since <time>', 'started at this time or later, such as 2026-01-31T09:15Z, or so long ago: "2 hours"')
    .option('--until <time>', 'started before this time, or longer ago')
    .option('--ended-since <time>', 'ended at this time or later, or no longer ago')
    .option('--running', 'only jobs whose workflow runs');
}

/** The filter that the options mean; throws a UsageError. */
async function toFilter(flags: FilterFlags): Promise<JobFilter> {
  return {
    phase: oneOf<Phase>('--phase', flags.phase, PHASES),
    waitingFor: oneOf<ShownWaitingFor>('--waiting-for', flags.waitingFor, SHOWN_WAITING_FOR),
    outcome: oneOf<JobOutcome>('--outcome', flags.outcome, JOB_OUTCOMES),
    projectId: flags.project,
    jobId: flags.jobId,
    batch: flags.batch === undefined ? undefined : await checkBatch(flags.batch),
    tags: flags.tag,
    startedAfter: await toTime('--since', flags.since),
    startedBefore: await toTime('--until', flags.until),
    endedAfter: await toTime('--ended-since', flags.endedSince),
    isRunning: flags.running,
  };
}

function oneOf<Word extends string>(flag: string, word: string | undefined, words: readonly Word[]): Word | undefined {
  const known = words.find((one) => one === word);
  if (known !== undefined || word === undefined) return known;
  throw new UsageError(`${flag} must be one of ${words.join(', ')}`);
}
