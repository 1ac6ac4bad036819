/** The pages with the most visitors, found in two readings of the snapshots' files at constant memory. */
import type { SnapshotManifest } from '../contract.js';
import { sha256Hex } from '../snapshots/content-digest.js';
import type { Day } from '../snapshots/catalog.js';
import { snapshotFolder } from '../snapshots/layout.js';
import { readRows } from '../snapshots/parquet.js';
import type { SnapshotStore } from '../snapshots/snapshot-store.js';
import { sparkline } from './charts.js';
import { aiShare, PERIOD_DAYS, type Figures } from './figures.js';
import { change, html, type Html, number, percent, visible } from './html.js';

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
/** More than are shown: the first reading may forget the beginning of a late riser, the second one knows. */
const CANDIDATES = 200;
/** Paths remembered at once, and their characters; beyond, the ones with the fewest visitors are forgotten. */
const MAX_PATHS = 400_000;
const MAX_CHARACTERS = 64_000_000;

/** The pages with the most visitors a day, on average over the recent period. */
export async function topPages(store: SnapshotStore, { days, recent, before }: Figures): Promise<TopPages> {
  const unreadable = new Set<string>();
  const candidates = await findCandidates(store, recent.days, unreadable);
  const index = new Map(candidates.map((path, i) => [path, i]));
  const total = candidates.map(() => days.map(({ manifest }): number | null => (manifest ? 0 : null)));
  const ai = candidates.map(() => days.map(({ manifest }): number | null => (manifest ? 0 : null)));
  for (const [d, day] of days.entries()) {
    const isRead = await eachRow(store, day, unreadable, (path, rows, i) => {
      const candidate = index.get(path);
      if (candidate === undefined) return;
      total[candidate]![d] = Number(rows.total[i]);
      ai[candidate]![d] = Number(rows.ai[i]);
    });
    if (!isRead) for (const one of [...total, ...ai]) one[d] = null;
  }
  const positions = ({ days: some }: { days: Day[] }) => some.map((day) => days.indexOf(day));
  const [now, then] = [positions(recent), positions(before)];
  const pages = candidates.map((path, c): PageTrend => {
    const totals = total[c]!;
    const mean = { ai: meanOf(ai[c]!, now) ?? 0, total: meanOf(totals, now) ?? 0 };
    return { path, totals, mean, meanBefore: meanOf(totals, then) };
  });
  pages.sort((a, b) => b.mean.total - a.mean.total || (a.path < b.path ? -1 : 1));
  return { pages: pages.slice(0, SHOWN), unreadable: [...unreadable].sort() };
}

async function findCandidates(store: SnapshotStore, days: Day[], unreadable: Set<string>): Promise<string[]> {
  let sums = new Map<string, number>();
  let characters = 0;
  for (const day of days) {
    await eachRow(store, day, unreadable, (path, rows, i) => {
      const before = sums.get(path);
      if (before === undefined) characters += path.length;
      sums.set(path, (before ?? 0) + Number(rows.total[i]));
      if (sums.size <= MAX_PATHS && characters <= MAX_CHARACTERS) return;
      sums = halved(sums);
      characters = [...sums.keys()].reduce((all, { length }) => all + length, 0);
    });
  }
  return highest(sums, CANDIDATES).map(([path]) => path);
}

/** Those with the most visitors, up to half of what may be remembered. */
function halved(sums: Map<string, number>): Map<string, number> {
  const kept = new Map<string, number>();
  let characters = 0;
  for (const [path, sum] of highest(sums, MAX_PATHS / 2)) {
    characters += path.length;
    if (characters <= MAX_CHARACTERS / 2) kept.set(path, sum);
    else characters -= path.length; // a shorter one may still fit
  }
  return kept;
}

function highest(sums: Map<string, number>, count: number): [string, number][] {
  return [...sums].sort(([a, left], [b, right]) => right - left || (a < b ? -1 : 1)).slice(0, count);
}

interface Counts {
  ai: ArrayLike<bigint>;
  total: ArrayLike<bigint>;
}

/** False where the day has no snapshot, or its rows can't be read, which is noted. */
async function eachRow(
  store: SnapshotStore,
  { date, manifest }: Day,
  unreadable: Set<string>,
  see: (path: string, rows: Counts, i: number) => void,
): Promise<boolean> {
  if (!manifest) return false;
  try {
    for (const file of manifest.files) await eachRowOf(store, manifest, file, see);
    return true;
  } catch {
    unreadable.add(date);
    return false;
  }
}

async function eachRowOf(
  store: SnapshotStore,
  manifest: SnapshotManifest,
  { name, sha256 }: SnapshotManifest['files'][number],
  see: (path: string, rows: Counts, i: number) => void,
): Promise<void> {
  const bytes = await store.read(`${snapshotFolder(manifest)}/${name}`);
  if (!bytes) throw new Error(`${name} is missing`);
  if (sha256Hex(bytes) !== sha256) throw new Error(`${name} is damaged`);
  for await (const rows of readRows(bytes, ['path', 'ai', 'total'])) {
    for (let i = 0; i < rows.length; i++) see(rows.path[i] as string, rows, i);
  }
}

function meanOf(values: readonly (number | null)[], positions: readonly number[]): number | null {
  const known = positions.flatMap((position) => values[position] ?? []);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
}

/** The section of the page. */
export function pagesTable(pages: readonly PageTrend[], { recent }: Figures): Html {
  if (pages.length === 0)
    return html`<section>
      <h2>Top pages</h2>
      <p>${recent.days.length === 0 ? noRecentDay() : 'No page had a visitor.'}</p>
    </section>`;
  return html`<section>
    <h2>Top pages</h2>
    <table>
      <caption>
        Unique visitors of a page on a day, mean of the last ${PERIOD_DAYS} days, and their change against the
        ${PERIOD_DAYS} before
      </caption>
      <thead>
        <tr>
          <th scope="col">Page</th>
          <th scope="col">Trend</th>
          <th scope="col" class="number">A day</th>
          <th scope="col" class="number">Change</th>
          <th scope="col" class="number">AI share</th>
        </tr>
      </thead>
      <tbody>
        ${pages.map(pageRow)}
      </tbody>
    </table>
  </section>`;
}

function noRecentDay(): string {
  return `None of the last ${PERIOD_DAYS} days has a snapshot that is more than provisional.`;
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
