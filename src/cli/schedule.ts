import type { Command } from 'commander';
import type { ExportSchedule } from '../starter.js';
import { addChanges } from './schedule-commands.js';
import { addExportSet, EXPORTS, exportSchedulesText, warnOfNoWorker } from './schedule-export.js';
import { addJobSchedule, jobSchedulesText, listWithLastRuns, type JobScheduleWithRun } from './schedule-job.js';
import { print, printJson, withSession } from './session.js';

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
