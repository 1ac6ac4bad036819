import type { VisitorExportRange, VisitorTotals } from '../../src/contract.js';
import { RateLimiter } from '../../src/sandbox/access.js';
import { Visitors, type VisitorSettings } from '../../src/sandbox/visitors.js';
import { ReadFailedError } from '../../src/upstream/errors.js';
import type { VisitorRow, VisitorsRequest } from '../../src/upstream/upstream.js';
import { type Drift, type GoodPage, MovingVisitors, type Shown } from '../support/moving-visitors.js';

/** A moment of simulated time, in milliseconds since 1970. */
export interface SimulatedTime {
  now: number;
}

/** What a day shows, how long after its end it still changes, and in which steps. */
export interface DaySettings extends VisitorSettings {
  lateMs: number;
  arrivalStepMs: number;
  isShuffled: boolean;
}

interface Day {
  range: VisitorExportRange;
  settings: DaySettings;
  whole: Shown;
  moving: MovingVisitors;
}

export const REQUESTS_PER_HOUR = 100;

/** The sandbox's visitors of one project, arriving and moving on simulated time; each day by itself. */
export class SimulatedUpstream {
  readonly #time: SimulatedTime;
  readonly #timeZone: string;
  readonly #days = new Map<string, Day>();
  readonly #limiter = new RateLimiter({ visitors: REQUESTS_PER_HOUR });

  constructor(time: SimulatedTime, timeZone: string) {
    this.#time = time;
    this.#timeZone = timeZone;
  }

  /** What a day shows from now on; its movements so far are forgotten. */
  set(range: VisitorExportRange, settings: DaySettings, drift: readonly Drift[]): void {
    const { entries, totals } = new Visitors(settings).expectedSnapshot(range);
    const whole = { rows: entries, totals } as Shown;
    const moving = new MovingVisitors(() => arrived(whole, this.#part(range, settings)), drift);
    this.#days.set(range.dateFrom, { range, settings, whole, moving });
  }

  /** Other requests that count. */
  useUp(requests: number): void {
    for (let i = 0; i < requests; i++) this.#limiter.throttle('visitors', '', this.#time.now);
  }

  /** One page; throws a ReadFailedError with 429 beyond the limit that all share. */
  page(page: VisitorsRequest): GoodPage {
    if (this.#limiter.throttle('visitors', '', this.#time.now)) throw new ReadFailedError('answered 429', 429);
    return this.#dayOf(page).moving.page(page);
  }

  /** Whether rows and totals are the day's own, once all of it has arrived. */
  isTruth(range: VisitorExportRange, rows: VisitorRow[], totals: VisitorTotals): boolean {
    const { whole, moving } = this.#dayOf(range);
    const truth = moving.edited(whole);
    return linesOf(truth.rows) === linesOf(rows) && JSON.stringify(truth.totals) === JSON.stringify(totals);
  }

  hasSettled(day: Pick<VisitorExportRange, 'dateFrom'>): boolean {
    const { range, settings } = this.#dayOf(day);
    return this.#part(range, settings) === 1;
  }

  #dayOf({ dateFrom }: Pick<VisitorExportRange, 'dateFrom'>): Day {
    return this.#days.get(dateFrom)!;
  }

  /** The part of a day that has arrived, 0 to 1: evenly from its start until it has settled, in steps. */
  #part({ dateFrom, dateTo }: VisitorExportRange, { lateMs, arrivalStepMs }: DaySettings): number {
    const from = startOfDay(dateFrom, this.#timeZone);
    const settled = startOfDay(dateTo, this.#timeZone) + lateMs;
    const { now } = this.#time;
    if (now >= settled) return 1;
    return Math.max(0, (Math.floor(now / arrivalStepMs) * arrivalStepMs - from) / (settled - from));
  }
}

/** Rows arrive one after the other while their counts grow; never in contradiction to the totals. */
function arrived({ rows, totals }: Shown, part: number): Shown {
  if (part === 1) return { rows, totals };
  const shown = rows
    .slice(0, Math.floor(rows.length * part))
    .map(({ path, ...counts }) => ({ path, ...scaled(counts, part) }));
  if (shown.length > 64) return { rows: shown, totals: scaled(totals, part * part) };
  const largest = (name: 'human' | 'ai' | 'total') => Math.max(0, ...shown.map((row) => row[name]));
  return { rows: shown, totals: { human: largest('human'), ai: largest('ai'), total: largest('total') } };
}

function scaled(counts: VisitorTotals, part: number): VisitorTotals {
  const [human, ai] = [Math.floor(counts.human * part), Math.floor(counts.ai * part)];
  return { human, ai, total: Math.min(Math.floor(counts.total * part), human + ai) };
}

function linesOf(rows: VisitorRow[]): string {
  return rows
    .map(({ path, human, ai, total }) => [path, human, ai, total].join('\t'))
    .toSorted()
    .join('\n');
}

/** The midnight with which a date begins in a zone. */
export function startOfDay(date: string, timeZone: string): number {
  const utc = Date.parse(`${date}T00:00:00Z`);
  // `sv-SE` writes `2026-03-05 01:30:00`.
  const offset = (at: number) => Date.parse(`${new Date(at).toLocaleString('sv-SE', { timeZone })}Z`) - at;
  // The first guess uses the offset at midnight UTC; the second corrects a clock change in between.
  return utc - offset(utc - offset(utc));
}
