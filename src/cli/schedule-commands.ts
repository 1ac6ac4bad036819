/** The commands and texts that the Schedules of exports and of recurring jobs share. */
import type { Command } from 'commander';
import type { ScheduleHandle } from '../client/schedule-handle.js';
import type { ScheduleState } from '../client/schedules.js';
import type { AgentJobs } from '../starter.js';
import { addYesOption, confirm, type ConfirmFlags } from './terminal.js';
import { print, printAnswer, printJson, withSession } from './session.js';
import { readableTime, withKeysHint } from './text.js';

/** The options that name a Schedule; a recurring job has a name in its project. */
export interface NameFlags {
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
export function addChange<S extends ScheduleState, H extends ScheduleHandle<S>>(
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
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const;

/** In the largest unit that divides it. */
export function span(millis: number): string {
  const [unit, size] = UNITS.find(([, ms]) => millis >= ms && millis % ms === 0) ?? (['ms', 1] as const);
  const count = millis / size;
  return unit === 'ms' ? `${count} ms` : `${count} ${unit}${count === 1 ? '' : 's'}`;
}
