/**
 * Changes of a Schedule: read, merge, write. Of two callers who have read the same, the server applies one; it answers
 * both alike, and more often than not before it has applied any. So each change bears a mark, by which it is found.
 */
import { randomInt, randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { ScheduleClient, type Client, type ScheduleDescription, type ScheduleUpdateOptions } from '@temporalio/client';
import { startStopwatch } from '../temporal/elapsed-time.js';
import { TemporalUnavailableError } from './errors.js';
import { bareCall, isStale } from './temporal-errors.js';

/** For how long a change is tried, and waited for. */
const CHANGE_MS = 30_000;
/** Before the Schedule is read once more; callers at once should not stay so. */
const READ_AGAIN_MS = { min: 20, max: 80 };
/** The header of the runs that holds the mark: no page shows headers, and no workflow of ours reads this one. */
const MARK_HEADER = 'agent-jobs-change';

type Service = Client['workflowService'];
type Described = Awaited<ReturnType<Service['describeSchedule']>>;
type Update = Parameters<Service['updateSchedule']>[0];

/**
 * Changes the Schedule of that id. `change` is called again where another change came between. Throws what
 * `isScheduleMissing` tells, as below.
 */
export async function changeSchedule(
  client: Client,
  scheduleId: string,
  change: (current: ScheduleDescription) => ScheduleUpdateOptions,
): Promise<void> {
  await untilMade(client, scheduleId, (service) => clientOver(client, service).getHandle(scheduleId).update(change));
}

/**
 * Pauses or resumes, whether or not the input of the runs can be decoded here; again where another's write undid it
 * before it was seen.
 */
export async function setPaused(
  client: Client,
  scheduleId: string,
  paused: boolean,
  note: string | null | undefined,
): Promise<void> {
  const { namespace, identity } = client.options;
  const isPausedSo = ({ schedule }: Described) => (schedule?.state?.paused ?? false) === paused;
  const write = async (service: Service) => {
    const { schedule } = await bareCall(service.describeSchedule({ namespace, scheduleId }));
    const state = { ...schedule?.state, paused, notes: noteOr(paused, note) };
    const request = { namespace, identity, scheduleId, requestId: randomUUID(), schedule: { ...schedule, state } };
    await bareCall(service.updateSchedule(request));
  };
  await untilMade(client, scheduleId, write, isPausedSo);
}

/** The note of a pause, or of its end. */
function noteOr(paused: boolean, note: string | null | undefined): string {
  return note || (paused ? 'paused' : 'resumed');
}

/** Writes until the Schedule shows the change. */
async function untilMade(
  client: Client,
  scheduleId: string,
  write: (service: Service) => Promise<void>,
  isKept: (after: Described) => boolean = () => true,
): Promise<void> {
  const elapsedMs = startStopwatch();
  while (elapsedMs() < CHANGE_MS) {
    const mark = randomUUID();
    const { service, readBefore } = serviceOfOneChange(client, mark);
    try {
      await write(service);
      const after = await nextAfter(readBefore(), client, scheduleId, () => elapsedMs() < CHANGE_MS);
      if (after && markOf(after) === mark && isKept(after)) return;
    } catch (error) {
      if (!isStale(error)) throw error;
    }
    await pauseBriefly();
  }
  const why = 'Temporal does not show the change, or others change it all the time';
  throw new TemporalUnavailableError(`Schedule ${scheduleId} may not be changed: ${why}; try again later`);
}

/** The Schedule once it has changed; null where that does not show in time. */
async function nextAfter(
  before: Described | null,
  { workflowService, options: { namespace } }: Client,
  scheduleId: string,
  isInTime: () => boolean,
): Promise<Described | null> {
  while (isInTime()) {
    const current = await bareCall(workflowService.describeSchedule({ namespace, scheduleId }));
    if (versionOf(current) !== versionOf(before)) return current;
    await pauseBriefly();
  }
  return null;
}

/** A pause counts as a change, a run does not. The tokens of a Schedule that is made anew begin anew. */
function versionOf(described: Described | null): string {
  return JSON.stringify([described?.conflictToken, described?.info?.createTime]);
}

function pauseBriefly(): Promise<void> {
  return pause(randomInt(READ_AGAIN_MS.min, READ_AGAIN_MS.max));
}

/** A service whose update is for the Schedule as it has described it last, and bears the mark. */
function serviceOfOneChange({ workflowService }: Client, mark: string) {
  let before: Described | null = null;
  const marking = {
    describeSchedule: async (request: Parameters<Service['describeSchedule']>[0]) =>
      (before = await workflowService.describeSchedule(request)),
    updateSchedule: (request: Update) =>
      workflowService.updateSchedule({ ...marked(request, mark), conflictToken: before?.conflictToken ?? null }),
  };
  const service = Object.assign(Object.create(workflowService) as Service, marking);
  return { service, readBefore: () => before };
}

function clientOver({ connection, options }: Client, service: Service): ScheduleClient {
  const { namespace, identity, loadedDataConverter } = options;
  return new ScheduleClient({
    connection: Object.create(connection, { workflowService: { value: service } }) as typeof connection,
    namespace,
    identity,
    dataConverter: loadedDataConverter,
  });
}

function marked(update: Update, mark: string): Update {
  const { schedule } = update;
  const startWorkflow = schedule?.action?.startWorkflow;
  const payload = { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from(JSON.stringify(mark)) };
  const header = { fields: { ...startWorkflow?.header?.fields, [MARK_HEADER]: payload } };
  return { ...update, schedule: { ...schedule, action: { startWorkflow: { ...startWorkflow, header } } } };
}

function markOf({ schedule }: Described): unknown {
  const data = schedule?.action?.startWorkflow?.header?.fields?.[MARK_HEADER]?.data;
  return data ? JSON.parse(Buffer.from(data).toString()) : null;
}
