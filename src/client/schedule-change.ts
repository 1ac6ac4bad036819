/**
 * Changes of a Schedule: read, merge, write. Of two callers who have read the same, the server applies one; it answers
 * both alike, and more often than not before it has applied any. So each change bears a mark, by which it is found.
 */
import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  ScheduleClient,
  ScheduleNotFoundError,
  type Client,
  type ScheduleDescription,
  type ScheduleHandle,
  type ScheduleUpdateOptions,
} from '@temporalio/client';
import { startStopwatch } from '../temporal/elapsed-time.js';
import { TemporalUnavailableError } from './errors.js';
import { isStale } from './temporal-errors.js';

/** For how long a change is tried, and waited for. */
const CHANGE_MS = 30_000;
/** A whole number in JSON and JavaScript. */
const MAX_MARK = 2 ** 47;
/** Before the Schedule is read once more; callers at once should not stay so. */
const READ_AGAIN_MS = { min: 20, max: 80 };

/**
 * Changes the Schedule of that id. `change` is called again where another change came between. Throws
 * ScheduleNotFoundError.
 */
export async function changeSchedule(
  client: Client,
  scheduleId: string,
  change: (current: ScheduleDescription) => ScheduleUpdateOptions,
): Promise<'updated'> {
  const elapsedMs = startStopwatch();
  while (elapsedMs() < CHANGE_MS) {
    const mark = randomInt(1, MAX_MARK);
    const handle = clientOfOneChange(client, mark).getHandle(scheduleId);
    let before: ScheduleDescription | undefined;
    try {
      await handle.update((current) => change((before = current)));
      const after = await nextAfter(before, handle, () => elapsedMs() < CHANGE_MS);
      if (after === 'removed' || (after && isMarked(after, mark))) return 'updated';
    } catch (error) {
      if (!isStale(error)) throw error;
    }
    await pauseBriefly();
  }
  const why = 'Temporal does not show the change, or others change it all the time';
  throw new TemporalUnavailableError(`Schedule ${scheduleId} may not be changed: ${why}; try again later`);
}

/** The Schedule once it has changed; null where that does not show in time. Another caller may have removed it. */
async function nextAfter(
  before: ScheduleDescription | undefined,
  handle: ScheduleHandle,
  isInTime: () => boolean,
): Promise<ScheduleDescription | 'removed' | null> {
  while (isInTime()) {
    const current = await handle.describe().catch(removedOrThrow);
    if (current === 'removed' || versionOf(current) !== versionOf(before)) return current;
    await pauseBriefly();
  }
  return null;
}

function removedOrThrow(error: unknown): 'removed' {
  if (error instanceof ScheduleNotFoundError) return 'removed';
  throw error;
}

/** A pause counts as a change, a run does not. */
function versionOf(schedule: ScheduleDescription | undefined): string {
  return String([schedule?.raw.conflictToken, schedule?.info.lastUpdatedAt]);
}

function pauseBriefly(): Promise<void> {
  return pause(randomInt(READ_AGAIN_MS.min, READ_AGAIN_MS.max));
}

/**
 * Temporal keeps the number of actions that remain, and counts it down only where they are limited. Those of a Schedule
 * that are, by another tool, are left alone.
 */
function isMarked({ raw, state }: ScheduleDescription, mark: number): boolean {
  return state.remainingActions !== undefined || Number(raw.schedule?.state?.remainingActions) === mark;
}

/** A client whose update is for the Schedule as it has described it last, and bears the mark. */
function clientOfOneChange({ connection, options }: Client, mark: number): ScheduleClient {
  const { namespace, identity, loadedDataConverter } = options;
  const service = connection.workflowService;
  let conflictToken: Uint8Array | null = null;
  const marking = {
    async describeSchedule(request: Parameters<Service['describeSchedule']>[0]) {
      const response = await service.describeSchedule(request);
      conflictToken = response.conflictToken ?? null;
      return response;
    },
    updateSchedule: (request: Update) => service.updateSchedule({ ...marked(request, mark), conflictToken }),
  };
  const workflowService = Object.assign(Object.create(service) as Service, marking);
  return new ScheduleClient({
    connection: Object.create(connection, { workflowService: { value: workflowService } }) as typeof connection,
    namespace,
    identity,
    dataConverter: loadedDataConverter,
  });
}

type Service = Client['workflowService'];
type Update = Parameters<Service['updateSchedule']>[0];

function marked(update: Update, mark: number): Update {
  const state = update.schedule?.state;
  if (state?.limitedActions) return update;
  // By its type a Long; a number is sent alike.
  const remainingActions = mark as never;
  return { ...update, schedule: { ...update.schedule, state: { ...state, remainingActions } } };
}
