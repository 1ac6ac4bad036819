/** What the Schedules of both kinds share: create or change, describe, list, and what is told as their problem. */
import {
  ScheduleAlreadyRunning,
  ScheduleClient,
  ScheduleNotFoundError,
  ServiceError,
  type Client,
  type ScheduleDescription,
  type ScheduleOptions,
  type ScheduleOverlapPolicy,
} from '@temporalio/client';
import { lenientOptions } from '../temporal/workflow-clients.js';
import { ScheduleMissingError } from './errors.js';
import { rememberedPollers, type PolledFor } from './pollers.js';
import { changeSchedule } from './schedule-change.js';
import { isScheduleMissing } from './temporal-errors.js';
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
  /** Times for which no run was started, because an earlier run was not over. */
  skippedRuns: number;
  /** Times that were so long ago, after an outage of Temporal, that no run was started for them. */
  missedRuns: number;
  /** Why its runs fail, or times pass without one; null where neither is so. */
  problem: string | null;
}

/** What a kind of Schedules is. */
export interface ScheduleKind<S extends ScheduleState> {
  /** The type of workflow that it starts. */
  readonly workflowType: string;
  /** The policies under which a time may have no run, or another one ends the run, without anybody having asked. */
  readonly losingOverlaps: readonly ScheduleOverlapPolicy[];
  /** Which ids are of this kind. */
  isOurs(scheduleId: string): boolean;
  /** Tells one; its `problem` is what is wrong with the input of the runs. */
  tell(client: Client, schedule: ScheduleDescription, state: Omit<ScheduleState, 'problem'>): Promise<S>;
}

/** A Schedule as it is to be, but for its state. */
type Definition = Pick<ScheduleOptions, 'spec' | 'action' | 'policies' | 'typedSearchAttributes'>;

/** What is to become of a Schedule. */
export interface ScheduleChange {
  scheduleId: string;
  /** Whether it says enough to make a new one. */
  isWhole: boolean;
  /** As it is to be, after what is there; null where there is none. Throws InvalidInputError. */
  definition(current: ScheduleDescription | null): Definition;
  /** It stays paused or active where this is not given. */
  paused: boolean | null | undefined;
}

/** One request for each Schedule takes its time. */
const LIST_MS = 60_000;
/** A Schedule that is removed between the two steps is made in the second round. */
const ROUNDS = 2;

/** Creates a Schedule, or changes the one of that id. Throws ScheduleMissingError where it is not whole. */
export async function ensureSchedule(client: Client, change: ScheduleChange): Promise<'created' | 'updated'> {
  const { scheduleId, isWhole, definition, paused } = change;
  for (let round = 1; round <= ROUNDS; round++) {
    if (isWhole && (await isCreated(client, change))) return 'created';
    try {
      await changeSchedule(client, scheduleId, (current) => ({
        ...definition(current),
        state: { ...current.state, ...(paused != null && { paused }) },
      }));
      return 'updated';
    } catch (error) {
      if (!isScheduleMissing(error)) throw error;
      if (!isWhole) break;
    }
  }
  throw new ScheduleMissingError(scheduleId);
}

/** False where there is one of that id. */
async function isCreated(client: Client, { scheduleId, definition, paused }: ScheduleChange): Promise<boolean> {
  try {
    await client.schedule.create({ scheduleId, ...definition(null), state: { paused: paused ?? false } });
    return true;
  } catch (error) {
    if (error instanceof ScheduleAlreadyRunning) return false;
    throw error;
  }
}

/** Reads all Schedules of a kind whose id is wanted, by id; `problem` tells of one whose input can't be decoded. */
export function listSchedules<S extends ScheduleState>(
  client: Client,
  kind: ScheduleKind<S>,
  options: CallOptions,
): Promise<S[]> {
  return temporalCall(client, { ...options, timeoutMs: options.timeoutMs ?? LIST_MS }, async () => {
    const schedules: S[] = [];
    for await (const { scheduleId } of client.schedule.list()) {
      if (!kind.isOurs(scheduleId)) continue;
      // A removed Schedule still shows in lists for a moment.
      const schedule = await orNull(readSchedule(client, kind, scheduleId));
      if (schedule !== null) schedules.push(schedule);
    }
    return schedules.sort((a, b) => (a.scheduleId < b.scheduleId ? -1 : 1));
  });
}

/** Reads one Schedule; throws what `isScheduleMissing` tells. */
export async function readSchedule<S extends ScheduleState>(
  client: Client,
  kind: ScheduleKind<S>,
  scheduleId: string,
): Promise<S> {
  const { schedule, undecoded } = await describeLeniently(client, scheduleId);
  const told = await kind.tell(client, schedule, stateOf(schedule));
  return { ...told, problem: undecoded ?? told.problem ?? foreignProblem(schedule, kind) };
}

/** One that nobody here can decode, such as one under another service's key, must not hide the others. */
async function describeLeniently(
  client: Client,
  scheduleId: string,
): Promise<{ schedule: ScheduleDescription; undecoded: string | null }> {
  try {
    return { schedule: await client.schedule.getHandle(scheduleId).describe(), undecoded: null };
  } catch (error) {
    if (error instanceof ScheduleNotFoundError || error instanceof ServiceError) throw error;
    const lenient = new ScheduleClient(lenientOptions(client));
    const undecoded = `its input can not be decoded: ${(error as Error).message}`;
    return { schedule: await lenient.getHandle(scheduleId).describe(), undecoded };
  }
}

function stateOf({ scheduleId, state, info, action }: ScheduleDescription): Omit<ScheduleState, 'problem'> {
  const [next] = info.nextActionTimes;
  return {
    scheduleId,
    paused: state.paused,
    note: state.note || null,
    taskQueue: action.taskQueue,
    nextRunAt: next && !state.paused ? next.toISOString() : null,
    skippedRuns: info.numActionsSkippedOverlap,
    missedRuns: info.numActionsMissedCatchupWindow,
  };
}

/** What another tool has set so that times pass without a run of ours. */
function foreignProblem<S extends ScheduleState>(
  { action: { workflowType }, policies: { overlap }, state: { remainingActions } }: ScheduleDescription,
  kind: ScheduleKind<S>,
): string | null {
  if (workflowType !== kind.workflowType) {
    return `it starts ${workflowType} instead of ${kind.workflowType}; any change here sets that right`;
  }
  if (kind.losingOverlaps.includes(overlap)) {
    return `another tool set its overlap policy to ${overlap}: a time may pass without a run, or end an earlier one`;
  }
  return remainingActions === 0 ? 'another tool limited how many runs it starts, and none is left' : null;
}

/** Null of a Schedule that is not there. */
export async function orNull<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call;
  } catch (error) {
    if (isScheduleMissing(error)) return null;
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
