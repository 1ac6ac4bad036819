/**
 * What happened within the last hour, counted: requests that were sent, answers 429. In steps of 10 seconds, each with
 * the time of its latest event, so that its size is bounded and nothing leaves the hour early. Pure.
 */

/** How far back it reaches. */
export const HOUR_MS = 3_600_000;
/** Bounds the memory: at most 361 steps make an hour. */
const STEP_MS = 10_000;

/** `[time of the latest, count]` of each step, oldest first; times in milliseconds. */
type RollingHour = readonly (readonly [at: number, count: number])[];

/** The steps within the hour that ends now. */
function within(hour: RollingHour, now: number): RollingHour {
  return hour.filter(([at]) => at > now - HOUR_MS);
}

/** The hour with more events of one time; nothing lies ahead of now. */
export function withEvents(hour: RollingHour, count: number, at: number, now: number): RollingHour {
  if (count <= 0) return hour;
  const time = Math.min(at, now);
  const [kept, same] = [[], []] as [(readonly [number, number])[], (readonly [number, number])[]];
  for (const step of within(hour, now)) (stepOf(step[0]) === stepOf(time) ? same : kept).push(step);
  const merged = [...same, [time, count] as const].reduce(([a, one], [b, other]) => [Math.max(a, b), one + other]);
  return within([...kept, merged], now).toSorted(([one], [other]) => one - other);
}

/** How many happened within the hour that ends now. */
export function countOf(hour: RollingHour, now: number): number {
  return within(hour, now).reduce((sum, [, count]) => sum + count, 0);
}

/** The first time at which at most so many are left within the hour. */
export function leavesAt(hour: RollingHour, max: number, now: number): number {
  let left = countOf(hour, now);
  if (left <= max) return now;
  for (const [at, count] of within(hour, now)) if ((left -= count) <= max) return at + HOUR_MS;
  return now + HOUR_MS;
}

/** The hour after the clock was set back: nothing happened later than now. */
export function setBack(hour: RollingHour, now: number): RollingHour {
  return hour.map(([at, count]) => [Math.min(at, now), count]);
}

function stepOf(at: number): number {
  return Math.floor(at / STEP_MS);
}
