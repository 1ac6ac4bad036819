/**
 * When a queue may give its next turn, and for how many requests: by what is left of the budget in the rolling hour, by
 * the turns in flight, and by the waits after answers 429. Pure. Times in milliseconds.
 */
import { HOUR_MS, type RollingHour, type Step } from './rolling-hour.js';

/** What is known of an upstream's budget, as plain data. */
export interface BudgetData {
  /** The budget that is set, and when somebody last named it. */
  perHour: number | null;
  namedAt: number;
  /** The budget that the answers 429 taught. */
  learned: number | null;
  spends: Step[];
  /** Answers 429. */
  throttles: Step[];
  /** The last three refusals: answers 429 to requests that were in flight together are one. */
  refusals: number[];
  /** Refusals since a request was accepted that was sent after the last one. */
  refusalsInARow: number;
  notBefore: number;
  /** The upstream named `notBefore`. */
  isTold: boolean;
  /** Too little was accepted before the last refusal to learn a budget from it. */
  taughtNothing: boolean;
  /** How many turns may be in flight at once; it opens with each request that is accepted. */
  window: number;
  /** A request beyond the learned budget was accepted, and none was refused since. */
  isGrowing: boolean;
  /** When a request beyond the learned budget was last tried. */
  triedBeyondAt: number;
}

/** A budget at one moment. */
export interface BudgetMoment {
  data: BudgetData;
  spends: RollingHour;
  throttles: RollingHour;
  /** Turns in flight, and the requests that they may send. */
  turns: number;
  requests: number;
  now: number;
}

/** What one turn may hold. */
export interface Allowance {
  requests: number;
  /** It is a try whether the upstream takes more than the learned budget. */
  isBeyond: boolean;
}

/** A request without a turn that is answered 429 so soon after a refusal was in flight by then. */
export const TOGETHER_MS = 60_000;
/** So many answers 429 an hour are risked to find out more. */
const MOST_THROTTLES = 3;
/** So long after a refusal a try may go beyond the budget that it taught. */
const TRY_AGAIN_MS = 20 * 60_000;
/** What the hour frees so soon is waited for: a try beyond the budget would show nothing. Tries are so far apart. */
const SOON_MS = 60_000;
/**
 * Turns in flight where no budget is known, as a share of what was accepted in this hour: so many answers 429 may come
 * at once.
 */
const UNKNOWN_WINDOW = { share: 1 / 33, least: 3, most: 20 };
/** Turns in flight under a learned budget, as a share of it, within bounds: it may be too high by then. */
const LEARNED_WINDOW = { share: 1 / 25, least: 2, most: 20 };
/** The same under a budget that is set: where it is too high, so many answers 429 may come at once. */
const SET_WINDOW = { share: 1 / 25, least: 5, most: 500 };
/** The same for requests beyond a learned budget: the last one of them is always refused. */
const BEYOND_WINDOW = { share: 1 / 200, least: 1, most: 10 };
/** A turn for many requests waits until a tenth of the budget is free, so that it does not fall to pieces. */
const GATHERED_SHARE = 0.1;

/** Requests an hour; null where none is set and none is learned. */
export function limitOf({ perHour, learned }: BudgetData): number | null {
  if (perHour === null || learned === null) return perHour ?? learned;
  return Math.min(perHour, learned);
}

/** The earliest time at which a turn may be given, as far as is known now; null where that takes an answer first. */
export function nextTurnAt(moment: BudgetMoment, wanted: number): number | null {
  const { data, spends, turns, requests, now } = moment;
  if (turns >= windowAt(moment)) return null;
  const earliest = earliestAt(moment);
  const limit = limitOf(data);
  if (limit === null) return earliest;
  const most = limit - requests - needed(limit, wanted);
  const freeAt = most < 0 ? Infinity : Math.max(earliest, spends.leavesAt(most, now));
  const next = Math.min(freeAt, nextBeyondAt(moment, earliest, freeAt));
  return next === Infinity ? null : next;
}

/** What a turn may hold now; null where none may be given. */
export function allowanceOf(moment: BudgetMoment, wanted: number): Allowance | null {
  const { data, spends, requests, now } = moment;
  const next = nextTurnAt(moment, wanted);
  if (next === null || next > now) return null;
  const limit = limitOf(data);
  if (limit === null) return { requests: wanted, isBeyond: false };
  const left = limit - spends.countAt(now) - requests;
  if (left >= needed(limit, wanted)) return { requests: Math.min(wanted, left), isBeyond: false };
  return { requests: Math.min(wanted, leftOfSet(moment, now)), isBeyond: true };
}

/**
 * When each of the next requests may be sent, as the budget is known now: when the hour frees it, and again every hour.
 * Null where no budget is known.
 */
export function forecast(moment: BudgetMoment): ((nth: number) => number) | null {
  const { data, spends, requests, now } = moment;
  const limit = limitOf(data);
  if (limit === null) return null;
  const used = spends.countAt(now) + requests;
  const freed: Step[] = [[now, Math.max(0, limit - used)]];
  for (const [at, count] of [...spends.steps(now), [now, requests] satisfies Step]) freed.push([at + HOUR_MS, count]);
  // Where the answers of the turns in flight come first, they are likely to come soon.
  const earliest = nextTurnAt(moment, 1) ?? earliestAt(moment);
  return (nth) => {
    let behind = Math.max(0, used - limit) + ((nth - 1) % limit) + 1;
    const [at] = freed.find(([, count]) => (behind -= count) <= 0) ?? [now];
    return Math.max(earliest, at) + HOUR_MS * Math.floor((nth - 1) / limit);
  };
}

/** No turn is given before, whatever is left of the budget. */
function earliestAt({ data, now }: BudgetMoment): number {
  return Math.max(now, data.notBefore, heldUntil(data));
}

/** How many turns may be in flight at once. */
function windowAt({ data, spends, throttles, now }: BudgetMoment): number {
  const limit = limitOf(data);
  if (limit === null) return Math.min(data.window, sharedWindow(spends.countAt(now), UNKNOWN_WINDOW));
  const isTrusted = limit === data.perHour && data.refusalsInARow === 0 && throttles.countAt(now) === 0;
  if (isTrusted) return sharedWindow(limit, SET_WINDOW);
  return Math.min(data.window, sharedWindow(limit, LEARNED_WINDOW));
}

/** When all that the hour frees was refused again and again, the hour of the refusals ends first. */
function heldUntil({ refusals, refusalsInARow, isTold, taughtNothing }: BudgetData): number {
  const [first] = refusals;
  const isHeld = refusalsInARow > 0 && !isTold && !taughtNothing;
  return isHeld && first !== undefined && refusals.length >= MOST_THROTTLES ? first + HOUR_MS : 0;
}

/** When a request beyond the learned budget may be tried: first one alone, then a few, as long as they are accepted. */
function nextBeyondAt(moment: BudgetMoment, earliest: number, freeAt: number): number {
  const { data, turns } = moment;
  if (data.learned === null || limitOf(data) !== data.learned) return Infinity;
  const at = data.isGrowing ? earliest : Math.max(earliest, tryAt(moment), data.triedBeyondAt + SOON_MS);
  if (leftOfSet(moment, at) <= 0 || turns >= (data.isGrowing ? sharedWindow(data.learned, BEYOND_WINDOW) : 1))
    return Infinity;
  return freeAt - at <= SOON_MS && !data.isGrowing ? Infinity : at;
}

function tryAt({ data, throttles, now }: BudgetMoment): number {
  if (data.taughtNothing) return data.notBefore;
  const newest = throttles.nthNewestAt(1, now);
  if (newest === undefined) return 0;
  if (data.refusalsInARow === 0) return newest + HOUR_MS;
  const third = throttles.nthNewestAt(MOST_THROTTLES, now);
  // Not where they came one by one before the budget was learned.
  if (third !== undefined && third > (data.refusals[0] ?? 0) - TOGETHER_MS) return third + HOUR_MS;
  return data.isTold ? data.notBefore : newest + TRY_AGAIN_MS;
}

function leftOfSet({ data, spends, requests }: BudgetMoment, at: number): number {
  return data.perHour === null ? Infinity : data.perHour - spends.countAt(at) - requests;
}

/** How many requests may be in flight: a share of a number, within bounds. */
export function sharedWindow(number: number, { share, least, most }: typeof LEARNED_WINDOW): number {
  return Math.min(Math.max(Math.floor(number * share), least), most);
}

/** How much must be free before a turn for so many requests is given. */
function needed(limit: number, wanted: number): number {
  return Math.min(wanted, Math.max(1, Math.floor(limit * GATHERED_SHARE)));
}
