/** The pages with the most visitors, found in one reading of the snapshots' files. */
import { sha256Hex, type VisitorRow } from '../snapshots/content-digest.js';
import type { Day } from '../snapshots/catalog.js';
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
  /** Null where the period before has no day. */
  meanBefore: number | null;
}

interface TopPages {
  pages: PageTrend[];
  /** Dates whose rows could not be read. */
  unreadable: string[];
}

const SHOWN = 25;

/** The pages with the most visitors a day, on average over the recent period. */
export async function topPages(store: SnapshotStore, { days, recent, before }: Figures): Promise<TopPages> {
  const seen = new SeenPages();
  const unread = new Set<number>();
  const counting = new Set(recent.days);
  // Newest first: of earlier days only the pages count that the recent period has at its top.
  for (const [day, found] of [...days.entries()].reverse()) {
    const isRecent = day >= days.length - PERIOD_DAYS;
    if (!isRecent) seen.keepTop(SHOWN);
    const see = (row: VisitorRow) => seen.add(row, day, { isRecent, isCounted: counting.has(found) });
    if (!(await eachRow(store, found, see))) unread.add(day);
  }
  const positions = (some: Day[]) => some.map((day) => days.indexOf(day)).filter((day) => !unread.has(day));
  const [now, then] = [positions(recent.days), positions(before.days)];
  const pages = seen.top(SHOWN).map(({ path, rows }): PageTrend => {
    const onDay = (day: number) => rows.get(day) ?? { ai: 0, total: 0 };
    const meanOf = (some: number[], count: 'ai' | 'total') =>
      some.length === 0 ? null : some.reduce((sum, day) => sum + onDay(day)[count], 0) / some.length;
    const mean = { ai: meanOf(now, 'ai') ?? 0, total: meanOf(now, 'total') ?? 0 };
    const totals = days.map((_, day) => (unread.has(day) ? null : onDay(day).total));
    return { path, totals, mean, meanBefore: meanOf(then, 'total') };
  });
  const unreadable = days.filter(({ manifest }, day) => manifest !== null && unread.has(day));
  return { pages, unreadable: unreadable.map(({ date }) => date) };
}

interface Page {
  path: string;
  /** Visitors of the days that count. */
  visitors: number;
  /** By the position of the day. */
  rows: Map<number, { ai: number; total: number }>;
}

/**
 * Bounds what is remembered of the recent days: then the pages with the fewest visitors are forgotten. A page takes
 * some 400 bytes and its path, and each day more 80: about 150 MB at most, in a worker of 340 MB.
 */
const MAX_PAGES = 150_000;
const MAX_ROWS = 600_000;
const MAX_CHARACTERS = 32_000_000;

class SeenPages {
  #pages = new Map<string, Page>();
  #rows = 0;
  #characters = 0;

  /** Pages that are not known yet are those of a recent day. */
  add({ path, ai, total }: VisitorRow, day: number, { isRecent, isCounted }: Record<string, boolean>): void {
    let page = this.#pages.get(path);
    if (!page && !isRecent) return;
    page ??= this.#remember({ path, visitors: 0, rows: new Map() });
    page.rows.set(day, { ai, total });
    if (isCounted) page.visitors += total;
    this.#rows++;
    const isFull = this.#pages.size > MAX_PAGES || this.#rows > MAX_ROWS || this.#characters > MAX_CHARACTERS;
    if (isFull) this.keepTop(this.#pages.size / 2);
  }

  top(count: number): Page[] {
    const pages = [...this.#pages.values()].filter(({ visitors }) => visitors > 0);
    return pages.sort((a, b) => b.visitors - a.visitors || (a.path < b.path ? -1 : 1)).slice(0, count);
  }

  keepTop(count: number): void {
    if (this.#pages.size <= count) return;
    const kept = this.top(count);
    [this.#pages, this.#rows, this.#characters] = [new Map(), 0, 0];
    for (const page of kept) this.#remember(page);
  }

  #remember(page: Page): Page {
    this.#pages.set(page.path, page);
    this.#rows += page.rows.size;
    this.#characters += page.path.length;
    return page;
  }
}

/** False where the day has no snapshot, or its rows can't be read. */
async function eachRow(store: SnapshotStore, { manifest }: Day, see: (row: VisitorRow) => void): Promise<boolean> {
  if (!manifest) return false;
  try {
    for (const { name, sha256 } of manifest.files) {
      const bytes = await store.read(`${snapshotFolder(manifest)}/${name}`);
      if (!bytes || sha256Hex(bytes) !== sha256) return false;
      for await (const rows of readRows(bytes)) rows.forEach(see);
    }
    return true;
  } catch {
    return false;
  }
}

/** The section of the page. */
export function pagesTable(pages: readonly PageTrend[], { recent }: Figures): Html {
  const nothing =
    recent.days.length === 0
      ? `None of the last ${PERIOD_DAYS} days has a snapshot that is more than provisional.`
      : 'No page had a visitor.';
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
