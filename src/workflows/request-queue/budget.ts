/**
 * When the next request may be sent to an upstream that takes only so many: by the budget that is set, and by what its
 * answers 429 say. With a `Retry-After` the queue opens when it says. Without one nobody knows the upstream's window:
 * the queue takes what was accepted with its turns in the hour before the 429 for the budget, and probes beyond it, one
 * request at a time, ever more rarely. A probe that is accepted says that the budget was learned wrong. Pure; the clock
 * is an argument. Times in milliseconds.
 */
import type { BudgetFacts } from '../../contract.js';
import { throttledWaitMs } from '../../agent-job/retry-waits.js';
import { HOUR_MS, RollingHour } from './rolling-hour.js';

type Step = ReturnType<RollingHour['steps']>[number];

/**
 * In flight where no 429 came within the hour: so many may be refused at once. A worker without a queue sends as many
 * (MAX_SENDING in activities/agent-job/gate.ts).
 */
const START_IN_FLIGHT = 8;
/** After a 429 one more is in flight with so many that are accepted: under a percent of them may be refused at once. */
const ACCEPTED_PER_FURTHER = 125;
/** A window of a minute is found with the second probe. */
const FIRST_PROBE_MS = 30_000;
/** Three probes in an hour, the last of them when that hour is over. */
const MAX_PROBE_MS = 20 * 60_000;

/** A set budget that nobody has named for so long is taken back by those that know of none. */
const NAMED_MS = 15 * 60_000;

/** What continue-as-new hands on. */
export interface BudgetData {
  /** The budget that is set, and when somebody last named it. */
  set: number | null;
  namedAt: number;
  /** What was accepted with a turn in the hour before a 429 without `Retry-After`; null where nothing is believed. */
  learned: number | null;
  spends: Step[];
  throttles: Step[];
  /** Refusals since something was accepted: answers 429 to requests that were in flight together are one. */
  refusals: number;
  refusedSince: number;
  refusedAt: number;
  /** By how much waits between probes have grown. */
  probes: number;
  probeAt: number;
  /** Accepted since the last refusal; and in the run before, from one refusal to the next. */
  accepted: number;
  acceptedBefore: number;
  /** Nothing is sent before; `isTold` where the upstream named that time. */
  notBefore: number;
  isTold: boolean;
}

/** What one turn may hold. */
export interface Allowance {
  requests: number;
  /** It finds out whether the upstream takes more than the learned budget. */
  isProbe: boolean;
}

/** A turn whose end is told. */
export interface GivenAllowance extends Allowance {
  givenAt: number;
}

const NOTHING_KNOWN: BudgetData = {
  set: null,
  namedAt: 0,
  learned: null,
  spends: [],
  throttles: [],
  refusals: 0,
  refusedSince: 0,
  refusedAt: 0,
  probes: 0,
  probeAt: 0,
  accepted: 0,
  acceptedBefore: 0,
  notBefore: 0,
  isTold: false,
};

export class Budget {
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
    return this.#limit === Infinity || this.#limit === 0 ? null : this.#limit;
  }

  get isLearned(): boolean {
    return this.perHour !== null && this.perHour !== this.#data.set;
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

  /** Whether the upstream itself named the time before which nothing is sent. */
  get waitsAsTold(): boolean {
    return this.#data.isTold && this.notBefore !== null;
  }

  /** From when on nothing need be remembered: no answer 429, and nothing that counts towards a budget. */
  get forgettableAt(): number {
    const spentAt = this.#limit === Infinity ? 0 : this.#spends.latestAt;
    return Math.max(this.#now(), Math.max(spentAt, this.#throttles.latestAt) + HOUR_MS);
  }

  /** Whether a turn is likely to be refused. */
  isTry({ isProbe }: Allowance): boolean {
    return isProbe || this.#data.refusals > 0;
  }

  /** The earliest time at which a turn may be given, as far as is known now; null where that takes an answer first. */
  nextTurnAt(wanted: number): number | null {
    const { set, learned, probeAt } = this.#data;
    if (this.#turns >= this.#window) return null;
    const now = this.#now();
    const earliest = Math.max(now, this.#data.notBefore);
    const freeAt = Math.max(earliest, this.#freeAt(this.#limit, this.#needed(wanted)));
    const mayProbe = learned !== null && this.#turns === 0;
    const probed = mayProbe ? Math.max(earliest, probeAt, this.#freeAt(set ?? Infinity, 1)) : Infinity;
    const next = Math.min(freeAt, probed);
    return next === Infinity ? null : next;
  }

  /** What a turn may hold now; null where none may be given. */
  allowance(wanted: number): Allowance | null {
    const next = this.nextTurnAt(wanted);
    if (next === null || next > this.#now()) return null;
    const left = this.#leftOf(this.#limit);
    if (left >= this.#needed(wanted)) return { requests: Math.min(wanted, left), isProbe: false };
    return { requests: Math.min(wanted, this.#leftOf(this.#data.set ?? Infinity)), isProbe: true };
  }

  /**
   * When each of the next requests may be sent, as the budget is known now: when the hour frees it, and again every
   * hour. Null where no budget is known.
   */
  forecast(): ((nth: number) => number) | null {
    const { perHour } = this;
    if (perHour === null) return null;
    const now = this.#now();
    const used = this.spentLastHour + this.#requests;
    const freed: Step[] = [[now, Math.max(0, perHour - used)]];
    for (const [at, count] of [...this.#spends.steps(now), [now, this.#requests] satisfies Step])
      freed.push([at + HOUR_MS, count]);
    // Where the answers of the turns in flight come first, they are likely to come soon.
    const earliest = this.nextTurnAt(1) ?? Math.max(now, this.#data.notBefore);
    return (nth) => {
      let behind = Math.max(0, used - perHour) + ((nth - 1) % perHour) + 1;
      const [at] = freed.find(([, count]) => (behind -= count) <= 0) ?? [now];
      return Math.max(earliest, at) + HOUR_MS * Math.floor((nth - 1) / perHour);
    };
  }

  /** A turn is in flight; `end` must follow. */
  begin({ requests }: Allowance): void {
    this.#turns += 1;
    this.#requests += requests;
  }

  /** A turn is in flight no more; what came of it must follow, where it was used. */
  end({ requests }: Allowance): void {
    this.#turns -= 1;
    this.#requests -= requests;
  }

  /** Takes what a worker says of the budget that is set. Another one says that what was learned is old. */
  hear({ perHour, isUnlimited = false }: BudgetFacts): void {
    const data = this.#data;
    const now = this.#now();
    if (typeof perHour === 'number') data.namedAt = now;
    else if (perHour !== null || (!isUnlimited && now - data.namedAt < NAMED_MS)) return;
    if (perHour !== data.set) Object.assign(data, { set: perHour, learned: null, probes: 0 });
  }

  /** Requests were sent, and may count upstream: until an hour after a time that has come. */
  spent(requests: number, at: number): void {
    this.#spends.add(Math.min(at, this.#now()), requests, this.#now());
  }

  /** Requests were accepted, with a turn or without. */
  accepted(requests: number, at: number, turn: GivenAllowance | null = null): void {
    const data = this.#data;
    this.spent(requests, at);
    if (turn === null || turn.givenAt <= data.refusedAt) {
      // They were accepted before the 429, and are told after it.
      if (data.learned !== null) data.learned = Math.max(data.learned, this.spentLastHour);
      return;
    }
    data.refusals = 0;
    data.accepted += requests;
    if (turn.isProbe) data.learned = null;
  }

  /** A request is answered 429: it counts from when the queue hears of it, for clocks of workers may be wrong. */
  throttled(retryAfterMs: number | undefined, turn: GivenAllowance | null = null): void {
    const data = this.#data;
    const now = this.#now();
    this.#throttles.add(now, 1, now);
    // Without a turn, one that comes before anything was sent anew belongs to the refusal before.
    const isTogether = turn ? turn.givenAt <= data.refusedAt : now < data.refusedAt + FIRST_PROBE_MS;
    if (!isTogether) {
      if (data.refusals === 0) data.refusedSince = now;
      data.refusals += 1;
      data.refusedAt = now;
    }
    if (retryAfterMs !== undefined) this.#obey(retryAfterMs, isTogether);
    else if (!isTogether && !this.waitsAsTold) this.#backOff(turn?.isProbe === true);
    data.accepted = 0;
  }

  /** The server's clock was set back: nothing lies further ahead than it would have from now on. */
  clockWasSetBack(): void {
    const data = this.#data;
    const now = this.#now();
    for (const hour of [this.#spends, this.#throttles]) hour.endAt(now);
    data.namedAt = Math.min(data.namedAt, now);
    data.refusedSince = Math.min(data.refusedSince, now);
    // A turn that is given from now on comes after it.
    data.refusedAt = Math.min(data.refusedAt, now - 1);
    data.probeAt = Math.min(data.probeAt, now + MAX_PROBE_MS);
    data.notBefore = Math.min(data.notBefore, now + HOUR_MS);
  }

  carry(): BudgetData {
    const now = this.#now();
    return { ...this.#data, spends: this.#spends.steps(now), throttles: this.#throttles.steps(now) };
  }

  /** Several times that are told at once: the latest counts. */
  #obey(retryAfterMs: number, isTogether: boolean): void {
    const data = this.#data;
    const until = this.#now() + throttledWaitMs(Math.max(1, data.refusals), retryAfterMs);
    data.notBefore = isTogether && data.isTold ? Math.max(data.notBefore, until) : until;
    Object.assign(data, { isTold: true, learned: null, probes: 0 });
  }

  #backOff(wasProbe: boolean): void {
    const data = this.#data;
    const now = this.#now();
    if (wasProbe) data.probes += 1;
    else {
      this.#runEnded();
      data.learned = this.spentLastHour;
      data.notBefore = now + probeWaitMs(data.refusals);
      data.isTold = false;
    }
    const hourOver = data.refusedSince + HOUR_MS;
    data.probeAt = now + probeWaitMs(data.probes + 1);
    // Budgets are by the hour more often than not.
    if (hourOver > now) data.probeAt = Math.min(data.probeAt, hourOver);
  }

  /**
   * As many as in the run before: the upstream's window is as long as the wait, or shorter. Fewer: it frees one request
   * after the other, as a sliding hour does, and each shorter wait would only cost more answers 429.
   */
  #runEnded(): void {
    const data = this.#data;
    if (data.accepted === 0) return;
    data.probes = Math.max(0, data.probes + (data.accepted >= data.acceptedBefore ? -1 : 2));
    data.acceptedBefore = data.accepted;
  }

  get #limit(): number {
    const { set, learned } = this.#data;
    return Math.min(set ?? Infinity, learned ?? Infinity);
  }

  /** How many turns may be in flight at once. */
  get #window(): number {
    const first = this.throttledLastHour === 0 ? START_IN_FLIGHT : 1;
    return first + Math.floor(this.#data.accepted / ACCEPTED_PER_FURTHER);
  }

  /** How much must be free before a turn is given, so that one for many requests does not fall to pieces. */
  #needed(wanted: number): number {
    return Math.max(1, Math.min(wanted, this.#limit));
  }

  #leftOf(limit: number): number {
    return limit - this.spentLastHour - this.#requests;
  }

  /** When so many of a limit are free, as far as is known now. */
  #freeAt(limit: number, needed: number): number {
    const max = limit - this.#requests - needed;
    return max < 0 ? Infinity : this.#spends.leavesAt(max, this.#now());
  }
}

/** The wait before one request is tried again; `nth` counts from 1. */
function probeWaitMs(nth: number): number {
  return Math.min(FIRST_PROBE_MS * 2 ** Math.min(nth - 1, 20), MAX_PROBE_MS);
}
