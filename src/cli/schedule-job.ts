import { Option, type Command } from 'commander';
import type { AgentJobs, JobSchedule, JobScheduleHandle, JobScheduleSettings, OverlapPolicy } from '../starter.js';
import { addYesOption, confirm, type ConfirmFlags } from './ask.js';
import { addJobOptions, readPrompt, toJobOptions } from './job-options.js';
import {
  jobRunsText,
  jobScheduleText,
  jobSchedulesText,
  whenOf,
  type JobScheduleWithRun,
} from './schedule-job-text.js';
import { print, printJson, printToStderr, withSession } from './session.js';
import { UsageError } from './exit.js';

interface SetFlags {
  project: string;
  name: string;
  promptFile?: string;
  cron?: string;
  every?: string;
  timeZone?: string;
  jitter?: string;
  overlap?: OverlapPolicy;
  queueFor?: string;
  catchUp?: string;
  paused?: boolean;
  json?: boolean;
}

const DEFAULT_RUNS = 10;

/** `agent-jobs schedule job …`: recurring jobs. */
export function addJobSchedule(schedule: Command): void {
  const group = schedule.command('job').description('start jobs again and again by a Temporal Schedule');
  addSet(group);
  addList(group);
  addShow(group);
  addChange(group, 'pause', 'start no job until it is resumed; what runs or waits goes on', (job, note, signal) =>
    job.pause(note, { signal }),
  );
  addChange(group, 'resume', 'start jobs again', (job, note, signal) => job.resume(note, { signal })).alias('unpause');
  addTrigger(group);
  addRemove(group);
}

const PROMPT = 'the instruction, for a new one; {date}, {time}, {timeZone} and {scheduledAt} are of the scheduled time';

function addSet(group: Command): void {
  const command = group
    .command('set', { isDefault: true })
    .description('create a recurring job, or change what is given; a paused one stays paused')
    .argument('[prompt]', `${PROMPT}; {{ and }} are braces; "-" reads stdin`)
    .requiredOption('--project <id>', 'the upstream project')
    .requiredOption('--name <name>', 'names it in its project; each key is the name and the scheduled time in UTC')
    .option('--prompt-file <path>', 'read the prompt from a file')
    .option('--cron <expression>', 'when: minute, hour, day of the month, month, day of the week')
    .option('--every <duration>', 'or at an interval, such as "6 hours", counted from 1970-01-01 00:00 UTC')
    .option('--time-zone <name>', 'IANA name; cron, date and time are local to it (new: UTC)')
    .option('--jitter <duration>', 'start up to so much later (new: 0)')
    .addOption(
      new Option('--overlap <policy>', 'while the job of an earlier time is not over (new: skip)').choices([
        'skip',
        'queue',
      ]),
    )
    .option('--queue-for <duration>', 'with queue: be skipped after so long, at most 7 days (new: 24 hours)')
    .option('--catch-up <duration>', 'make up for times that Temporal missed no longer ago (new: 1 day)')
    .option('--paused', 'create it, but start no job yet')
    .option('--no-paused', 'let it start jobs')
    .option('--json', 'print it as JSON');
  addJobOptions(command).action((prompt: string | undefined, flags: SetFlags) => set(command, prompt, flags));
}

async function set(command: Command, argument: string | undefined, flags: SetFlags): Promise<void> {
  const isGiven = argument !== undefined || flags.promptFile !== undefined;
  const settings = toSettings(flags, isGiven ? await readPrompt(argument, flags.promptFile) : undefined);
  const { checkJobSchedule } = await import('../starter.js');
  checkJobSchedule(settings);
  await withSession(command, async ({ jobs, signal }) => {
    const job = await jobs.schedule(settings, { signal });
    const schedule = await job.describe({ signal });
    if (flags.json) return printJson(schedule);
    print(`${job.isNew ? 'created' : 'updated'} ${job.scheduleId}\n${jobScheduleText(schedule)}`);
    if (schedule.nextRunAt === null && !schedule.paused) {
      printToStderr('agent-jobs: no time of this Schedule lies ahead: check --cron');
    }
    if (schedule.workers === 0) {
      printToStderr(`agent-jobs: no worker polls task queue ${schedule.taskQueue}: its jobs would wait for one`);
    }
  });
}

function toSettings(flags: SetFlags, prompt: string | undefined): JobScheduleSettings {
  const { project: projectId, name, cron, timeZone, overlap, paused } = flags;
  const [every, jitter] = [toDuration(flags.every), toDuration(flags.jitter)];
  const [queueFor, catchUp] = [toDuration(flags.queueFor), toDuration(flags.catchUp)];
  const when = { cron, every, timeZone, jitter, catchUp, paused };
  return { projectId, name, prompt, overlap, queueFor, ...when, ...toJobOptions(flags) };
}

/** Digits alone are milliseconds. */
function toDuration(text: string | undefined): string | number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : text;
}

function addList(group: Command): void {
  const command = group
    .command('list')
    .description('list recurring jobs, each with its last run')
    .option('--project <id>', 'of one project')
    .option('--json', 'print one a line')
    .action(({ project, json }: { project?: string; json?: boolean }) =>
      withSession(command, async ({ jobs, signal }) => {
        const found = await jobs.schedules({ projectId: project }, { signal });
        const schedules = await withLastRuns(jobs, found, signal);
        if (json) for (const schedule of schedules) printJson(schedule);
        else print(schedules.length === 0 ? 'no recurring jobs' : jobSchedulesText(schedules));
      }),
    );
}

/** The Schedules, each with its newest run. */
export async function withLastRuns(
  jobs: AgentJobs,
  schedules: Awaited<ReturnType<AgentJobs['schedules']>>,
  signal: AbortSignal,
): Promise<JobScheduleWithRun[]> {
  const found: JobScheduleWithRun[] = [];
  for (const schedule of schedules) {
    found.push({ ...schedule, lastRun: await lastRunOf(jobs, schedule, signal) });
  }
  return found;
}

/** Null, too, where another tool made a Schedule whose names none of ours can have. */
async function lastRunOf(
  jobs: AgentJobs,
  { projectId, name }: JobSchedule,
  signal: AbortSignal,
): Promise<JobScheduleWithRun['lastRun']> {
  try {
    const [lastRun = null] = await jobs.recurring({ projectId, name }).lastRuns(1, { signal });
    return lastRun;
  } catch (error) {
    const { InvalidInputError } = await import('../contract/input-checks.js');
    if (error instanceof InvalidInputError) return null;
    throw error;
  }
}

function addShow(group: Command): void {
  const command = named(group, 'show', 'show a recurring job and its last runs, each with its fate')
    .option('--limit <number>', 'how many runs', String(DEFAULT_RUNS))
    .option('--json', 'print it as one JSON object')
    .action(({ limit, json, ...job }: { project: string; name: string; limit: string; json?: boolean }) => {
      if (!/^[1-9]\d*$/.test(limit)) throw new UsageError('--limit must be a whole number above 0');
      return withSession(command, async ({ jobs, signal }) => {
        const handle = jobs.recurring({ projectId: job.project, name: job.name });
        const schedule = await handle.describe({ signal });
        const runs = await handle.lastRuns(Number(limit), { signal });
        if (json) printJson({ ...schedule, runs });
        else print(`${handle.scheduleId}\n${jobScheduleText(schedule)}\n\n${jobRunsText(runs)}`);
      });
    });
}

function named(group: Command, name: string, description: string): Command {
  return group
    .command(name)
    .description(description)
    .requiredOption('--project <id>', 'the upstream project')
    .requiredOption('--name <name>', 'the name of the recurring job');
}

type Change = (job: JobScheduleHandle, note: string | undefined, signal: AbortSignal) => Promise<void>;

interface ChangeFlags {
  project: string;
  name: string;
  note?: string;
  json?: boolean;
}

function addChange(group: Command, name: string, description: string, change: Change, done = `${name}d`): Command {
  const command = named(group, name, description);
  return command
    .option('--note <text>', 'why, for whoever looks at it')
    .option('--json', 'print it as JSON')
    .action(({ project, name: job, note, json }: ChangeFlags) =>
      withSession(command, async ({ jobs, signal }) => {
        const handle = jobs.recurring({ projectId: project, name: job });
        await change(handle, note, signal);
        if (json) printJson(await handle.describe({ signal }));
        else print(`${done} ${handle.scheduleId}`);
      }),
    );
}

function addTrigger(group: Command): void {
  const description = 'start a run now, also of a paused one; its scheduled time is now';
  addChange(group, 'trigger', description, (job, _, signal) => job.trigger({ signal }), 'triggered');
}

function addRemove(group: Command): void {
  const command = named(group, 'remove', 'remove it; a job that runs goes on, and runs without a job are skipped');
  command.option('--note <text>', 'taken like the other changes do; what is gone keeps no note');
  command.option('--json', 'print its id as JSON');
  addYesOption(command).action(({ project, name, ...flags }: ChangeFlags & ConfirmFlags) =>
    withSession(command, async ({ jobs, signal }) => {
      const handle = jobs.recurring({ projectId: project, name });
      await confirm(async () => questionOf(await handle.describe({ signal })), flags, signal);
      await handle.remove({ signal });
      const { scheduleId } = handle;
      if (flags.json) printJson({ projectId: project, name, scheduleId, isRemoved: true });
      else print(`removed ${scheduleId}`);
    }),
  );
}

function questionOf(schedule: JobSchedule): string {
  const when = `${whenOf(schedule)} ${schedule.timeZone}`;
  return `Remove 1 recurring job, ${schedule.scheduleId} (${when})? Its prompt goes with it, and no job starts by it.`;
}
