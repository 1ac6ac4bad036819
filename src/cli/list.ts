import type { Command } from 'commander';
import type { Phase, ShownWaitingFor } from '../contract.js';
import type { JobSummary } from '../starter.js';
import { checkBatch } from './batch.js';
import { formatJobs, outputTerminal } from './job-table.js';
import { print, printJson, printToStderr, withSession } from './session.js';
import { UsageError } from './exit.js';

const DEFAULT_LIMIT = 100;

interface ListFlags {
  phase?: string;
  project?: string;
  waitingFor?: string;
  batch?: string;
  running?: boolean;
  limit: string;
  json?: boolean;
}

/** Adds `list`, which lists jobs. */
export function addList(program: Command): void {
  const command = program
    .command('list')
    .description('list jobs')
    .option('--phase <phase>', 'creating, watching, sending, needsAttention, lingering or done')
    .option('--project <id>', 'of one project')
    .option('--waiting-for <reason>', 'running jobs that wait for a turn, rateLimit, upstream, key or person')
    .option('--batch <label>', 'of one batch')
    .option('--running', 'only jobs whose workflow runs')
    .option('--limit <number>', 'at most this many, 0 for all', String(DEFAULT_LIMIT))
    .option('--json', 'print one line of JSON for each job')
    .action((flags: ListFlags) => list(command, flags));
}

async function list(command: Command, flags: ListFlags): Promise<void> {
  const limit = toLimit(flags.limit);
  const phase = await toPhase(flags.phase);
  const waitingFor = await toWaitingFor(flags.waitingFor);
  const batch = flags.batch === undefined ? undefined : await checkBatch(flags.batch);
  const filter = { phase, waitingFor, projectId: flags.project, batch, isRunning: flags.running };
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
      else rows.push(job);
    }
    if (!flags.json) print(rows.length === 0 ? 'no jobs' : formatJobs(rows, outputTerminal()));
  });
}

function toLimit(text: string): number {
  const limit = Number(text);
  if (!/^\d+$/.test(text)) throw new UsageError('--limit must be a whole number, 0 for all');
  return limit === 0 ? Infinity : limit;
}

export async function toPhase(phase: string | undefined): Promise<Phase | undefined> {
  if (phase === undefined) return undefined;
  const { PHASES } = await import('../contract.js');
  const known = PHASES.find((name) => name === phase);
  if (known === undefined) throw new UsageError(`--phase must be one of ${PHASES.join(', ')}`);
  return known;
}

export async function toWaitingFor(reason: string | undefined): Promise<ShownWaitingFor | undefined> {
  if (reason === undefined) return undefined;
  const { SHOWN_WAITING_FOR } = await import('../contract.js');
  const known = SHOWN_WAITING_FOR.find((name) => name === reason);
  if (known === undefined) throw new UsageError(`--waiting-for must be one of ${SHOWN_WAITING_FOR.join(', ')}`);
  return known;
}
