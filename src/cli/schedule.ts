/** `agent-jobs schedule …`: creates, changes and lists the Schedules of nightly exports. */
import type { Command } from 'commander';
import type { ExportSchedule } from '../starter.js';
import { checkOwnFolders } from './export-options.js';
import { toWholeNumber } from './options.js';
import { print, printAnswer, printJson, withSession } from './session.js';
import { show, showRows } from './show.js';

/** Adds `schedule`. */
export function addSchedule(program: Command): void {
  const group = program.command('schedule').description('export visitors every night');
  addSet(group);
  addList(group);
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

function addSet(group: Command): void {
  const command = group
    .command('set', { isDefault: true })
    .description('create the Schedule of a project’s exports, or change what is given; a paused one stays paused')
    .requiredOption('--project <id>', 'the upstream project')
    .option('--time-zone <name>', 'IANA name; days and hour are local to it (new: UTC)')
    .option('--hour <number>', 'local hour (new: 4, with minute 30: such a time comes once each day everywhere)')
    .option('--minute <number>', 'and minute')
    .option('--days <number>', 'how many days each run exports anew, for late data (new: 3)')
    .option('--jitter <duration>', 'by how much each run may start later, such as "10 minutes" (new: 10 minutes)')
    .option('--paused', 'create it, but start no run yet')
    .option('--no-paused', 'let it start runs')
    .option('--json', 'print the Schedule as JSON')
    .addHelpText('after', '\nExample: agent-jobs schedule --project acme --time-zone Europe/Paris --hour 5')
    .action(async ({ project: projectId, json, timeZone, jitter, paused, ...typed }: SetFlags) => {
      const number = (name: keyof typeof typed) =>
        typed[name] === undefined ? undefined : toWholeNumber(typed[name], `--${name}`);
      const [hour, days] = [number('hour'), number('days')];
      // An hour without a minute means the hour's beginning.
      const minute = number('minute') ?? (hour === undefined ? undefined : 0);
      const { taskQueue } = command.optsWithGlobals<{ taskQueue?: string }>();
      const settings = { projectId, timeZone, hour, minute, days, jitter, paused, taskQueue };
      const { checkExportSchedule } = await import('../client/visitor-export/schedule.js');
      checkExportSchedule(settings);
      await checkOwnFolders(projectId);
      await withSession(command, async ({ jobs, signal }) => {
        const { isNew, ...schedule } = await jobs.scheduleExports(settings, { signal });
        const store =
          isNew || taskQueue === undefined ? '' : `; its runs write into the store of task queue ${taskQueue}`;
        const done = `${isNew ? 'created' : 'updated'} ${schedule.scheduleId}${store}`;
        printAnswer(json, schedule, () => `${done}\n${show(shownOf(schedule))}`);
      });
    });
}

const SCHEDULE_COLUMNS = ['projectId', 'time', 'timeZone', 'days', 'next', 'note'];

function addList(group: Command): void {
  const command = group
    .command('list')
    .description('list the Schedules of nightly exports')
    .option('--json', 'print one Schedule a line')
    .action(({ json }: { json?: boolean }) =>
      withSession(command, async ({ jobs, signal }) => {
        const schedules = await jobs.exportSchedules({ signal });
        if (json) for (const schedule of schedules) printJson(schedule);
        else print(schedules.length === 0 ? 'no schedules' : showRows(schedules.map(shownOf), SCHEDULE_COLUMNS));
      }),
    );
}

/** A Schedule for a person: its time and its next run in one field each. */
function shownOf({ hour, minute, nextRunAt, paused, jitterMs, ...schedule }: ExportSchedule) {
  const time = hour === null ? '?' : `${hour}:${String(minute ?? 0).padStart(2, '0')}`;
  return { ...schedule, time, startsUpTo: `${jitterMs / 60_000} min later`, next: paused ? 'paused' : nextRunAt };
}
