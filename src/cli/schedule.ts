/** `agent-jobs schedule …`: the Schedules of nightly exports, and the list of those of recurring jobs beside them. */
import type { Command } from 'commander';
import type { ExportSchedule, ExportScheduleSettings } from '../starter.js';
import {
  addChanges,
  addJobSchedule,
  jobSchedulesText,
  type JobScheduleWithRun,
  listWithLastRuns,
  nextText,
  type ScheduleCommands,
  SET_ELSEWHERE,
  setSchedule,
  span,
  stateRows,
  toDuration,
} from './schedule-job.js';
import { print, printJson, printToStderr, withSession } from './session.js';
import { toWholeNumber } from './options.js';
import { fields, table } from './table.js';

/** `agent-jobs schedule …`: the Schedules of nightly exports and of recurring jobs. */
export function addSchedule(program: Command): void {
  const group = program.command('schedule').description('export visitors every night, and start recurring jobs');
  addExportSet(group);
  addList(group);
  addChanges(group, EXPORTS);
  addJobSchedule(group);
}

function addList(group: Command): void {
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
          print(listText(exports, recurring));
        }
        warnOfNoWorker(exports);
      }),
    );
}

function listText(exports: ExportSchedule[], recurring: JobScheduleWithRun[]): string {
  if (exports.length + recurring.length === 0) return 'no schedules';
  const tables = [
    ...(exports.length === 0 ? [] : [`Exports\n${exportSchedulesText(exports)}`]),
    ...(recurring.length === 0 ? [] : [`Jobs\n${jobSchedulesText(recurring)}`]),
  ];
  return tables.join('\n\n');
}

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

/** What is said and done for the Schedules of exports. */
const EXPORTS: ScheduleCommands<ExportSchedule> = {
  help: {
    pause: 'start no run until it is resumed; a running one goes on',
    resume: 'start runs again',
    remove: 'remove it; snapshots stay, and a running export goes on',
  },
  addNames: (command) => command.requiredOption('--project <id>', 'the upstream project'),
  handle: (jobs, { project }) => jobs.exportSchedule(project),
  question: (schedule) =>
    `Remove 1 Schedule, ${schedule.scheduleId} (every day at ${timeOf(schedule)} ${schedule.timeZone})? ` +
    'No export starts by it any more; snapshots stay.',
  text: scheduleText,
  warn: (schedule) => {
    warnOfClockChanges(schedule);
    warnOfNoWorker([schedule]);
  },
};

/** `agent-jobs schedule set`. */
function addExportSet(group: Command): void {
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
      const { checkExportSchedule } = await import('../client/visitor-export/schedule.js');
      checkExportSchedule(settings);
      await setSchedule(command, EXPORTS, flags, async (jobs, signal) => {
        return (await jobs.ensureExportSchedule(settings, { signal })) === 'created';
      });
    });
}

function toSettings({ project, timeZone, hour, minute, days, jitter, paused }: SetFlags): ExportScheduleSettings {
  const number = (text: string | undefined, flag: string) =>
    text === undefined ? undefined : toWholeNumber(text, flag);
  return {
    projectId: project,
    timeZone,
    hour: number(hour, '--hour'),
    // A given hour means its beginning.
    minute: number(minute ?? (hour === undefined ? undefined : '0'), '--minute'),
    days: number(days, '--days'),
    jitter: toDuration(jitter),
    paused,
  };
}

function warnOfClockChanges({ hour, timeZone }: ExportSchedule): void {
  const changes = !/^(UTC|Etc\/.*)$/.test(timeZone);
  const { first, last } = HOURS_WITHOUT_CHANGE;
  if (!changes || hour === null || (hour >= first && hour <= last)) return;
  printToStderr('agent-jobs: where the clocks change at this hour, one run a year may be skipped or come twice;');
  printToStderr('  the next run exports those days again where --days is above 1. It can not from 4:00 to 20:59.');
}

/** Says which task queues no worker serves. */
function warnOfNoWorker(schedules: ExportSchedule[]): void {
  const idle = schedules.filter(({ exportWorkers }) => exportWorkers === 0).map(({ taskQueue }) => taskQueue);
  for (const taskQueue of new Set(idle)) {
    printToStderr(
      `agent-jobs: no worker asks for exports of task queue ${taskQueue}, so its runs would wait for ever;`,
    );
    printToStderr('  run one with SNAPSHOTS_URL set and "exports" among its WORKER_ROLES.');
  }
}

function scheduleText(schedule: ExportSchedule): string {
  const { days, jitterMs, timeZone, exportWorkers } = schedule;
  return fields([
    ['Every day', `${timeOf(schedule)} ${timeZone}, up to ${span(jitterMs)} later`],
    ['Exports', days === 1 ? 'the day before' : `the ${days} days before`],
    ['Export workers', exportWorkers === null ? null : String(exportWorkers)],
    ...stateRows(schedule),
  ]);
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
