/**
 * Nights of exports on simulated time, worked out from a seed: days of the upstream in any time zone, late data, moving
 * rows, limits, deaths, and nights on which nothing runs.
 */
import { visitorExportWorkflowId, type VisitorExportRange } from '../../src/contract.js';
import { daysBefore, isProvisional, plusDays } from '../../src/exports/date-range.js';
import { missedDays } from '../../src/exports/snapshots/catalog.js';
import { isWhole, readManifest } from '../../src/exports/snapshots/manifest.js';
import { readRows } from '../../src/exports/snapshots/parquet.js';
import { ReadFailedError } from '../../src/upstream/errors.js';
import type { VisitorPage, VisitorRow } from '../../src/upstream/upstream.js';
import { CONTRADICTIONS, shrunk, withOddRows } from './disturbances.js';
import { runExport, RunEnded, WorkerKilled } from './export-run.js';
import { MemoryStore } from './memory-store.js';
import type { VisitorsRequest } from '../../src/upstream/upstream.js';
import { type DaySettings, REQUESTS_PER_HOUR, SimulatedUpstream, startOfDay } from './upstream.js';
import type { Drift, GoodPage } from '../support/moving-visitors.js';
import { parquetKey } from '../snapshots/published.js';

/** What the runs met, and what their readings came to. */
const MET = [
  ...(['drifted', 'kills', 'endedRuns', 'busy', 'movingDays', 'shuffledDays', 'provisional'] as const),
  // Readings that met contradictions, rows that had gone for a while, or rows that are not as the interface says.
  ...(['contradictions', 'lossesForAWhile', 'oddRows', 'damagedFiles'] as const),
  /** Readings marked or kept for a contradiction or a loss. */
  'doubted',
  'missedNights',
  /** Days that no night of their own read, and a later one did. */
  'madeUpDays',
  /** Days whose last nights were missed before the upstream had settled: `exportedAt` says when they were read. */
  'cutShort',
] as const;

/** What became of the days of many scheduled runs. */
export interface SimulationFigures {
  runs: number;
  /** Days whose scheduled runs are all over. */
  days: number;
  /** Days that were not the upstream's final truth, though nothing said so. */
  unmarkedWrong: string[];
  /**
   * Days still marked as provisional, inconsistent or missing after their last run, though the day was over and the
   * upstream had settled before it.
   */
  stillMarked: number;
  settledDays: number;
  /** Days without a snapshot between others, which nights to come should have made up for. */
  notMadeUp: string[];
  met: Record<(typeof MET)[number], number>;
  /** Nights after which a good snapshot was worse than before, with nothing in the upstream to explain it. */
  worse: string[];
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const DAYS = 3;
const RUNS_PER_WORLD = 10;
/** Nights of a world after the last day's own, none of them missed. */
const NIGHTS_AFTER = 3;
/** As in the workflow: when no missed day is begun any more. */
const MAKE_UP_MS = 12 * HOUR_MS;
const UPSTREAM_ZONES = [
  'Etc/GMT+12',
  'Pacific/Pago_Pago',
  'America/Los_Angeles',
  'America/St_Johns',
  'UTC',
  'Europe/Paris',
  'Asia/Kathmandu',
  'Australia/Lord_Howe',
  'Pacific/Apia',
  'Pacific/Kiritimati',
];
const SCHEDULE_ZONES = ['UTC', 'Europe/Paris', 'America/Los_Angeles', 'Pacific/Kiritimati', 'Pacific/Pago_Pago'];
// The clocks change within ten days of each of these.
const FIRST_DAYS = ['2026-03-05', '2026-03-26', '2026-04-02', '2026-09-30', '2026-10-22', '2026-10-30', '2026-06-10'];
const ROWS = [0, 1, 30, 249, 250, 251, 498, 700, 1_100];
const KINDS: Drift['kind'][] = ['swap', 'delete', 'insert', 'totals', 'rotate'];

/** Simulates a number of scheduled runs; the same seed gives the same runs. */
export async function simulateRuns(seed: number, runs: number): Promise<SimulationFigures> {
  const figures: SimulationFigures = {
    runs: 0,
    days: 0,
    ...{ unmarkedWrong: [], stillMarked: 0, settledDays: 0, notMadeUp: [], worse: [] },
    met: Object.fromEntries(MET.map((name) => [name, 0])) as SimulationFigures['met'],
  };
  for (let world = 0; figures.runs < runs; world++) {
    const count = Math.min(RUNS_PER_WORLD, runs - figures.runs);
    await new World(seed, world, figures).play(count);
  }
  return figures;
}

/** Ten scheduled runs in a row of one upstream and one Schedule. */
class World {
  readonly #projectId: string;
  readonly #random: () => number;
  readonly #figures: SimulationFigures;
  readonly #time = { now: 0 };
  readonly #upstream: SimulatedUpstream;
  readonly #store = new MemoryStore(() => this.#perhapsKilled(0.004));
  readonly #zone: string;
  readonly #scheduleZone: string;
  readonly #firstDay: string;
  readonly #days = new Map<string, SimulatedDay>();
  /** Days whose last run failed: an operator exports them a day later. */
  #backfill: SimulatedDay[] = [];
  #mayDie = false;
  #distortion: { until: number; distort: (page: GoodPage) => VisitorPage } | null = null;

  constructor(seed: number, world: number, figures: SimulationFigures) {
    this.#projectId = `p ${seed}/${world}`;
    this.#random = mulberry(seed * 1_000_003 + world);
    this.#figures = figures;
    this.#zone = this.#pick(UPSTREAM_ZONES);
    this.#upstream = new SimulatedUpstream(this.#time, this.#zone);
    this.#scheduleZone = this.#pick(SCHEDULE_ZONES);
    this.#firstDay = this.#pick(FIRST_DAYS);
  }

  async play(runs: number): Promise<void> {
    const isMissed = this.#missedNights(runs + DAYS);
    for (let night = 0; night < runs + DAYS + NIGHTS_AFTER; night++) {
      if (isMissed[night]) continue;
      const date = plusDays(this.#firstDay, night + 1);
      const nominal = startOfDay(date, this.#scheduleZone) + 4.5 * HOUR_MS;
      // A run that took longer than a day makes the next one wait.
      this.#time.now = Math.max(this.#time.now, nominal + this.#random() * 10 * 60_000);
      // Another program of the organization has asked before us.
      if (this.#random() < 0.3) this.#upstream.useUp(Math.floor(this.#random() * REQUESTS_PER_HOUR));
      const backfill = this.#backfill;
      this.#backfill = [];
      const failed: SimulatedDay[] = [];
      for (const dates of daysBefore(nominal, this.#scheduleZone, DAYS)) {
        // The days before the first run and after the last one are left out.
        if (dates.dateFrom < this.#firstDay || dates.dateFrom >= plusDays(this.#firstDay, runs)) continue;
        const nights = daysNights(dates.dateFrom, this.#firstDay);
        const own = nights.filter((one) => !isMissed[one]);
        const day = this.#dayOf(dates.dateFrom);
        day.isLast = own.at(-1) === night;
        day.isCutShort = own.at(-1) !== nights.at(-1);
        if (!(await this.#export(day))) failed.push(day);
      }
      for (const day of backfill) await this.#export(day);
      await this.#makeUp(nominal, failed);
    }
    for (const day of this.#days.values()) await this.#judge(day);
    const isThere: boolean[] = [];
    for (let i = 0; i < runs; i++) isThere.push((await readManifest(this.#store, this.#rangeOf(i))) !== null);
    const gaps = isThere.flatMap((is, i) =>
      is || i < isThere.indexOf(true) || i > isThere.lastIndexOf(true) ? [] : i,
    );
    this.#figures.notMadeUp.push(...gaps.map((i) => `${this.#projectId} ${this.#rangeOf(i).dateFrom}`));
    this.#figures.runs += runs;
  }

  /** One to five nights in a row, now and then. */
  #missedNights(nights: number): boolean[] {
    const isMissed: boolean[] = [];
    while (isMissed.length < nights) {
      const length = this.#random() < 0.06 ? this.#pick([1, 1, 2, 3, 4, 5]) : 0;
      isMissed.push(...Array<boolean>(length).fill(true), false);
      this.#figures.met.missedNights += length;
    }
    return isMissed.slice(0, nights);
  }

  /** Exports days that no earlier night did, as the workflow does after a night's own. */
  async #makeUp(nominal: number, failed: readonly SimulatedDay[]): Promise<void> {
    for (const { dateFrom } of await missedDays(this.#store, this.#projectId, this.#time.now)) {
      const isKnown = this.#days.has(dateFrom);
      const day = this.#dayOf(dateFrom);
      if (failed.includes(day)) continue;
      if (this.#time.now >= nominal + MAKE_UP_MS) return;
      if (!isKnown) this.#figures.met.madeUpDays += 1;
      day.isLast = true;
      await this.#export(day);
    }
  }

  #rangeOf(day: number): VisitorExportRange {
    const dateFrom = plusDays(this.#firstDay, day);
    return { projectId: this.#projectId, dateFrom, dateTo: plusDays(dateFrom, 1) };
  }

  #dayOf(date: string): SimulatedDay {
    const known = this.#days.get(date);
    if (known) return known;
    const range = { projectId: this.#projectId, dateFrom: date, dateTo: plusDays(date, 1) };
    const settings: DaySettings = {
      rows: this.#pick(ROWS),
      seed: Math.floor(this.#random() * 1e6),
      lateMs: this.#pick([0, 0, 2, 6, 20]) * HOUR_MS,
      arrivalStepMs: this.#pick([60_000, HOUR_MS]),
      // Rows in another order at each request, for ever: never to be believed beyond one page.
      isShuffled: this.#random() < 0.05,
    };
    if (settings.isShuffled) this.#figures.met.shuffledDays += 1;
    const day = { range, settings, exports: 0, isLast: false, isCutShort: false, hadSettled: false, wasOver: false };
    this.#days.set(date, day);
    return day;
  }

  /** False if the run was ended from outside. */
  async #export(day: SimulatedDay): Promise<boolean> {
    const { range } = day;
    day.exports += 1;
    this.#move(day);
    day.hadSettled = this.#upstream.hasSettled(range);
    day.wasOver = !isProvisional(this.#time.now, range.dateTo);
    this.#mayDie = this.#random() < 0.03;
    const before = await readManifest(this.#store, range);
    const wasGood = before !== null && before.consistent && !before.provisional && (await isWhole(this.#store, before));
    const wasTrue = wasGood && this.#upstream.isTruth(range, await this.#rowsOf(range), before.totals);
    const isDamaged = await this.#disturb(day, wasTrue && before.rows > 0);
    try {
      const receipt = await runExport({
        range,
        runId: `${visitorExportWorkflowId(range.projectId, range.dateFrom, range.dateTo)} ${day.exports}`,
        store: this.#store,
        upstream: { getVisitors: async (page) => this.#answer(page) },
        time: this.#time,
      });
      if (receipt.drift) this.#figures.met.drifted += 1;
      if (receipt.provisional) this.#figures.met.provisional += 1;
      if (receipt.drift?.kind === 'shrunk' || receipt.drift?.kind === 'impossible') this.#figures.met.doubted += 1;
      await this.#checkForLoss(day, wasTrue && !isDamaged);
      return true;
    } catch (error) {
      if (!(error instanceof RunEnded)) throw error;
      this.#figures.met.endedRuns += 1;
      if (day.isLast) this.#backfill.push(day);
      return false;
    } finally {
      this.#mayDie = false;
      this.#distortion = null;
    }
  }

  /**
   * What moves while the day is read in this run. In its last run at most two scans see it: if every scan sees new
   * data, the snapshot of the run before stays, and no later run reads the day again.
   */
  #move({ range, settings, isLast }: SimulatedDay): void {
    const drift: Drift[] = [];
    while (drift.length < (isLast ? 2 : 4) && this.#random() < 0.35) {
      const atOffset = 1 + Math.floor(this.#random() * 700);
      const index = Math.floor(this.#random() * Math.max(1, (settings.rows ?? 0) - 5));
      drift.push({ kind: this.#pick(KINDS), atOffset, index });
    }
    if (drift.length > 0) this.#figures.met.movingDays += 1;
    // Another order with every page.
    if (!isLast && this.#random() < 0.08) drift.push({ kind: 'rotate', times: 100 });
    if (settings.isShuffled) drift.push({ kind: 'shuffle', atOffset: 0, times: Infinity });
    this.#upstream.set(range, settings, drift);
  }

  /**
   * What befalls the upstream's answers in this run, for less than an hour, and the store before it; true if the
   * day's file is damaged.
   */
  async #disturb({ range, exports }: SimulatedDay, isTrue: boolean): Promise<boolean> {
    const { met } = this.#figures;
    const distortion = this.#random();
    let isDamaged = false;
    const until = this.#time.now + this.#random() * 50 * 60_000;
    if (distortion < 0.04) {
      met.contradictions += 1;
      this.#distortion = { until, distort: this.#pick(CONTRADICTIONS) };
    } else if (distortion < 0.08 && isTrue) {
      // A loss over a day without any true snapshot yet can't be seen.
      met.lossesForAWhile += 1;
      const left = this.#pick([0, 0, 0.1, 0.3]);
      this.#distortion = { until, distort: (page) => shrunk(page, left) };
    } else if (distortion < 0.12) {
      met.oddRows += 1;
      this.#distortion = { until, distort: withOddRows };
    }
    // What is damaged after the last run is never read again.
    if (exports > 1 && this.#random() < 0.05) {
      const flipped = (bytes: Buffer) => {
        const copy = Buffer.from(bytes);
        copy[Math.floor(this.#random() * copy.length)]! ^= 1;
        return copy;
      };
      isDamaged = this.#store.damage(await parquetKey(this.#store, range), this.#random() < 0.5 ? flipped : () => null);
      if (isDamaged) met.damagedFiles += 1;
    }
    return isDamaged;
  }

  /** A good snapshot that held the truth must hold it still. */
  async #checkForLoss({ range, exports }: SimulatedDay, wasTrue: boolean): Promise<void> {
    if (!wasTrue || !this.#upstream.hasSettled(range)) return;
    const manifest = await readManifest(this.#store, range);
    const isTrue =
      manifest?.consistent === true && this.#upstream.isTruth(range, await this.#rowsOf(range), manifest.totals);
    // Without rows that were odd in this run it is marked.
    if (manifest?.drift?.kind === 'malformedRows') return;
    // Rows that moved in this run are another truth.
    const moved = !isTrue && manifest?.consistent === true && manifest.rows > 0;
    if (!isTrue && !moved) this.#figures.worse.push(`${range.projectId} ${range.dateFrom}, export ${exports}`);
  }

  async #answer(request: VisitorsRequest): Promise<VisitorPage> {
    this.#time.now += 100 + this.#random() * 2_000;
    this.#perhapsKilled(0.01);
    if (this.#random() < 0.01) throw new ReadFailedError('answered 503', 503);
    try {
      const page = this.#upstream.page(request);
      const distortion = this.#distortion;
      return distortion && this.#time.now < distortion.until ? distortion.distort(page) : page;
    } catch (error) {
      this.#figures.met.busy += 1;
      throw error;
    }
  }

  #perhapsKilled(probability: number): void {
    if (this.#mayDie && this.#random() < 0.2) throw new RunEnded();
    if (this.#random() >= probability) return;
    this.#figures.met.kills += 1;
    throw new WorkerKilled();
  }

  /** Compares what is published, now that all its runs are over, with what the upstream ends up with. */
  async #judge({ range, settings, hadSettled, wasOver, isCutShort }: SimulatedDay): Promise<void> {
    const figures = this.#figures;
    figures.days += 1;
    const wasSettled = hadSettled && wasOver && !settings.isShuffled;
    if (wasSettled) figures.settledDays += 1;
    const manifest = await readManifest(this.#store, range);
    const isMarked = !manifest || !manifest.consistent || manifest.provisional;
    const wasOdd = manifest?.drift?.kind === 'malformedRows';
    if (isMarked && wasSettled && !wasOdd) figures.stillMarked += 1;
    if (!manifest || isMarked) return;
    if (this.#upstream.isTruth(range, await this.#rowsOf(range), manifest.totals)) return;
    if (isCutShort && !hadSettled) figures.met.cutShort += 1;
    else {
      const zones = `upstream in ${this.#zone}, schedule in ${this.#scheduleZone}`;
      figures.unmarkedWrong.push(`${range.projectId} ${range.dateFrom} (${zones})`);
    }
  }

  async #rowsOf(range: VisitorExportRange): Promise<VisitorRow[]> {
    const bytes = await this.#store.read(await parquetKey(this.#store, range));
    const found: VisitorRow[] = [];
    if (!bytes) return found;
    for await (const rows of readRows(bytes)) for (const row of rows) found.push(row);
    return found;
  }

  #pick<T>(options: readonly T[]): T {
    return options[Math.floor(this.#random() * options.length)] as T;
  }
}

interface SimulatedDay {
  range: VisitorExportRange;
  settings: DaySettings;
  exports: number;
  /** Whether no night to come reads the day, unless this one fails. */
  isLast: boolean;
  /** Whether the last of its own nights was missed. */
  isCutShort: boolean;
  /** Whether the upstream had all of the day when its last run began, and the day was over everywhere. */
  hadSettled: boolean;
  wasOver: boolean;
}

/** The nights that read a day. */
function daysNights(date: string, firstDay: string): number[] {
  const first = (Date.parse(date) - Date.parse(firstDay)) / DAY_MS;
  return Array.from({ length: DAYS }, (_, i) => first + i);
}

function mulberry(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
