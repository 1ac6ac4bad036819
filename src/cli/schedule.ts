import type { Command } from 'commander';
import type { ExportSchedule, ExportScheduleHandle } from '../starter.js';
import { addYesOption, confirm, type ConfirmFlags } from './ask.js';
import { addJobSchedule, withLastRuns } from './schedule-job.js';
import { jobSchedulesText } from './schedule-job-text.js';
import { print, printJson, printToStderr, withSession } from './session.js';
import { fields, readableTime, table } from './text.js';
import { UsageError } from './exit.js';

interface SetFlags {
  project: string;
  timeZone?: string;
  hour?: string;
  minute?: string;
  days?: string;
  jitter?: string;
  paused?: boolean;
  json?: boolean;
}

/** Outside these hours clocks change somewhere: a local time may come twice, or not at all. */
const HOURS_WITHOUT_CHANGE = { first: 4, last: 20 };

/** One request for each Schedule takes its time. */
const LIST_MS = 60_000;

/** `agent-jobs schedule …`: the Schedules of nightly exports and of recurring jobs. */
export function addSchedule(program: Command): void {
  const group = program
    .command('schedule')
    .description('by Temporal Schedules: export visitors every night, and start recurring jobs');
  addSet(group);
  addList(group);
  addPause(group);
  addResume(group);
  addRemove(group);
  addJobSchedule(group);
}

function addSet(group: Command): void {
  const command = group
    .command('set', { isDefault: true })
    .description('create the Schedule of a project’s exports, or change what is given; a paused one stays paused')
    .requiredOption('--project <id>', 'the upstream project')
    .option('--time-zone <name>', 'IANA name; days and hour are local to it (new: UTC)')
    .option('--hour <number>', 'local hour (new: 4, with minute 30: such a time comes once each day everywhere)')
    .option('--minute <number>', 'and minute')
    .option('--days <number>', 'how many days each run exports anew, for late data (new: 3)')
    .option('--jitter <duration>', 'start up to so much later, such as "10 minutes" (new: 10 minutes)')
    .option('--paused', 'create it, but start no run yet')
    .option('--no-paused', 'let it start runs')
    .option('--json', 'print the Schedule as JSON')
    .action(async (flags: SetFlags) => {
      const settings = toSettings(flags);
      const { checkExportSchedule, describeExportSchedule } = await import('../starter.js');
      checkExportSchedule(settings);
      await withSession(command, async ({ jobs, signal }) => {
        const done = await jobs.ensureExportSchedule(settings, { signal });
        const schedule = await describeExportSchedule(jobs.client, flags.project);
        if (flags.json) return printJson(schedule);
        print(`${done} ${schedule.scheduleId}\n${scheduleText(schedule)}`);
        warnOfClockChanges(schedule);
        warnOfNoWorker([schedule]);
      });
    });
}

function toSettings({ project, timeZone, hour, minute, days, jitter, paused }: SetFlags) {
  return {
    projectId: project,
    timeZone,
    hour: toNumber(hour, '--hour'),
    // A given hour means its beginning.
    minute: toNumber(minute ?? (hour === undefined ? undefined : '0'), '--minute'),
    days: toNumber(days, '--days'),
    jitter: jitter !== undefined && /^\d+$/.test(jitter) ? Number(jitter) : jitter,
    paused,
  };
}

function toNumber(text: string | undefined, option: string): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d+$/.test(text)) throw new UsageError(`${option} must be a whole number`);
  return Number(text);
}

function warnOfClockChanges({ hour, timeZone }: ExportSchedule): void {
  const changes = !/^(UTC|Etc\/.*)$/.test(timeZone);
  const { first, last } = HOURS_WITHOUT_CHANGE;
  if (!changes || (hour >= first && hour <= last)) return;
  printToStderr('agent-jobs: where the clocks change at this hour, one run a year may be skipped or come twice;');
  printToStderr('  the next run exports those days again where --days is above 1. It can not from 4:00 to 20:59.');
}

function warnOfNoWorker(schedules: ExportSchedule[]): void {
  const idle = schedules.filter(({ exportWorkers }) => exportWorkers === 0).map(({ taskQueue }) => taskQueue);
  for (const taskQueue of new Set(idle)) {
    printToStderr(
      `agent-jobs: no worker asks for exports of task queue ${taskQueue}, so its runs would wait for ever;`,
    );
    printToStderr('  run one with SNAPSHOTS_URL set and "exports" among its WORKER_ROLES.');
  }
}

function addList(group: Command): void {
  const command = group
    .command('list')
    .description('list the Schedules of nightly exports and of recurring jobs')
    .option('--json', 'print one Schedule a line; "kind" is "export" or "job"')
    .action(({ json }: { json?: boolean }) =>
      withSession(command, async ({ jobs, signal }) => {
        const { listExportSchedules } = await import('../starter.js');
        const { temporalCall } = await import('../client/temporal-call.js');
        const schedules = await temporalCall(jobs.client, { signal, timeoutMs: LIST_MS }, () =>
          listExportSchedules(jobs.client),
        );
        const recurring = await withLastRuns(jobs, await jobs.schedules({}, { signal }), signal);
        if (json) {
          for (const schedule of schedules) printJson({ kind: 'export', ...schedule });
          for (const schedule of recurring) printJson({ kind: 'job', ...schedule });
        } else {
          print(listText(schedules, recurring));
        }
        warnOfNoWorker(schedules);
      }),
    );
}

function listText(exports: ExportSchedule[], recurring: Parameters<typeof jobSchedulesText>[0]): string {
  if (exports.length + recurring.length === 0) return 'no schedules';
  const tables = [
    ...(exports.length === 0 ? [] : [`Exports\n${schedulesText(exports)}`]),
    ...(recurring.length === 0 ? [] : [`Jobs\n${jobSchedulesText(recurring)}`]),
  ];
  return tables.join('\n\n');
}

function addPause(group: Command): void {
  const description = 'start no run until it is resumed; a running one goes on';
  addChange(group, 'pause', description, (schedule, note, signal) => schedule.pause(note, { signal }));
}

function addResume(group: Command): void {
  const description = 'start runs again';
  addChange(group, 'resume', description, (schedule, note, signal) => schedule.resume(note, { signal }));
}

interface ChangeFlags {
  project: string;
  note?: string;
  json?: boolean;
}

function addChange(
  group: Command,
  name: string,
  description: string,
  change: (schedule: ExportScheduleHandle, note: string | undefined, signal: AbortSignal) => Promise<void>,
): void {
  const command = group
    .command(name)
    .description(description)
    .requiredOption('--project <id>', 'the upstream project')
    .option('--note <text>', 'why, for whoever looks at the Schedule')
    .option('--json', 'print the Schedule as JSON')
    .action(({ project, note, json }: ChangeFlags) =>
      withSession(command, async ({ jobs, signal }) => {
        const schedule = jobs.exportSchedule(project);
        await change(schedule, note, signal);
        if (json) printJson(await schedule.describe({ signal }));
        else print(`${name}d ${schedule.scheduleId}`);
      }),
    );
}

function addRemove(group: Command): void {
  const command = group
    .command('remove')
    .description('remove it; snapshots stay, and a running export goes on')
    .requiredOption('--project <id>', 'the upstream project')
    .option('--note <text>', 'taken like the other changes do; a Schedule that is gone keeps no note')
    .option('--json', 'print its id as JSON');
  addYesOption(command).action(({ project, ...flags }: ConfirmFlags & { project: string }) =>
    withSession(command, async ({ jobs, signal }) => {
      const schedule = jobs.exportSchedule(project);
      await confirm(async () => questionOf(await schedule.describe({ signal })), flags, signal);
      await schedule.remove({ signal });
      const { projectId, scheduleId } = schedule;
      if (flags.json) printJson({ projectId, scheduleId, isRemoved: true });
      else print(`removed ${scheduleId}`);
    }),
  );
}

function questionOf(schedule: ExportSchedule): string {
  const when = `every day at ${timeOf(schedule)} ${schedule.timeZone}`;
  return `Remove 1 Schedule, ${schedule.scheduleId} (${when})? No export starts by it any more; snapshots stay.`;
}

function scheduleText(schedule: ExportSchedule): string {
  return fields([
    ['Every day', `${timeOf(schedule)} ${schedule.timeZone}, up to ${schedule.jitterMs / 1_000} s later`],
    ['Exports', schedule.days === 1 ? 'the day before' : `the ${schedule.days} days before`],
    ['Task queue', schedule.taskQueue],
    ['Export workers', schedule.exportWorkers === null ? null : String(schedule.exportWorkers)],
    ['Next', schedule.paused ? `paused${schedule.note ? `: ${schedule.note}` : ''}` : nextOf(schedule)],
    ['Problem', schedule.problem],
  ]);
}

function schedulesText(schedules: ExportSchedule[]): string {
  const headings = ['PROJECT', 'TIME', 'TIME ZONE', 'DAYS', 'NEXT', 'NOTE'];
  const rows = schedules.map((schedule) => {
    const next = schedule.paused ? 'paused' : nextOf(schedule);
    const note = schedule.problem ?? schedule.note ?? '';
    return [schedule.projectId, timeOf(schedule), schedule.timeZone, String(schedule.days), next, note];
  });
  return table(headings, rows);
}

function timeOf({ hour, minute }: ExportSchedule): string {
  return `${hour}:${String(minute).padStart(2, '0')}`;
}

function nextOf({ nextRunAt }: ExportSchedule): string {
  return nextRunAt === null ? '' : readableTime(nextRunAt);
}
