/** The handle of a Schedule, of either kind: describe, pause, resume, remove. */
import { orNull, readSchedule, type ScheduleKind, type ScheduleState, setPaused } from './schedules.js';
import { ScheduleMissingError } from './errors.js';
import { limitsOf, type ClientContext } from './settings.js';
import { temporalCall, type CallOptions } from './temporal-call.js';

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

  describe(options: CallOptions = {}): Promise<S> {
    const { client } = this.#context;
    return withSchedule(this.#context, this, options, () => readSchedule(client, this.#kind, this.scheduleId));
  }

  pause(note?: string | null, options: CallOptions = {}): Promise<void> {
    const { client } = this.#context;
    return withSchedule(this.#context, this, options, () => setPaused(client, this.scheduleId, true, note));
  }

  resume(note?: string | null, options: CallOptions = {}): Promise<void> {
    const { client } = this.#context;
    return withSchedule(this.#context, this, options, () => setPaused(client, this.scheduleId, false, note));
  }

  remove(options: CallOptions = {}): Promise<void> {
    const { client } = this.#context;
    return withSchedule(this.#context, this, options, () => client.schedule.getHandle(this.scheduleId).delete());
  }
}

/** Works on one Schedule within the limits of the call; throws ScheduleMissingError. */
export async function withSchedule<T>(
  context: ClientContext,
  { scheduleId }: { scheduleId: string },
  options: CallOptions,
  work: () => Promise<T>,
): Promise<T> {
  const wrapped = () => orNull(work().then((value) => ({ value })));
  const result = await temporalCall(context.client, limitsOf(context, options), wrapped);
  if (!result) throw new ScheduleMissingError(scheduleId);
  return result.value;
}
