/** What all Schedules of the fake client share: create or change, list, describe, pause, remove. */
import { ScheduleMissingError } from '../errors.js';
import { noteOr, type ScheduleState } from '../schedules.js';
import { checkLimits, type CallOptions } from '../temporal-call.js';

/** A Schedule in memory. */
export interface FakeSchedule<S> {
  readonly scheduleId: string;
  spec: S;
  paused: boolean;
  note: string | null;
  isRemoved: boolean;
}

/** The Schedules of one kind: `S` is what their settings say, `K` what else is told of each. */
export class FakeScheduleStore<S extends object, K extends object> {
  readonly #taskQueue: string;
  readonly #known: K;
  readonly #schedules = new Map<string, FakeSchedule<S>>();

  constructor(taskQueue: string, known: K) {
    this.#taskQueue = taskQueue;
    this.#known = known;
  }

  /** Creates one, or changes the one that is there; without `paused` that stays paused or active. */
  ensure(
    scheduleId: string,
    paused: boolean | null | undefined,
    specAfter: (there: S | null) => S,
  ): 'created' | 'updated' {
    const there = this.#schedules.get(scheduleId);
    const spec = specAfter(there?.spec ?? null);
    const schedule = there ?? { scheduleId, spec, paused: false, note: null, isRemoved: false };
    this.#schedules.set(scheduleId, Object.assign(schedule, { spec, paused: paused ?? schedule.paused }));
    return there ? 'updated' : 'created';
  }

  /** All, by id. */
  list(): (S & K & ScheduleState)[] {
    const told = [...this.#schedules.values()].map((schedule) => this.#describe(schedule));
    return told.toSorted((a, b) => (a.scheduleId < b.scheduleId ? -1 : 1));
  }

  /** What every handle can do; its calls throw ScheduleMissingError. */
  handle(scheduleId: string) {
    const setPaused = (paused: boolean, note: string | null | undefined, options?: CallOptions) =>
      this.work(
        scheduleId,
        options,
        (schedule) => void Object.assign(schedule, { paused, note: noteOr(paused, note) }),
      );
    return {
      scheduleId,
      describe: (options?: CallOptions) => this.work(scheduleId, options, (schedule) => this.#describe(schedule)),
      pause: (note?: string | null, options?: CallOptions) => setPaused(true, note, options),
      resume: (note?: string | null, options?: CallOptions) => setPaused(false, note, options),
      remove: (options?: CallOptions) =>
        this.work(scheduleId, options, (schedule) => {
          schedule.isRemoved = true;
          this.#schedules.delete(scheduleId);
        }),
    };
  }

  /** Throws ScheduleMissingError. */
  async work<T>(
    scheduleId: string,
    options: CallOptions | undefined,
    change: (schedule: FakeSchedule<S>) => T,
  ): Promise<T> {
    checkLimits(options);
    const schedule = this.#schedules.get(scheduleId);
    if (!schedule) throw new ScheduleMissingError(scheduleId);
    return change(schedule);
  }

  #describe({ scheduleId, spec, paused, note }: FakeSchedule<S>): S & K & ScheduleState {
    return { ...spec, ...this.#known, scheduleId, paused, note, taskQueue: this.#taskQueue, nextRunAt: null };
  }
}
