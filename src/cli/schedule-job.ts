import { type Command, Option } from 'commander';
import type { OverlapPolicy } from '../client/recurring-job/schedule.js';
import type { ScheduleHandle, ScheduleState } from '../client/schedules.js';
import { DAY_MS, HOUR_MS } from '../contract/shared.js';
import type {
  AgentJobs,
  JobSchedule,
  JobScheduleHandle,
  JobScheduleSettings,
  RecurringRunSummary,
} from '../starter.js';
import { readPrompt } from './input.js';
import { addJobOptions, toJobOptions, toWholeNumber } from './options.js';
import { print, printAnswer, printJson, printToStderr, withSession } from './session.js';
import { fields, firstLine, readableTime, table, withKeysHint } from './table.js';
import { addYesOption, confirm, type ConfirmFlags } from './terminal.js';

interface SetFlags {
  project: string;
  name: string;
  promptFile?: string;
  cron?: string;
  every?: string;
  timeZone?: string;
  jitter?: string;
  overlap?: OverlapPolicy;
  catchUp?: string;
  paused?: boolean;
  json?: boolean;
}

/** A Schedule with its newest run; null where there is none. */
export type JobScheduleWithRun = JobSchedule & { lastRun: RecurringRunSummary | null };

const DEFAULT_RUNS = 10;

const JOBS: ScheduleCommands<JobSchedule, JobScheduleHandle> = {
  help: {
    pause: 'start no job until it is resumed; one that runs goes on',
    resume: 'start jobs again',
    remove: 'remove it; a job that runs goes on, and no other starts',
  },
  addNames: (command) =>
    command
      .requiredOption('--project <id>', 'the upstream project')
      .requiredOption('--name <name>', 'the name of the recurring job'),
  handle: (jobs, { project, name = '' }) => jobs.recurring({ projectId: project, name }),
  question: (schedule) =>
    `Remove 1 recurring job, ${schedule.scheduleId} (${whenOf(schedule)} ${schedule.timeZone})? ` +
    'Its prompt goes with it, and no job starts by it.',
  text: scheduleText,
  warn: (schedule) => {
    if (schedule.nextRunAt === null && !schedule.paused) {
      printToStderr('agent-jobs: no time of this Schedule lies ahead: check --cron');
    }
    if (schedule.workers === 0) {
      printToStderr(`agent-jobs: no worker polls task queue ${schedule.taskQueue}: its jobs would wait for one`);
    }
  },
};

/** `agent-jobs schedule job …`: recurring jobs. */
export function addJobSchedule(schedule: Command): void {
  const group = schedule.command('job').description('start jobs again and again by a Temporal Schedule');
  addSet(group);
  addList(group);
  addShow(group);
  const help = 'have a time come now, also of a paused one: its job starts as --overlap says';
  addChange(group, JOBS, { name: 'trigger', help, done: 'triggered' }, (job, _, signal) => job.trigger({ signal }));
  addChanges(group, JOBS);
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
      new Option(
        '--overlap <policy>',
        'while the job of an earlier time is not over: skip a time, or queue one and skip those after it (new: skip)',
      ).choices(['skip', 'queue']),
    )
    .option('--catch-up <duration>', 'make up for times that Temporal missed no longer ago (new: 1 day)')
    .option('--paused', 'create it, but start no job yet')
    .option('--no-paused', 'let it start jobs')
    .option('--json', 'print it as JSON');
  addJobOptions(command).action(async (argument: string | undefined, flags: SetFlags) => {
    const isGiven = argument !== undefined || flags.promptFile !== undefined;
    const settings = toSettings(flags, isGiven ? await readPrompt(argument, flags.promptFile) : undefined);
    const { checkJobSchedule } = await import('../client/recurring-job/schedule.js');
    checkJobSchedule(settings);
    await setSchedule(command, JOBS, flags, async (jobs, signal) => (await jobs.schedule(settings, { signal })).isNew);
  });
}

function toSettings(flags: SetFlags, prompt: string | undefined): JobScheduleSettings {
  const { project: projectId, name, cron, timeZone, overlap, paused } = flags;
  const [every, jitter, catchUp] = [flags.every, flags.jitter, flags.catchUp].map(toDuration);
  const when = { cron, every, timeZone, jitter, overlap, catchUp, paused };
  return { projectId, name, prompt, ...when, ...toJobOptions(flags) };
}

function addList(group: Command): void {
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

/** Recurring jobs, each with its newest run. */
export async function listWithLastRuns(
  jobs: AgentJobs,
  filter: { projectId?: string | undefined },
  signal: AbortSignal,
): Promise<JobScheduleWithRun[]> {
  const found: JobScheduleWithRun[] = [];
  for (const schedule of await jobs.schedules(filter, { signal })) {
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
  const command = JOBS.addNames(group.command('show'))
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
          () => `${handle.scheduleId}\n${scheduleText(schedule)}\n\n${jobRunsText(runs)}`,
        );
      });
    });
}

function scheduleText(schedule: JobSchedule): string {
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
export function jobSchedulesText(schedules: readonly JobScheduleWithRun[]): string {
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

function fateOf({ fate, outcome }: RecurringRunSummary): string {
  switch (fate) {
    case 'ended':
      return outcome ?? 'ended';
    case 'exists':
      return 'no new job: its key had one';
    case 'starting':
      return 'waits for a worker';
    case 'failed':
      return 'failed: no job was started; see the run';
    default:
      return fate;
  }
}

/** Its times, without the time zone. */
function whenOf({ cron, everyMs }: JobSchedule): string {
  return cron ?? (everyMs === null ? SET_ELSEWHERE : `every ${span(everyMs)}`);
}

// The commands and texts that the Schedules of exports and of recurring jobs share.

/** The options that name a Schedule; a recurring job has a name in its project. */
interface NameFlags {
  project: string;
  name?: string;
}

/** What is said and done otherwise for each kind: `S` is one as it is told, `H` its handle. */
export interface ScheduleCommands<S extends ScheduleState, H extends ScheduleHandle<S> = ScheduleHandle<S>> {
  help: { pause: string; resume: string; remove: string };
  addNames(command: Command): Command;
  handle(jobs: AgentJobs, flags: NameFlags): H;
  /** Asked at a terminal before it is removed. */
  question(schedule: S): string;
  text(schedule: S): string;
  /** Says on standard error what keeps its runs from being made. */
  warn(schedule: S): void;
}

interface ChangeFlags extends NameFlags {
  note?: string;
  json?: boolean;
}

/** Adds `pause`, `resume` and `remove`. */
export function addChanges<S extends ScheduleState>(group: Command, kind: ScheduleCommands<S>): void {
  addChange(group, kind, { name: 'pause', help: kind.help.pause, done: 'paused' }, (schedule, note, signal) =>
    schedule.pause(note, { signal }),
  );
  addChange(group, kind, { name: 'resume', help: kind.help.resume, done: 'resumed' }, (schedule, note, signal) =>
    schedule.resume(note, { signal }),
  ).alias('unpause');
  addRemove(group, kind);
}

/** Adds a command that changes one and says that it is done. */
function addChange<S extends ScheduleState, H extends ScheduleHandle<S>>(
  group: Command,
  kind: ScheduleCommands<S, H>,
  { name, help, done }: { name: string; help: string; done: string },
  change: (schedule: H, note: string | undefined, signal: AbortSignal) => Promise<void>,
): Command {
  const command = kind.addNames(group.command(name).description(help));
  return command
    .option('--note <text>', 'why, for whoever looks at the Schedule')
    .option('--json', 'print the Schedule as JSON')
    .action((flags: ChangeFlags) =>
      withSession(command, async ({ jobs, signal }) => {
        const schedule = kind.handle(jobs, flags);
        await change(schedule, flags.note, signal);
        printAnswer(flags.json, await schedule.describe({ signal }), () => `${done} ${schedule.scheduleId}`);
      }),
    );
}

function addRemove<S extends ScheduleState>(group: Command, kind: ScheduleCommands<S>): void {
  const command = kind.addNames(group.command('remove').description(kind.help.remove));
  command.option('--note <text>', 'taken like the other changes do; a Schedule that is gone keeps no note');
  command.option('--json', 'print its id as JSON');
  addYesOption(command).action((flags: ChangeFlags & ConfirmFlags) =>
    withSession(command, async ({ jobs, signal }) => {
      const schedule = kind.handle(jobs, flags);
      await confirm(async () => kind.question(await schedule.describe({ signal })), flags, signal);
      await schedule.remove({ signal });
      const { projectId, scheduleId } = schedule;
      const { name } = flags;
      printAnswer(
        flags.json,
        { projectId, ...(name !== undefined && { name }), scheduleId, isRemoved: true },
        () => `removed ${scheduleId}`,
      );
    }),
  );
}

/** Creates or changes one, and shows it. `ensure` tells whether it is new. */
export async function setSchedule<S extends ScheduleState>(
  command: Command,
  kind: ScheduleCommands<S>,
  flags: NameFlags & { json?: boolean },
  ensure: (jobs: AgentJobs, signal: AbortSignal) => Promise<boolean>,
): Promise<void> {
  await withSession(command, async ({ jobs, signal }) => {
    const isNew = await ensure(jobs, signal);
    const schedule = await kind.handle(jobs, flags).describe({ signal });
    if (flags.json) return printJson(schedule);
    print(`${isNew ? 'created' : 'updated'} ${schedule.scheduleId}\n${kind.text(schedule)}`);
    kind.warn(schedule);
  });
}

/** Digits alone are milliseconds. */
export function toDuration(text: string | undefined): string | number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : text;
}

/** What is told of a Schedule of either kind. */
export function stateRows(schedule: ScheduleState): [label: string, value: string | null][] {
  const { paused, note, skippedRuns, missedRuns, taskQueue, problem } = schedule;
  return [
    ['Skipped', skippedRuns === 0 ? null : `${skippedRuns} times, while an earlier run was not over`],
    ['Missed', missedRuns === 0 ? null : `${missedRuns} times, which lay too far back after an outage of Temporal`],
    ['Task queue', taskQueue],
    ['Next', paused && note ? `paused: ${note}` : nextText(schedule)],
    ['Problem', problem && withKeysHint(problem)],
  ];
}

/** When its next run is. */
export function nextText({ paused, nextRunAt }: ScheduleState): string {
  if (paused) return 'paused';
  return nextRunAt === null ? '' : readableTime(nextRunAt);
}

/** For a time that no setting of ours can say. */
export const SET_ELSEWHERE = 'set with other tools';

const UNITS = [
  ['day', DAY_MS],
  ['hour', HOUR_MS],
  ['minute', 60_000],
  ['second', 1_000],
] as const;

/** In the largest unit that divides it. */
export function span(millis: number): string {
  const [unit, size] = UNITS.find(([, ms]) => millis >= ms && millis % ms === 0) ?? (['ms', 1] as const);
  const count = millis / size;
  return unit === 'ms' ? `${count} ms` : `${count} ${unit}${count === 1 ? '' : 's'}`;
}
