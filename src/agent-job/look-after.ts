/**
 * From when on a read of the upstream can be trusted to show a write in doubt; docs/guarantees.md says what each time
 * must outlast. The activity says how it knows of the doubt, and the workflow says from when on a person may look.
 * Pure, for workflow and activities alike; in milliseconds.
 */

/** After the outcome was known, by how it was. */
const ARRIVED_AFTER_MS = {
  /** This worker reset the connection, or had a response: what is in the network has arrived by then, or never will. */
  ownEnd: 30_000,
  /** The kernel of a worker that died goes on to deliver: Linux for up to 102 s. */
  lostWorker: 120_000,
};

/**
 * A worker counts from when its attempt was scheduled. This covers the time that the attempt then waited in the queue.
 */
const MIN_FROM_NOW_MS = 30_000;

/** By the server's time as an activity knows it. */
export function arrivedBy(judgedBy: keyof typeof ARRIVED_AFTER_MS, now: number): number {
  return Math.ceil(now + ARRIVED_AFTER_MS[judgedBy]);
}

/** By the workflow's time; undefined if it is unknown by when the write has arrived. */
export function lookAfterOf(arrivedBy: number | undefined, now: number): number {
  return Math.max(arrivedBy ?? now + ARRIVED_AFTER_MS.lostWorker, now + MIN_FROM_NOW_MS);
}
