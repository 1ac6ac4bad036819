/**
 * Two things about attempts of activities that the SDK has no function for. The server's time: the SDK tells only when
 * an attempt was scheduled. Another attempt at no cost in history: an attempt that ends with a BENIGN failure and its
 * own delay (samples-typescript/polling/infrequent). This can go when the SDK offers them.
 */
import { activityInfo, ApplicationFailure } from '@temporalio/activity';

/** The clocks of a machine, in milliseconds; tests have others. */
export interface MachineClock {
  /** Goes evenly, and stands still while the machine is suspended. */
  monotonic(): number;
  wall(): number;
}

const MACHINE: MachineClock = { monotonic: () => performance.now(), wall: () => Date.now() };

/** What time it is in an attempt of an activity, in milliseconds. */
export interface AttemptClock {
  /**
   * The time of the Temporal server: when it scheduled the attempt, plus what has passed here since. Workflow times are
   * the server's too, so a wrong clock of a worker changes nothing.
   */
  server(): number;
  /**
   * The same for what is told to others, or may be too late by then: the server's time of an attempt that waited hours
   * for a worker is hours behind. A machine whose clock is ahead only makes it later.
   */
  late(): number;
  /** For durations within this process. */
  monotonic(): number;
}

/** The clock of the attempt that runs. */
export function startClock({ monotonic, wall } = MACHINE): AttemptClock {
  const scheduledAt = activityInfo().currentAttemptScheduledTimestampMs;
  const startedAt = monotonic();
  const server = () => scheduledAt + (monotonic() - startedAt);
  return { server, late: () => Math.max(server(), wall()), monotonic };
}

/**
 * The failure that makes the server try the attempt again after a wait, in milliseconds. Its message is what the web UI
 * shows meanwhile; `next` says what then happens, for example `next poll`. It has no stack: nothing is wrong.
 */
export function tryLater(type: string, why: string, next: string, waitMs: number): ApplicationFailure {
  const delayMs = Math.max(1, Math.round(waitMs));
  const failure = ApplicationFailure.create({
    message: `${why}, ${next} in ${Math.max(1, Math.round(delayMs / 1_000))} s`,
    type,
    category: 'BENIGN',
    nextRetryDelay: delayMs,
  });
  failure.stack = '';
  return failure;
}
