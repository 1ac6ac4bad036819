/**
 * Decides when the deadline of a job passes. It stands still while a person must decide and while a write waits for its
 * turn, and begins anew with each accepted write. Pure: no Temporal. Times in milliseconds.
 */

/** Plain data that continue-as-new hands on. The functions of this file alone make another one. */
export interface Deadline {
  /** When it passes if it does not stand still. */
  endsAt: number;
  /** Since when it stands still; null while it runs. */
  stoppedAt: number | null;
  /** It has passed, and the last poll was made. */
  hasExpired: boolean;
}

/** The whole time counts anew. */
export function restart(endsAt: number): Deadline {
  return { endsAt, stoppedAt: null, hasExpired: false };
}

/** Stands still from a time on; one that stands still already goes on to do so. */
export function stop(deadline: Deadline, at: number): Deadline {
  return deadline.stoppedAt === null ? { ...restart(deadline.endsAt), stoppedAt: at } : deadline;
}

/** Goes on at a time, with what was left when it began to stand still. */
export function resume(deadline: Deadline, at: number): Deadline {
  return deadline.stoppedAt === null ? deadline : restart(at + leftAt(deadline, at));
}

/** What is left of it at a time. */
export function leftAt({ endsAt, stoppedAt }: Deadline, at: number): number {
  return endsAt - (stoppedAt ?? at);
}

/** When it passes; null while it stands still, and once it has expired. */
export function passesAt({ endsAt, stoppedAt, hasExpired }: Deadline): number | null {
  return stoppedAt === null && !hasExpired ? endsAt : null;
}
