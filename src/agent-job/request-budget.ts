/**
 * What is known of an upstream that takes only so many requests an hour: the budget that is set, or the one that its
 * answers 429 taught, and what was sent in the last hour. Pure; the clock is an argument. Times in milliseconds.
 */
import type { BudgetFacts } from '../contract.js';
import { throttledWaitMs } from './retry-waits.js';
import { HOUR_MS, RollingHour } from './rolling-hour.js';
import {
  allowanceOf,
  forecast,
  limitOf,
  nextTurnAt,
  TOGETHER_MS,
  type Allowance,
  type BudgetData,
  type BudgetMoment,
} from './turn-times.js';

/** When a request was answered, and when its turn was given: null where it was sent without one. */
export interface AnswerTimes {
  at: number;
  givenAt: number | null;
  /** The end of its turn. */
  until?: number;
}

/** With fewer accepted in the hour before it, a 429 teaches no budget: it may be of another kind. */
const MIN_LEARNED = 10;
/** So many refusals in a row are of no other kind: between them lie minutes, and what little was accepted is all. */
const SURE_REFUSALS = 7;
/** So many refusals are remembered. */
const KEPT_REFUSALS = 3;
const OPEN_WINDOW = 1_024;
/** A set budget that nobody has named for so long is taken back by those that know of none. */
const NAMED_MS = 15 * 60_000;

const NOTHING_KNOWN: BudgetData = {
  perHour: null,
  namedAt: 0,
  learned: null,
  spends: [],
  throttles: [],
  refusals: [],
  refusalsInARow: 0,
  notBefore: 0,
  isTold: false,
  taughtNothing: false,
  window: OPEN_WINDOW,
  isGrowing: false,
  triedBeyondAt: 0,
};

export class RequestBudget {
  readonly #data: BudgetData;
  readonly #spends: RollingHour;
  readonly #throttles: RollingHour;
  readonly #now: () => number;
  #turns = 0;
  #requests = 0;

  constructor(data: BudgetData | null, now: () => number) {
    this.#data = { ...(data ?? NOTHING_KNOWN) };
    this.#spends = new RollingHour(this.#data.spends);
    this.#throttles = new RollingHour(this.#data.throttles);
    this.#now = now;
  }

  /** Requests an hour; null where none is set and none is learned. */
  get perHour(): number | null {
    return limitOf(this.#data);
  }

  get isLearned(): boolean {
    return this.perHour !== null && this.perHour !== this.#data.perHour;
  }

  get spentLastHour(): number {
    return this.#spends.countAt(this.#now());
  }

  get throttledLastHour(): number {
    return this.#throttles.countAt(this.#now());
  }

  /** Nothing is sent before; null where nothing holds the queue back. */
  get notBefore(): number | null {
    return this.#data.notBefore > this.#now() ? this.#data.notBefore : null;
  }

  /** Whether a turn is likely to be refused: it finds out what the upstream takes. */
  isTry({ isBeyond }: Allowance): boolean {
    const { isGrowing, refusalsInARow } = this.#data;
    return isBeyond ? !isGrowing : this.perHour === null && refusalsInARow > 0;
  }

  /** Whether the upstream itself named the time before which nothing is sent. */
  get waitsAsTold(): boolean {
    return this.#data.isTold && this.notBefore !== null;
  }

  /** From when on nothing need be remembered: no answer 429, and nothing that counts towards a budget. */
  get forgettableAt(): number {
    const now = this.#now();
    const spentAt = this.perHour === null ? undefined : this.#spends.nthNewestAt(1, now);
    const newest = Math.max(spentAt ?? 0, this.#throttles.nthNewestAt(1, now) ?? 0);
    return Math.max(now, newest === 0 ? 0 : newest + HOUR_MS);
  }

  /** The earliest time at which a turn may be given, as far as is known now; null where that takes an answer first. */
  nextTurnAt(wanted: number): number | null {
    return nextTurnAt(this.#moment(), wanted);
  }

  /** What a turn may hold now; null where none may be given. */
  allowance(wanted: number): Allowance | null {
    return allowanceOf(this.#moment(), wanted);
  }

  /** When each of the next requests may be sent; null where no budget is known. */
  forecast(): ((nth: number) => number) | null {
    return forecast(this.#moment());
  }

  /** A turn is in flight; `end` must follow. */
  begin({ requests, isBeyond }: Allowance): void {
    this.#turns += 1;
    this.#requests += requests;
    if (isBeyond) this.#data.triedBeyondAt = this.#now();
  }

  /** A turn is in flight no more; what came of it must follow. */
  end({ requests }: Allowance): void {
    this.#turns -= 1;
    this.#requests -= requests;
  }

  /** A turn was not used: it costs nothing. */
  unsent({ isBeyond }: Allowance): void {
    if (isBeyond) this.#data.triedBeyondAt = 0;
  }

  /** Takes what a worker knows: the budget that is set, and what was accepted without a turn. */
  hear({ perHour, isUnlimited = false, accepted = [] }: BudgetFacts): void {
    const now = this.#now();
    if (typeof perHour === 'number') Object.assign(this.#data, { perHour, namedAt: now });
    else if (perHour === null && (isUnlimited || now - this.#data.namedAt >= NAMED_MS)) this.#data.perHour = null;
    for (const [at, requests] of accepted) this.accepted({ at, givenAt: null }, requests);
  }

  /** Requests were sent, and nobody knows whether they count upstream. */
  spent(times: AnswerTimes, requests: number): void {
    this.#spends.add(this.#spentAt(times), requests, this.#now());
  }

  /** Requests were accepted: the budget is at least what was accepted within an hour. */
  accepted(times: AnswerTimes, requests: number, isBeyond = false): void {
    this.spent(times, requests);
    const data = this.#data;
    const refusedAt = data.refusals.at(-1) ?? -1;
    this.#learnFromLate(this.#clamped(times) <= refusedAt);
    if (times.givenAt === null || times.givenAt <= refusedAt) return;
    data.refusalsInARow = 0;
    data.taughtNothing = false;
    data.window = Math.min(2 * data.window, OPEN_WINDOW);
    if (isBeyond) data.isGrowing = true;
  }

  /** A request was answered 429. */
  throttled(times: AnswerTimes, retryAfterMs?: number): void {
    const data = this.#data;
    const now = this.#now();
    const at = this.#clamped(times);
    if (at <= now - HOUR_MS) return; // told far too late
    const isTogether = (times.givenAt ?? at - TOGETHER_MS) <= (data.refusals.at(-1) ?? -1);
    this.#throttles.add(at, 1, now);
    if (!isTogether) {
      data.refusals = [...data.refusals, now].slice(-KEPT_REFUSALS);
      data.refusalsInARow += 1;
    }
    data.window = 1;
    data.isGrowing = false;
    if (retryAfterMs !== undefined) this.#obey(at, retryAfterMs, isTogether);
    else if (!isTogether) this.#backOff();
    this.#learn(isTogether);
  }

  carry(): BudgetData {
    const now = this.#now();
    return { ...this.#data, spends: this.#spends.steps(now), throttles: this.#throttles.steps(now) };
  }

  /** Several times that were told at once: the latest counts. */
  #obey(at: number, retryAfterMs: number, isTogether: boolean): void {
    const data = this.#data;
    const until = at + throttledWaitMs(Math.max(1, data.refusalsInARow), retryAfterMs);
    data.notBefore = isTogether && data.isTold ? Math.max(data.notBefore, until) : until;
    data.isTold = true;
  }

  #backOff(): void {
    if (this.waitsAsTold) return;
    this.#data.notBefore = this.#now() + throttledWaitMs(this.#data.refusalsInARow, undefined);
    this.#data.isTold = false;
  }

  /** The budget is what was accepted in the hour before a refusal. */
  #learn(isTogether: boolean): void {
    const { spentLastHour } = this;
    const data = this.#data;
    const isSmall = data.learned !== null && data.learned < MIN_LEARNED;
    const least = isSmall || data.refusalsInARow >= SURE_REFUSALS ? 1 : MIN_LEARNED;
    if (spentLastHour >= least) {
      // Refusals that taught nothing count as one.
      if (data.taughtNothing) data.refusals = data.refusals.slice(-1);
      Object.assign(data, { learned: spentLastHour, taughtNothing: false });
    } else if (!isTogether && !isSmall) data.taughtNothing = true;
  }

  /** What was accepted before a refusal, and told after it, teaches what the refusal could not. */
  #learnFromLate(isBeforeRefusal: boolean): void {
    const data = this.#data;
    if (data.taughtNothing && isBeforeRefusal) return this.#learn(true);
    if (data.learned !== null) data.learned = Math.max(data.learned, this.spentLastHour);
  }

  /** Workers' clocks differ: nothing happened in the future, nor before its turn was given. */
  #clamped({ at, givenAt }: AnswerTimes): number {
    return Math.min(Math.max(at, givenAt ?? 0), this.#now());
  }

  /**
   * A worker does not know how long its task waited in the task queue, so `at` may be early, and the upstream's hour
   * would still count what the queue takes for free. The time when the report came is late, to the safe side.
   */
  #spentAt(times: AnswerTimes): number {
    return Math.max(this.#clamped(times), Math.min(this.#now(), times.until ?? 0));
  }

  #moment(): BudgetMoment {
    return {
      data: this.#data,
      spends: this.#spends,
      throttles: this.#throttles,
      turns: this.#turns,
      requests: this.#requests,
      now: this.#now(),
    };
  }
}
