/** The pages with the most visitors. The snapshots' files are read twice: for the best pages, and for their days. */
import { sha256Hex, type VisitorRow } from '../snapshots/content-digest.js';
import { type Day, hasForeignFiles } from '../snapshots/catalog.js';
import { snapshotFolder } from '../snapshots/layout.js';
import { readRows } from '../snapshots/parquet.js';
import type { SnapshotStore } from '../snapshots/snapshot-store.js';
import { sparkline } from './charts.js';
import { aiShare, PERIOD_DAYS, type Figures } from './figures.js';
import { change, html, type Html, number, percent, table, visible } from './html.js';

interface PageTrend {
  path: string;
  /** Visitors on each of the report's days; null on days without a snapshot. */
  totals: (number | null)[];
  /** Means of the days that count. */
  mean: { ai: number; total: number };
  /** Null if the period before has no day. */
  meanBefore: number | null;
}

interface TopPages {
  pages: PageTrend[];
  /** Days with a snapshot whose files are not the ones that its manifest names. */
  damaged: Day[];
}

const SHOWN = 25;
/** Bounds a worker's memory: beyond it, the half of the pages with the fewest visitors is forgotten. */
const MAX_PAGES = 300_000;
const MAX_PATH_CHARACTERS = 32_000_000;

/** The pages with the most visitors a day, on average over the recent period. */
export async function topPages(store: SnapshotStore, { days, recent, before }: Figures): Promise<TopPages> {
  const unread = await foreignDays(store, days);
  const readable = (some: readonly Day[]) => some.filter((day) => !unread.has(day));
  const best = await bestPaths(store, readable(recent.days));
  const found = new Map(best.map((path) => [path, new Map<Day, VisitorRow>()]));
  for (const day of readable(days)) {
    if (!(await eachRow(store, day, (row) => void found.get(row.path)?.set(day, row)))) unread.add(day);
  }
  const [now, then] = [readable(recent.days), readable(before.days)];
  const pages = [...found].map(([path, rows]): PageTrend => {
    const on = (day: Day, count: 'ai' | 'total') => rows.get(day)?.[count] ?? 0;
    const meanOf = (some: Day[], count: 'ai' | 'total') =>
      some.length === 0 ? null : some.reduce((sum, day) => sum + on(day, count), 0) / some.length;
    const mean = { ai: meanOf(now, 'ai') ?? 0, total: meanOf(now, 'total') ?? 0 };
    const totals = days.map((day) => (unread.has(day) ? null : on(day, 'total')));
    return { path, totals, mean, meanBefore: meanOf(then, 'total') };
  });
  return { pages, damaged: days.filter((day) => day.manifest !== null && unread.has(day)) };
}

/** Days whose folders hold Parquet files that no manifest names. */
async function foreignDays(store: SnapshotStore, days: readonly Day[]): Promise<Set<Day>> {
  const foreign = new Set<Day>();
  for (const day of days) if (day.manifest && (await hasForeignFiles(store, day.manifest))) foreign.add(day);
  return foreign;
}

async function bestPaths(store: SnapshotStore, days: readonly Day[]): Promise<string[]> {
  let visitors = new Map<string, number>();
  let characters = 0;
  const top = (count: number) => {
    const pages = [...visitors].filter(([, total]) => total > 0);
    return pages.sort(([a, more], [b, less]) => less - more || (a < b ? -1 : 1)).slice(0, count);
  };
  // Newest first.
  for (const day of days.toReversed()) {
    await eachRow(store, day, ({ path, total }) => {
      if (!visitors.has(path)) characters += path.length;
      visitors.set(path, (visitors.get(path) ?? 0) + total);
      if (visitors.size <= MAX_PAGES && characters <= MAX_PATH_CHARACTERS) return;
      visitors = new Map(top(visitors.size / 2));
      characters = [...visitors.keys()].reduce((sum, { length }) => sum + length, 0);
    });
  }
  return top(SHOWN).map(([path]) => path);
}

/** False if the day has no snapshot, or its files are not those of the manifest. Throws if the store fails. */
async function eachRow(store: SnapshotStore, { manifest }: Day, see: (row: VisitorRow) => void): Promise<boolean> {
  if (!manifest) return false;
  for (const { name, sha256 } of manifest.files) {
    // Outside of the `try`: a store that fails for a moment damages no day.
    const bytes = await store.read(`${snapshotFolder(manifest)}/${name}`);
    if (!bytes || sha256Hex(bytes) !== sha256) return false;
    try {
      for await (const rows of readRows(bytes)) rows.forEach(see);
    } catch {
      return false;
    }
  }
  return true;
}

/** The section of the page. */
export function pagesTable(pages: readonly PageTrend[], { recent }: Figures): Html {
  const nothing =
    recent.days.length === 0 ? `None of the last ${PERIOD_DAYS} days can be believed.` : 'No page had a visitor.';
  const caption = html`<caption>
    Unique visitors of a page on a day, mean of the last ${PERIOD_DAYS} days, and their change against the
    ${PERIOD_DAYS} before
  </caption>`;
  const headings = ['Page', 'Trend', { number: 'A day' }, { number: 'Change' }, { number: 'AI share' }];
  return html`<section>
    <h2>Top pages</h2>
    ${pages.length === 0 ? html`<p>${nothing}</p>` : table(headings, pages.map(pageRow), caption)}
  </section>`;
}

function pageRow({ path, totals, mean, meanBefore }: PageTrend): Html {
  return html`<tr>
    <td class="path"><bdi>${visible(path)}</bdi></td>
    <td>${sparkline(totals)}</td>
    <td class="number">${number(mean.total)}</td>
    <td class="number">${change(mean.total, meanBefore ?? undefined) ?? '–'}</td>
    <td class="number">${percent(aiShare(mean))}</td>
  </tr>`;
}
