/** What the Schedules of both kinds share: create or change, list, the handle of one, and what its problem is. */
import { randomInt, randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type Client,
  ScheduleAlreadyRunning,
  ScheduleClient,
  type ScheduleDescription,
  ScheduleNotFoundError,
  type ScheduleOptions,
  type ScheduleOverlapPolicy,
  type ScheduleUpdateOptions,
  ServiceError,
} from '@temporalio/client';
import { startStopwatch } from '../temporal/elapsed-time.js';
import { lenientOptions } from '../temporal/workflow-clients.js';
import { ScheduleMissingError, TemporalUnavailableError } from './errors.js';
import { type ClientContext, limitsOf } from './settings.js';
import { type CallOptions, temporalCall } from './temporal-call.js';
import { bareCall, isScheduleMissing, isStale } from './temporal-errors.js';

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

/**
 * A Schedule. An interface, so that a plain object can stand in for it in tests. All its methods throw
 * ScheduleMissingError.
 */
export interface ScheduleHandle<S> {
  readonly projectId: string;
  readonly scheduleId: string;

  /** Reads the Schedule. */
  describe(options?: CallOptions): Promise<S>;

  /** Starts no run until it is resumed; the present one goes on. */
  pause(note?: string | null, options?: CallOptions): Promise<void>;

  /** Starts runs again. */
  resume(note?: string | null, options?: CallOptions): Promise<void>;

  /** Removes the Schedule. Its present run goes on, and no other one starts; what its runs have made stays. */
  remove(options?: CallOptions): Promise<void>;
}

/** A handle that asks Temporal; making one sends no request. */
export class TemporalScheduleHandle<S extends ScheduleState> implements ScheduleHandle<S> {
  readonly projectId: string;
  readonly scheduleId: string;
  readonly #context: ClientContext;
  readonly #kind: ScheduleKind<S>;

  constructor(
    context: ClientContext,
    kind: ScheduleKind<S>,
    { projectId, scheduleId }: { projectId: string; scheduleId: string },
  ) {
    this.#context = context;
    this.#kind = kind;
    this.projectId = projectId;
    this.scheduleId = scheduleId;
  }

  async describe(options: CallOptions = {}): Promise<S> {
    return withSchedule(this.#context, this.scheduleId, options, (client) =>
      readSchedule(client, this.#kind, this.scheduleId),
    );
  }

  async pause(note?: string | null, options: CallOptions = {}): Promise<void> {
    await this.#setPaused(true, note || 'paused', options);
  }

  async resume(note?: string | null, options: CallOptions = {}): Promise<void> {
    await this.#setPaused(false, note || 'resumed', options);
  }

  async remove(options: CallOptions = {}): Promise<void> {
    await withSchedule(this.#context, this.scheduleId, options, (client) =>
      client.schedule.getHandle(this.scheduleId).delete(),
    );
  }

  #setPaused(paused: boolean, notes: string, options: CallOptions): Promise<void> {
    return withSchedule(this.#context, this.scheduleId, options, (client) =>
      setPaused(client, this.scheduleId, { paused, notes }),
    );
  }
}

/** Works on one Schedule within the limits of the call; throws ScheduleMissingError. */
export async function withSchedule<T>(
  context: ClientContext,
  scheduleId: string,
  options: CallOptions,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const { client } = context;
  return temporalCall(client, limitsOf(context, options), async () => {
    try {
      return await work(client);
    } catch (error) {
      throw isScheduleMissing(error) ? new ScheduleMissingError(scheduleId) : error;
    }
  });
}

/** A Schedule as it is to be, but for its state. */
type Definition = Pick<ScheduleOptions, 'spec' | 'action' | 'policies' | 'typedSearchAttributes'>;

/** What is to become of a Schedule. */
interface ScheduleChange {
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
      try {
        schedules.push(await readSchedule(client, kind, scheduleId));
      } catch (error) {
        // A removed Schedule still shows in lists for a moment.
        if (!isScheduleMissing(error)) throw error;
      }
    }
    return schedules.sort((a, b) => (a.scheduleId < b.scheduleId ? -1 : 1));
  });
}

/** Reads one Schedule; throws what `isScheduleMissing` tells. */
async function readSchedule<S extends ScheduleState>(
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

/** The input of the runs, as it stands there; empty of none. */
export function inputIn<Input extends object>(schedule: ScheduleDescription | null): Partial<Input> {
  const input: unknown = schedule?.action.args?.[0];
  return typeof input === 'object' && input !== null ? input : {};
}

// Changes of a Schedule: read, merge, write. Of two callers who have read the same, the server applies one; it
// answers both alike, and more often than not before it has applied any. So each change bears a mark, by which it is
// found.

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
async function setPaused(
  client: Client,
  scheduleId: string,
  change: { paused: boolean; notes: string },
): Promise<void> {
  const { namespace, identity } = client.options;
  const isPausedSo = ({ schedule }: Described) => (schedule?.state?.paused ?? false) === change.paused;
  const write = async (service: Service) => {
    const { schedule } = await bareCall(service.describeSchedule({ namespace, scheduleId }));
    const state = { ...schedule?.state, ...change };
    const request = { namespace, identity, scheduleId, requestId: randomUUID(), schedule: { ...schedule, state } };
    await bareCall(service.updateSchedule(request));
  };
  await untilMade(client, scheduleId, write, isPausedSo);
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
