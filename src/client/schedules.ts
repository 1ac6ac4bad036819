/** What all our Schedules share: create or change, list, describe, and the words of their errors. */
import { setTimeout as pause } from 'node:timers/promises';
import {
  ScheduleAlreadyRunning,
  ScheduleClient,
  ScheduleNotFoundError,
  ServiceError,
  type Client,
  type ScheduleDescription,
  type ScheduleHandle,
  type ScheduleOptions,
  type ScheduleUpdateOptions,
} from '@temporalio/client';
import { startStopwatch } from '../temporal/elapsed-time.js';
import { lenientOptions } from '../temporal/lenient-workflow-client.js';
import { ScheduleMissingError } from './errors.js';
import { rememberedPollers, type PolledFor } from './pollers.js';
import { changeSchedule } from './schedule-change.js';
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
/** For how long a pause is waited for. */
const APPLIED_MS = 3_000;

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

/** Pauses or resumes. The server takes an empty note for none at all, and would change nothing. */
export async function setPaused(
  handle: ScheduleHandle,
  paused: boolean,
  note: string | null | undefined,
): Promise<void> {
  const text = noteOr(paused, note);
  await (paused ? handle.pause(text) : handle.unpause(text));
  await untilApplied(async () => {
    const { state } = await handle.describe();
    return state.paused === paused && state.note === text;
  });
}

/** The note of a pause, or of its end. */
function noteOr(paused: boolean, note: string | null | undefined): string {
  return note || (paused ? 'paused' : 'resumed');
}

/** Waits until the server shows a change. It answers before it has applied one, and may apply the next one first. */
async function untilApplied(isApplied: () => Promise<boolean>): Promise<void> {
  const elapsedMs = startStopwatch();
  // Another's change may hide it for good, and without an answer nobody can tell.
  while (elapsedMs() < APPLIED_MS && !(await isApplied().catch(() => true))) await pause(50);
}

/** The state of a changed Schedule: it stays paused or active unless `paused` is given. */
export function stateAfter(
  { state }: ScheduleDescription,
  paused: boolean | null | undefined,
): ScheduleDescription['state'] {
  return { ...state, ...(paused != null && { paused }) };
}

/** Reads all Schedules whose id is wanted, by id; `problem` tells of one whose input can't be decoded. */
export function listSchedules<T extends ScheduleState & { problem: string | null }>(
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
      const schedule = await orNull(readSchedule(client, scheduleId, read));
      if (schedule !== null) schedules.push(schedule);
    }
    return schedules.sort((a, b) => (a.scheduleId < b.scheduleId ? -1 : 1));
  });
}

/** Reads one Schedule; `problem` tells where its input can't be decoded. */
export async function readSchedule<T extends { problem: string | null }>(
  client: Client,
  scheduleId: string,
  read: (schedule: ScheduleDescription) => Promise<T>,
): Promise<T> {
  const { schedule, problem } = await describeLeniently(client, scheduleId);
  const found = await read(schedule);
  return { ...found, problem: problem ?? found.problem };
}

/** One that nobody here can decode, such as one under another service's key, must not hide the others. */
async function describeLeniently(
  client: Client,
  scheduleId: string,
): Promise<{ schedule: ScheduleDescription; problem: string | null }> {
  try {
    return { schedule: await client.schedule.getHandle(scheduleId).describe(), problem: null };
  } catch (error) {
    if (isOfServer(error)) throw error;
    const lenient = new ScheduleClient(lenientOptions(client));
    const problem = `its input can not be decoded: ${(error as Error).message}`;
    return { schedule: await lenient.getHandle(scheduleId).describe(), problem };
  }
}

function isOfServer(error: unknown): boolean {
  return error instanceof ScheduleNotFoundError || error instanceof ServiceError;
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

/** Null of a Schedule that is not there. */
export async function orNull<T>(call: Promise<T>): Promise<T | null> {
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
