/** The commands and texts that the Schedules of nightly exports and of recurring jobs share. */
import type { Command } from 'commander';
import type { ScheduleHandle, ScheduleState } from '../client/schedules.js';
import { DAY_MS, HOUR_MS } from '../contract/shared.js';
import type { AgentJobs } from '../starter.js';
import { print, printAnswer, printJson, withSession } from './session.js';
import { readableTime, withKeysHint } from './table.js';
import { addYesOption, confirm, type ConfirmFlags } from './terminal.js';

/** The options that name a Schedule; a recurring job has a name in its project. */
export interface NameFlags {
  project: string;
  name?: string;
}

/** What is said and done otherwise for each kind: `S` is one as it is told, `H` its handle. */
export interface Kind<S extends ScheduleState, H extends ScheduleHandle<S>> {
  help: { pause: string; resume: string; remove: string };
  hasName: boolean;
  handle(jobs: AgentJobs, flags: NameFlags): H;
  /** Asked at a terminal before it is removed. */
  question(schedule: S): string;
  text(schedule: S): string;
}

export interface SetFlags extends NameFlags {
  timeZone?: string;
  jitter?: string;
  paused?: boolean;
  json?: boolean;
}

interface ChangeFlags extends NameFlags {
  note?: string;
  json?: boolean;
}

export function addNames(command: Command, { hasName }: { hasName: boolean }): Command {
  command.requiredOption('--project <id>', 'the upstream project');
  return hasName ? command.requiredOption('--name <name>', 'the name of the recurring job') : command;
}

/** Adds the options of `set` that both kinds have; what they start is a `run` or a `job`. */
export function addSetOptions(command: Command, what: 'run' | 'job', jitter: string): Command {
  return command
    .option('--jitter <duration>', jitter)
    .option('--paused', `create it, but start no ${what} yet`)
    .option('--no-paused', `let it start ${what}s`)
    .option('--json', 'print the Schedule as JSON');
}

/** Creates or changes one, and shows it. `ensure` tells whether it is new, and may warn of what it shows. */
export async function set<S extends ScheduleState, H extends ScheduleHandle<S>>(
  command: Command,
  kind: Kind<S, H>,
  flags: SetFlags,
  ensure: (jobs: AgentJobs, signal: AbortSignal) => Promise<{ isNew: boolean; warn?: (schedule: S) => void }>,
): Promise<void> {
  await withSession(command, async ({ jobs, signal }) => {
    const { isNew, warn } = await ensure(jobs, signal);
    const schedule = await kind.handle(jobs, flags).describe({ signal });
    if (flags.json) return printJson(schedule);
    print(`${isNew ? 'created' : 'updated'} ${schedule.scheduleId}\n${kind.text(schedule)}`);
    warn?.(schedule);
  });
}

/** Adds `pause`, `resume` and `remove`. */
export function addChanges<S extends ScheduleState, H extends ScheduleHandle<S>>(
  group: Command,
  kind: Kind<S, H>,
): void {
  const { help } = kind;
  addChange(group, kind, { name: 'pause', help: help.pause, done: 'paused' }, (schedule, note, signal) =>
    schedule.pause(note, { signal }),
  );
  addChange(group, kind, { name: 'resume', help: help.resume, done: 'resumed' }, (schedule, note, signal) =>
    schedule.resume(note, { signal }),
  ).alias('unpause');
  const command = addNames(group.command('remove').description(help.remove), kind)
    .option('--note <text>', 'taken like the other changes do; a Schedule that is gone keeps no note')
    .option('--json', 'print its id as JSON');
  addYesOption(command).action((flags: ChangeFlags & ConfirmFlags) =>
    withSession(command, async ({ jobs, signal }) => {
      const schedule = kind.handle(jobs, flags);
      await confirm(async () => kind.question(await schedule.describe({ signal })), flags, signal);
      await schedule.remove({ signal });
      const { projectId, scheduleId } = schedule;
      const { name } = flags;
      const told = { projectId, ...(name !== undefined && { name }), scheduleId, isRemoved: true };
      printAnswer(flags.json, told, () => `removed ${scheduleId}`);
    }),
  );
}

/** Adds a command that changes one and says that it is done. */
export function addChange<S extends ScheduleState, H extends ScheduleHandle<S>>(
  group: Command,
  kind: Kind<S, H>,
  { name, help, done }: { name: string; help: string; done: string },
  change: (schedule: H, note: string | undefined, signal: AbortSignal) => Promise<void>,
): Command {
  const command = addNames(group.command(name).description(help), kind);
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
