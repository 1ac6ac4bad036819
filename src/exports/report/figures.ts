/**
 * What a report says, worked out from daily snapshots. Unique visitors of several days can't be added up, so figures
 * are averages of days.
 */
import type { SnapshotManifest, VisitorTotals } from '../../contract.js';
import { type DateRange, plusDays } from '../date-range.js';
import { type Day, daysOf, isOneDay, mayHaveBegun } from '../snapshots/catalog.js';

/** The days that charts and sparklines show. */
export const REPORT_DAYS = 90;
/** Four weeks are compared with the four before them: whole weeks, so that weekends weigh the same. */
export const PERIOD_DAYS = 28;

interface Period {
  /** Days that count: those that are believed, or provisional ones if none is. */
  days: Day[];
  /** Means of the days' totals; null without any day. */
  mean: VisitorTotals | null;
}

/** What the report shows of a project. */
export interface Figures {
  projectId: string;
  generatedAt: string;
  /** Every day shown, in order, gaps included. */
  days: Day[];
  /** Whether there are snapshots of later days. */
  hasLater: boolean;
  recent: Period;
  before: Period;
}

/**
 * The figures of a range; without one those of the last days up to yesterday by UTC, or up to the last snapshot if that
 * is later or long ago.
 */
export function figuresOf(
  projectId: string,
  manifests: readonly SnapshotManifest[],
  generatedAt: string,
  range?: DateRange,
): Figures {
  const today = generatedAt.slice(0, 10);
  const daily = manifests.filter((manifest) => isOneDay(manifest) && mayHaveBegun(manifest, today));
  const last = daily.at(-1)?.dateTo ?? '';
  // A project that ended long ago shows its last days, not an empty page.
  const isOld = last !== '' && last <= plusDays(today, -REPORT_DAYS);
  const dateTo = range?.dateTo ?? (last > today || isOld ? last : today);
  const earliest = range?.dateFrom ?? plusDays(dateTo, -REPORT_DAYS);
  const begun = daily[0]?.dateFrom ?? dateTo;
  // Before the project's first snapshot nothing is missing.
  const first = begun > earliest ? begun : earliest;
  const days = daysOf(daily, first, dateTo);
  const isAnyBelieved = days.some(isBelieved);
  const counting = (some: Day[]) =>
    periodOf(some.filter((day) => (isAnyBelieved ? isBelieved(day) : day.state === 'provisional')));
  return {
    projectId,
    generatedAt,
    days,
    hasLater: last > dateTo,
    recent: counting(days.slice(-PERIOD_DAYS)),
    before: counting(days.slice(-2 * PERIOD_DAYS, -PERIOD_DAYS)),
  };
}

/** Whether a day is over and not in doubt. Its totals are the site's own, also where rows were left out. */
export function isBelieved({ state, manifest }: Day): boolean {
  return state === 'final' || (state === 'inconsistent' && manifest?.drift?.kind === 'malformedRows');
}

function periodOf(days: Day[]): Period {
  const totals = days.flatMap(({ manifest }) => (manifest ? [manifest.totals] : []));
  if (totals.length === 0) return { days, mean: null };
  const mean = (pick: (one: VisitorTotals) => number) =>
    totals.reduce((sum, one) => sum + pick(one), 0) / totals.length;
  return {
    days,
    mean: { human: mean(({ human }) => human), ai: mean(({ ai }) => ai), total: mean(({ total }) => total) },
  };
}

/** AI visitors as part of all unique visitors; null without visitors. */
export function aiShare({ ai, total }: Pick<VisitorTotals, 'ai' | 'total'>): number | null {
  return total > 0 ? ai / total : null;
}
