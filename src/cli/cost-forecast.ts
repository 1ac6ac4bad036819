/** `cost --forecast`: what jobs will cost on Temporal, part by part. It asks no server. */
import type { Command } from 'commander';
import type { JobForecast, TypicalJob } from '../agent-job/job-forecast.js';
import { COST_SOURCE, number } from './cost-text.js';
import { UsageError } from './exit.js';
import { print, printJson } from './session.js';
import { fields, table } from './text.js';

/** The flags of the forecast, as typed. */
export interface ForecastFlags {
  jobsPerDay?: string;
  length?: string;
  pollMin?: string;
  pollMax?: string;
  pollRatio?: string;
  followUps?: string;
  rateLimited?: boolean;
}

const DAYS_PER_MONTH = 30;
/** More follow-ups than a job takes, or more jobs than any namespace starts, are typed by mistake. */
const MOST = { jobsPerDay: 1e9, followUps: 1_000 };
/** `deadline` is so long unless it is given. */
const DEFAULT_DEADLINE_MS = 24 * 3_600_000;
const NOTES = [
  'not counted: queries such as those of state and watch, writes that wait for their turn or a key, polls that fail',
  'without prompts, each of which history keeps twice',
];

/** Adds the options of the forecast to a command. */
export function addForecastOptions(command: Command): Command {
  return command
    .option('--forecast', 'what jobs will cost, by the options below; needs no server')
    .option('--jobs-per-day <number>', 'with --forecast: how many jobs')
    .option('--length <duration>', 'with --forecast: how long a job is open, such as "10 minutes"')
    .option('--follow-ups <number>', 'with --forecast: of each job, spread evenly over its length (default: 0)')
    .option('--poll-min <duration>', 'with --forecast: shortest wait between two reads (default: 2 seconds)')
    .option('--poll-max <duration>', 'with --forecast: longest wait between two reads (default: 60 seconds)')
    .option(
      '--poll-ratio <number>',
      'with --forecast: wait as a share of the time since the last change (default: 0.1)',
    )
    .option('--rate-limited', 'with --forecast: for workers that have UPSTREAM_REQUESTS_PER_SECOND');
}

/** Prints the forecast; throws where an option is wrong. */
export async function showForecast(flags: ForecastFlags, isJson: boolean): Promise<void> {
  const { forecastJob } = await import('../agent-job/job-forecast.js');
  const jobsPerDay = toCount(required(flags.jobsPerDay, '--jobs-per-day'), '--jobs-per-day', [1, MOST.jobsPerDay]);
  const job = await toJob(flags);
  const forecast = forecastJob(job);
  const notes = [...NOTES, ...(job.lengthMs > DEFAULT_DEADLINE_MS ? ['such a job needs a --deadline of its own'] : [])];
  const perJob = totalsOf(forecast);
  const perDay = multiplied(perJob, jobsPerDay);
  const perMonth = multiplied(perDay, DAYS_PER_MONTH);
  if (isJson) {
    const { lengthMs, plan, followUps, mode } = job;
    const asked = { jobsPerDay, lengthMs, polling: plan, followUps, isRateLimited: mode === 'attempts' };
    const { reads, parts } = forecast;
    return printJson({ ...asked, reads, parts, perJob, perDay, perMonth, notes, source: COST_SOURCE });
  }
  print(forecastText({ jobsPerDay, job, forecast, notes }, [perJob, perDay, perMonth]));
}

interface Totals {
  billableActions: number;
  historyEvents: number;
  historyBytes: number;
}

function totalsOf({ billableActions, historyEvents, historyBytes }: JobForecast): Totals {
  return { billableActions, historyEvents, historyBytes };
}

function multiplied({ billableActions, historyEvents, historyBytes }: Totals, times: number): Totals {
  return {
    billableActions: billableActions * times,
    historyEvents: historyEvents * times,
    historyBytes: historyBytes * times,
  };
}

interface Shown {
  jobsPerDay: number;
  job: TypicalJob;
  forecast: JobForecast;
  notes: readonly string[];
}

function forecastText({ jobsPerDay, job, forecast, notes }: Shown, totals: readonly Totals[]): string {
  const { plan, lengthMs, followUps } = job;
  const head = fields([
    ['Jobs a day', number(jobsPerDay)],
    ['Length', `${lengthMs / 1_000} s`],
    ['Reads', `${forecast.reads} a job, ${plan.minMs / 1_000} to ${plan.maxMs / 1_000} s apart, ratio ${plan.ratio}`],
    ['Follow-ups', `${followUps} a job`],
  ]);
  const parts = table(
    ['OF A JOB', 'COUNT', 'ACTIONS EACH', 'ACTIONS'],
    [
      ...forecast.parts
        .filter(({ count }) => count > 0)
        .map(({ part, count, actionsEach }) => [part, number(count), String(actionsEach), number(count * actionsEach)]),
      ['sum', '', '', number(forecast.billableActions)],
    ],
  );
  const rowOf = (label: string, figure: keyof Totals) => [label, ...totals.map((total) => number(total[figure]))];
  const sums = table(
    ['', 'A JOB', 'A DAY', `A MONTH (${DAYS_PER_MONTH} DAYS)`],
    [
      rowOf('billable actions', 'billableActions'),
      rowOf('history events', 'historyEvents'),
      rowOf('history bytes', 'historyBytes'),
    ],
  );
  return [head, '', parts, '', sums, `(by ${COST_SOURCE})`, ...notes.map((note) => `(${note})`)].join('\n');
}

async function toJob(flags: ForecastFlags): Promise<TypicalJob> {
  const { checkDuration } = await import('../contract/input-checks.js');
  const { parseJobInput } = await import('../agent-job/input.js');
  const { pollMin: min = null, pollMax: max = null, pollRatio } = flags;
  const ratio = pollRatio === undefined ? null : toNumber(pollRatio, '--poll-ratio');
  const { polling: plan } = parseJobInput({ projectId: 'p', prompt: 'x', polling: { min, max, ratio } });
  return {
    lengthMs: checkDuration(required(flags.length, '--length'), '--length'),
    plan,
    followUps: flags.followUps === undefined ? 0 : toCount(flags.followUps, '--follow-ups', [0, MOST.followUps]),
    mode: flags.rateLimited ? 'attempts' : 'lease',
  };
}

function required(text: string | undefined, flag: string): string {
  if (text === undefined) throw new UsageError(`--forecast needs ${flag}`);
  return text;
}

function toCount(text: string, flag: string, [min, max]: readonly [number, number]): number {
  const count = Number(text);
  if (/^\d+$/.test(text) && count >= min && count <= max) return count;
  throw new UsageError(`${flag} must be a whole number, ${min} to ${max.toLocaleString('en-US')}`);
}

function toNumber(text: string, flag: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new UsageError(`${flag} must be a number`);
  return value;
}
