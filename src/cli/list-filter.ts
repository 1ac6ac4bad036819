/** The options that say which jobs a command is for, as the filter of the client. */
import type { Command } from 'commander';
import type { JobOutcome, Phase, ShownWaitingFor } from '../contract.js';
import type { JobFilter } from '../starter.js';
import { checkBatch } from './batch.js';
import { UsageError } from './exit.js';
import { collect } from './job-options.js';

export interface FilterFlags {
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
export function addFilterOptions(command: Command): Command {
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
export async function toFilter(flags: FilterFlags): Promise<JobFilter> {
  const { JOB_OUTCOMES, PHASES, SHOWN_WAITING_FOR } = await import('../contract.js');
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
    closedAfter: await toTime('--ended-since', flags.endedSince),
    isRunning: flags.running,
  };
}

function oneOf<Word extends string>(flag: string, word: string | undefined, words: readonly Word[]): Word | undefined {
  const known = words.find((one) => one === word);
  if (known !== undefined || word === undefined) return known;
  throw new UsageError(`${flag} must be one of ${words.join(', ')}`);
}

/** The time that an option means; a date is midnight by UTC. Throws a UsageError. */
export async function toTime(flag: string, text: string | undefined): Promise<Date | undefined> {
  if (text === undefined) return undefined;
  if (/^\d{4}-\d\d-\d\d/.test(text)) {
    const time = new Date(text);
    if (!Number.isNaN(time.getTime())) return time;
  }
  const { checkDuration } = await import('../contract/input-checks.js');
  try {
    return new Date(Date.now() - checkDuration(text, flag));
  } catch {
    throw new UsageError(`${flag} must be a time such as 2026-01-31T09:15Z, or how long ago, such as "2 hours"`);
  }
}
