import type { JobSchedule, RecurringRunSummary } from '../starter.js';
import { withKeysHint } from './keys-hint.js';
import { fields, readableTime, table } from './text.js';

/** A Schedule with its newest run; null where there is none. */
export type JobScheduleWithRun = JobSchedule & { lastRun: RecurringRunSummary | null };

/** One recurring job. */
export function jobScheduleText(schedule: JobSchedule): string {
  const { prompt, timeZone, jitterMs, overlap, queueForMs, catchUpMs, options, missedRuns, workers } = schedule;
  const later = jitterMs === 0 ? '' : `, up to ${span(jitterMs)} later`;
  return fields([
    ['When', `${whenOf(schedule)} ${timeZone}${later}`],
    ['Prompt', firstLine(prompt)],
    ['Options', Object.keys(options).length === 0 ? null : JSON.stringify(options)],
    ['Overlap', overlap === 'skip' ? 'skip' : `queue, for at most ${span(queueForMs)}`],
    ['Catch up', `what Temporal missed within ${span(catchUpMs)}`],
    ['Missed', missedRuns === 0 ? null : `${missedRuns} times lay further back, so no run was started for them`],
    ['Task queue', schedule.taskQueue],
    ['Workers', workers === null ? null : String(workers)],
    ['Next', schedule.paused ? `paused${schedule.note ? `: ${schedule.note}` : ''}` : nextOf(schedule)],
    ['Problem', schedule.problem && withKeysHint(schedule.problem)],
  ]);
}

/** Recurring jobs, one a line. */
export function jobSchedulesText(schedules: readonly JobScheduleWithRun[]): string {
  const headings = ['PROJECT', 'NAME', 'WHEN', 'TIME ZONE', 'NEXT', 'LAST RUN', 'MISSED', 'NOTE'];
  const rows = schedules.map((schedule) => [
    schedule.projectId,
    schedule.name,
    whenOf(schedule),
    schedule.timeZone,
    schedule.paused ? 'paused' : nextOf(schedule),
    schedule.lastRun === null ? '' : `${readableTime(schedule.lastRun.scheduledAt)}: ${fateOf(schedule.lastRun)}`,
    String(schedule.missedRuns),
    schedule.problem ?? schedule.note ?? '',
  ]);
  return table(headings, rows);
}

/** Runs, one a line. */
export function jobRunsText(runs: readonly RecurringRunSummary[]): string {
  if (runs.length === 0) return 'no runs yet';
  const rows = runs.map((run) => [readableTime(run.scheduledAt), fateOf(run), jobOf(run)]);
  return table(['SCHEDULED', 'FATE', 'JOB'], rows);
}

/** A run tells the id of its job also where it started none. */
function jobOf({ fate, workflowId }: RecurringRunSummary): string {
  return fate === 'skipped' || fate === 'failed' ? '' : workflowId;
}

const REASONS: Record<string, string> = {
  earlierRun: 'the job of an earlier run was not over',
  queueWait: 'it waited as long as it may',
  scheduleRemoved: 'the Schedule was removed before its job was started',
};

function fateOf({ fate, outcome, reason }: RecurringRunSummary): string {
  switch (fate) {
    case 'skipped':
      return `skipped: ${REASONS[reason ?? ''] ?? reason ?? 'no reason told'}`;
    case 'ended':
      return outcome ?? 'ended';
    case 'exists':
      return 'no new job: its key had one';
    case 'queued':
      return 'waits for an earlier job';
    case 'starting':
      return 'waits for a worker';
    case 'failed':
      return 'failed: no job was started; see the run';
    default:
      return fate;
  }
}

/** Its times, without the time zone. */
export function whenOf({ cron, everyMs }: JobSchedule): string {
  return cron ?? (everyMs === null ? 'set with other tools' : `every ${span(everyMs)}`);
}

function nextOf({ nextRunAt }: JobSchedule): string {
  return nextRunAt === null ? '' : readableTime(nextRunAt);
}

const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const;

/** In the largest unit that divides it. */
function span(millis: number): string {
  const [unit, size] = UNITS.find(([, ms]) => millis >= ms && millis % ms === 0) ?? (['ms', 1] as const);
  const count = millis / size;
  return unit === 'ms' ? `${count} ms` : `${count} ${unit}${count === 1 ? '' : 's'}`;
}

function firstLine(text: string): string {
  const line = text.trimStart().split(/[\r\n]/, 1)[0] ?? '';
  return line.length <= 100 ? line : `${line.slice(0, 99).toWellFormed()}…`;
}
