/** What all our Schedules share: create or change, list, describe, and the words of their errors. */
import {
  ScheduleAlreadyRunning,
  ScheduleNotFoundError,
  type Client,
  type ScheduleDescription,
  type ScheduleHandle,
  type ScheduleOptions,
  type ScheduleUpdateOptions,
} from '@temporalio/client';
import { ScheduleMissingError } from './errors.js';
import { rememberedPollers, type PolledFor } from './pollers.js';
import { temporalCall, type CallOptions } from './temporal-call.js';

/** What Temporal knows of every Schedule. */
export interface ScheduleState {
  scheduleId: string;
  paused: boolean;
  /** Why it is paused, or was resumed. */
  note: string | null;
  taskQueue: string;
  /** ISO 8601; null where there is none, as in a paused Schedule. */
  nextRunAt: string | null;
}

/** One request for each Schedule takes its time. */
const LIST_MS = 60_000;

/** Creates a Schedule, or changes the one of that id. */
export async function ensureSchedule(
  client: Client,
  scheduleId: string,
  fresh: Omit<ScheduleOptions, 'scheduleId'>,
  change: (current: ScheduleDescription) => ScheduleUpdateOptions,
): Promise<'created' | 'updated'> {
  try {
    await client.schedule.create({ scheduleId, ...fresh });
    return 'created';
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
  }
  return changeSchedule(client, scheduleId, change);
}

/** Changes the Schedule of that id; throws ScheduleNotFoundError. */
export async function changeSchedule(
  client: Client,
  scheduleId: string,
  change: (current: ScheduleDescription) => ScheduleUpdateOptions,
): Promise<'updated'> {
  await client.schedule.getHandle(scheduleId).update(change);
  return 'updated';
}

/** The state of a changed Schedule: it stays paused or active unless `paused` is given. */
export function stateAfter(
  { state }: ScheduleDescription,
  paused: boolean | null | undefined,
): ScheduleDescription['state'] {
  return { ...state, ...(paused != null && { paused }) };
}

/** Reads all Schedules whose id is wanted, by id. */
export function listSchedules<T extends ScheduleState>(
  client: Client,
  isWanted: (scheduleId: string) => boolean,
  read: (schedule: ScheduleDescription) => Promise<T>,
  options: CallOptions = {},
): Promise<T[]> {
  return temporalCall(client, { ...options, timeoutMs: options.timeoutMs ?? LIST_MS }, async () => {
    const schedules: T[] = [];
    for await (const { scheduleId } of client.schedule.list()) {
      if (!isWanted(scheduleId)) continue;
      // A removed Schedule still shows in lists for a moment.
      const schedule = await orNull(client.schedule.getHandle(scheduleId).describe());
      if (schedule) schedules.push(await read(schedule));
    }
    return schedules.sort((a, b) => (a.scheduleId < b.scheduleId ? -1 : 1));
  });
}

/** Works on one Schedule; throws ScheduleMissingError. */
export async function withSchedule<T>(
  client: Client,
  scheduleId: string,
  work: (handle: ScheduleHandle) => Promise<T>,
  options: CallOptions = {},
): Promise<T> {
  const result = await temporalCall(client, options, () =>
    orNull(work(client.schedule.getHandle(scheduleId)).then((value) => ({ value }))),
  );
  if (!result) throw new ScheduleMissingError(scheduleId);
  return result.value;
}

async function orNull<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return null;
    throw error;
  }
}

/** Workers that poll a task queue, null where Temporal does not tell. It remembers pollers for about five minutes. */
export async function countPollers(client: Client, taskQueue: string, polledFor: PolledFor): Promise<number | null> {
  return rememberedPollers(client, taskQueue, polledFor).then(
    (pollers) => pollers.length,
    () => null,
  );
}

/** What Temporal tells of a Schedule, whatever it starts. */
export function stateOf({ scheduleId, state, info, action }: ScheduleDescription): ScheduleState {
  const [next] = info.nextActionTimes;
  return {
    scheduleId,
    paused: state.paused,
    note: state.note || null,
    taskQueue: action.taskQueue,
    nextRunAt: next && !state.paused ? next.toISOString() : null,
  };
}
