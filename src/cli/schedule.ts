/** `agent-jobs schedule …`: the Schedules of nightly exports, and by `schedule job …` those of recurring jobs. */
import { type Command, Option } from 'commander';
import type { OverlapPolicy } from '../client/recurring-job/schedule.js';
import type { ScheduleHandle } from '../client/schedules.js';
import type {
  AgentJobs,
  ExportSchedule,
  ExportScheduleSettings,
  JobSchedule,
  JobScheduleHandle,
  JobScheduleSettings,
  RecurringRunSummary,
} from '../starter.js';
import { readPrompt } from './input.js';
import { addJobOptions, toJobOptions, toWholeNumber } from './options.js';
import {
  addChange,
  addChanges,
  addNames,
  addSetOptions,
  type Kind,
  type NameFlags,
  nextText,
  set,
  SET_ELSEWHERE,
  type SetFlags,
  span,
  stateRows,
  toDuration,
} from './schedule-commands.js';
import { print, printAnswer, printJson, printToStderr, withSession } from './session.js';
import { fields, firstLine, readableTime, table } from './table.js';

/** Adds `schedule`. */
export function addSchedule(program: Command): void {
  const group = program.command('schedule').description('export visitors every night, and start recurring jobs');
  addExportSet(group);
  addScheduleList(group);
  addChanges(group, EXPORTS);
  const jobs = group.command('job').description('start jobs again and again by a Temporal Schedule');
  addJobSet(jobs);
  addJobList(jobs);
  addJobShow(jobs);
  const help = 'have a time come now, also of a paused one: its job starts as --overlap says';
  addChange(jobs, JOBS, { name: 'trigger', help, done: 'triggered' }, (job, _, signal) => job.trigger({ signal }));
  addChanges(jobs, JOBS);
}

/** `schedule list`: those of both kinds. */
function addScheduleList(group: Command): void {
  const command = group
    .command('list')
    .description('list the Schedules of nightly exports and of recurring jobs')
    .option('--json', 'print one Schedule a line; "kind" is "export" or "job"')
    .action(({ json }: { json?: boolean }) =>
      withSession(command, async ({ jobs, signal }) => {
        const exports = await jobs.exportSchedules({ signal });
        const recurring = await listWithLastRuns(jobs, {}, signal);
        if (json) {
          for (const schedule of exports) printJson({ kind: 'export', ...schedule });
          for (const schedule of recurring) printJson({ kind: 'job', ...schedule });
        } else {
          const tables = [
            ...(exports.length === 0 ? [] : [`Exports\n${exportSchedulesText(exports)}`]),
            ...(recurring.length === 0 ? [] : [`Jobs\n${jobSchedulesText(recurring)}`]),
          ];
          print(tables.length === 0 ? 'no schedules' : tables.join('\n\n'));
        }
        warnOfNoWorker(exports);
      }),
    );
}

// Nightly exports.

const EXPORTS: Kind<ExportSchedule, ScheduleHandle<ExportSchedule>> = {
  help: {
    pause: 'start no run until it is resumed; a running one goes on',
    resume: 'start runs again',
    remove: 'remove it; snapshots stay, and a running export goes on',
  },
  hasName: false,
  handle: (jobs, { project }) => jobs.exportSchedule(project),
  question: (schedule) =>
    `Remove 1 Schedule, ${schedule.scheduleId} (every day at ${timeOf(schedule)} ${schedule.timeZone})? ` +
    'No export starts by it any more; snapshots stay.',
  text: (schedule) => {
    const { days, jitterMs, timeZone, workers } = schedule;
    return fields([
      ['Every day', `${timeOf(schedule)} ${timeZone}, up to ${span(jitterMs)} later`],
      ['Exports', days === 1 ? 'the day before' : `the ${days} days before`],
      ['Export workers', workers === null ? null : String(workers)],
      ...stateRows(schedule),
    ]);
  },
};

interface ExportSetFlags extends SetFlags {
  hour?: string;
  minute?: string;
  days?: string;
}

function addExportSet(group: Command): void {
  const command = addNames(group.command('set', { isDefault: true }), EXPORTS)
    .description('create the Schedule of a project’s exports, or change what is given; a paused one stays paused')
    .option('--time-zone <name>', 'IANA name; days and hour are local to it (new: UTC)')
    .option('--hour <number>', 'local hour (new: 4, with minute 30: such a time comes once each day everywhere)')
    .option('--minute <number>', 'and minute')
    .option('--days <number>', 'how many days each run exports anew, for late data (new: 3)');
  const jitter = 'start up to so much later, such as "10 minutes" (new: 10 minutes)';
  addSetOptions(command, 'run', jitter).action(async (flags: ExportSetFlags) => {
    const settings = toExportSettings(flags);
    const { checkExportSchedule } = await import('../client/visitor-export/schedule.js');
    checkExportSchedule(settings);
    await set(command, EXPORTS, flags, async (jobs, signal) => {
      const isNew = (await jobs.ensureExportSchedule(settings, { signal })) === 'created';
      return { isNew, warn: (schedule) => warnOfNoWorker([schedule]) };
    });
  });
}

function toExportSettings(flags: ExportSetFlags): ExportScheduleSettings {
  const { project: projectId, timeZone, hour, jitter, paused } = flags;
  // A given hour means its beginning.
  const minute = flags.minute ?? (hour === undefined ? undefined : '0');
  const number = (text: string | undefined, flag: string) =>
    text === undefined ? undefined : toWholeNumber(text, flag);
  const time = { hour: number(hour, '--hour'), minute: number(minute, '--minute') };
  return { projectId, timeZone, ...time, days: number(flags.days, '--days'), jitter: toDuration(jitter), paused };
}

/** Says which task queues no worker serves. */
function warnOfNoWorker(schedules: ExportSchedule[]): void {
  const idle = schedules.filter(({ workers }) => workers === 0).map(({ taskQueue }) => taskQueue);
  for (const taskQueue of new Set(idle)) {
    printToStderr(
      `agent-jobs: no worker asks for exports of task queue ${taskQueue}, so its runs would wait for ever;`,
    );
    printToStderr('  run one with SNAPSHOTS_URL set and "exports" among its WORKER_ROLES.');
  }
}

/** Schedules, one a line. */
function exportSchedulesText(schedules: readonly ExportSchedule[]): string {
  const headings = ['PROJECT', 'TIME', 'TIME ZONE', 'DAYS', 'NEXT', 'NOTE'];
  const rows = schedules.map((schedule) => {
    const { projectId, timeZone, days, problem, note } = schedule;
    return [projectId, timeOf(schedule), timeZone, String(days), nextText(schedule), problem ?? note ?? ''];
  });
  return table(headings, rows);
}

function timeOf({ hour, minute }: ExportSchedule): string {
  return hour === null ? SET_ELSEWHERE : `${hour}:${String(minute).padStart(2, '0')}`;
}

// Recurring jobs.

/** A Schedule with its newest run; null where there is none. */
type JobScheduleWithRun = JobSchedule & { lastRun: RecurringRunSummary | null };

const DEFAULT_RUNS = 10;

const JOBS: Kind<JobSchedule, JobScheduleHandle> = {
  help: {
    pause: 'start no job until it is resumed; one that runs goes on',
    resume: 'start jobs again',
    remove: 'remove it; a job that runs goes on, and no other starts',
  },
  hasName: true,
  handle: (jobs, { project, name = '' }) => jobs.recurring({ projectId: project, name }),
  question: (schedule) =>
    `Remove 1 recurring job, ${schedule.scheduleId} (${whenOf(schedule)} ${schedule.timeZone})? ` +
    'Its prompt goes with it, and no job starts by it.',
  text: jobText,
};

interface JobSetFlags extends SetFlags {
  name: string;
  promptFile?: string;
  cron?: string;
  every?: string;
  overlap?: OverlapPolicy;
  catchUp?: string;
}

const PROMPT = 'the instruction, for a new one; {date}, {time}, {timeZone} and {scheduledAt} are of the scheduled time';

function addJobSet(group: Command): void {
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
    .addOption(
      new Option(
        '--overlap <policy>',
        'while the job of an earlier time is not over: skip a time, or queue one and skip those after it (new: skip)',
      ).choices(['skip', 'queue']),
    )
    .option('--catch-up <duration>', 'make up for times that Temporal missed no longer ago (new: 1 day)');
  addSetOptions(addJobOptions(command), 'job', 'start up to so much later (new: 0)').action(
    async (argument: string | undefined, flags: JobSetFlags) => {
      const isGiven = argument !== undefined || flags.promptFile !== undefined;
      const settings = toJobSettings(flags, isGiven ? await readPrompt(argument, flags.promptFile) : undefined);
      const { checkJobSchedule } = await import('../client/recurring-job/schedule.js');
      checkJobSchedule(settings);
      await set(command, JOBS, flags, (jobs, signal) => jobs.schedule(settings, { signal }));
    },
  );
}

function toJobSettings(flags: JobSetFlags, prompt: string | undefined): JobScheduleSettings {
  const { project: projectId, name, cron, timeZone, overlap, paused } = flags;
  const [every, jitter, catchUp] = [flags.every, flags.jitter, flags.catchUp].map(toDuration);
  const when = { cron, every, timeZone, jitter, overlap, catchUp, paused };
  return { projectId, name, prompt, ...when, ...toJobOptions(flags) };
}

function addJobList(group: Command): void {
  const command = group
    .command('list')
    .description('list recurring jobs, each with its last run')
    .option('--project <id>', 'of one project')
    .option('--json', 'print one a line')
    .action(({ project, json }: { project?: string; json?: boolean }) =>
      withSession(command, async ({ jobs, signal }) => {
        const schedules = await listWithLastRuns(jobs, { projectId: project }, signal);
        if (json) for (const schedule of schedules) printJson(schedule);
        else print(schedules.length === 0 ? 'no recurring jobs' : jobSchedulesText(schedules));
      }),
    );
}

/** Recurring jobs, each with its newest run. A Schedule of another tool, whose name none of ours can have, has none. */
export async function listWithLastRuns(
  jobs: AgentJobs,
  filter: { projectId?: string | undefined },
  signal: AbortSignal,
): Promise<JobScheduleWithRun[]> {
  const { InvalidInputError } = await import('../contract/input-checks.js');
  const found: JobScheduleWithRun[] = [];
  for (const schedule of await jobs.schedules(filter, { signal })) {
    const { projectId, name } = schedule;
    const lastRuns = async () => jobs.recurring({ projectId, name }).lastRuns(1, { signal });
    const [lastRun = null] = await lastRuns().catch((error: unknown) => {
      if (error instanceof InvalidInputError) return [];
      throw error;
    });
    found.push({ ...schedule, lastRun });
  }
  return found;
}

function addJobShow(group: Command): void {
  const command = addNames(group.command('show'), JOBS)
    .description('show a recurring job and its last runs, each with its fate')
    .option('--limit <number>', 'how many runs', String(DEFAULT_RUNS))
    .option('--json', 'print it as one JSON object')
    .action(({ limit, json, ...flags }: NameFlags & { limit: string; json?: boolean }) => {
      const count = toWholeNumber(limit, '--limit', { min: 1, rule: ' above 0' });
      return withSession(command, async ({ jobs, signal }) => {
        const handle = JOBS.handle(jobs, flags);
        const schedule = await handle.describe({ signal });
        const runs = await handle.lastRuns(count, { signal });
        printAnswer(
          json,
          { ...schedule, runs },
          () => `${handle.scheduleId}\n${jobText(schedule)}\n\n${jobRunsText(runs)}`,
        );
      });
    });
}

function jobText(schedule: JobSchedule): string {
  const { prompt, timeZone, jitterMs, overlap, catchUpMs, options, workers } = schedule;
  const later = jitterMs === 0 ? '' : `, up to ${span(jitterMs)} later`;
  return fields([
    ['When', `${whenOf(schedule)} ${timeZone}${later}`],
    ['Prompt', firstLine(prompt)],
    ['Options', Object.keys(options).length === 0 ? null : JSON.stringify(options)],
    ['Overlap', overlap ?? SET_ELSEWHERE],
    ['Catch up', `what Temporal missed within ${span(catchUpMs)}`],
    ['Workers', workers === null ? null : String(workers)],
    ...stateRows(schedule),
  ]);
}

/** Recurring jobs, one a line. */
function jobSchedulesText(schedules: readonly JobScheduleWithRun[]): string {
  const headings = ['PROJECT', 'NAME', 'WHEN', 'TIME ZONE', 'NEXT', 'LAST RUN', 'SKIPPED', 'MISSED', 'NOTE'];
  const rows = schedules.map((schedule) => [
    schedule.projectId,
    schedule.name,
    whenOf(schedule),
    schedule.timeZone,
    nextText(schedule),
    schedule.lastRun === null ? '' : `${readableTime(schedule.lastRun.scheduledAt)}: ${fateOf(schedule.lastRun)}`,
    String(schedule.skippedRuns),
    String(schedule.missedRuns),
    schedule.problem ?? schedule.note ?? '',
  ]);
  return table(headings, rows);
}

function jobRunsText(runs: readonly RecurringRunSummary[]): string {
  if (runs.length === 0) return 'no runs yet';
  // A run tells the id of its job also where it started none.
  const jobOf = ({ fate, workflowId }: RecurringRunSummary) => (fate === 'failed' ? '' : workflowId);
  const rows = runs.map((run) => [readableTime(run.scheduledAt), fateOf(run), jobOf(run)]);
  return table(['SCHEDULED', 'FATE', 'JOB'], rows);
}

const FATES: Partial<Record<RecurringRunSummary['fate'], string>> = {
  exists: 'no new job: its key had one',
  starting: 'waits for a worker',
  failed: 'failed: no job was started; see the run',
};

function fateOf({ fate, outcome }: RecurringRunSummary): string {
  return fate === 'ended' ? (outcome ?? fate) : (FATES[fate] ?? fate);
}

/** Its times, without the time zone. */
function whenOf({ cron, everyMs }: JobSchedule): string {
  return cron ?? (everyMs === null ? SET_ELSEWHERE : `every ${span(everyMs)}`);
}
