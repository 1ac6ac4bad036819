/** The report as one HTML page that needs nothing else. */
import type { SnapshotManifest } from '../../contract.js';
import { type Day, type DayState, isReplaced, listManifests } from '../snapshots/catalog.js';
import { projectFolder, reportFolder, reportKey, stagingKey } from '../snapshots/layout.js';
import { type SnapshotStore, SnapshotStoreError } from '../snapshots/snapshot-store.js';
import { type DateRange, isReadEarly, plusDays } from '../date-range.js';
import { inconsistencyText } from '../scan-checkpoint.js';
import { shareChart, visitorsChart } from './charts.js';
import { aiShare, type Figures, figuresOf, PERIOD_DAYS } from './figures.js';
import { change, countOf, html, Html, moment, number, percent, table, visible } from './html.js';
import { pagesTable, topPages } from './top-pages.js';

/** The states of days in doubt, with their meanings. */
const DOUBTS: Partial<Record<DayState, string>> = {
  inconsistent: 'the answers did not fit together',
  provisional: 'may not have been over when it was read',
  missing: 'no snapshot',
  damaged: 'not what was exported',
};

/** How often the snapshots are read if exports replace days meanwhile. */
const MAX_READS = 3;

/** A project's report as one HTML file, from its snapshots alone. `generatedAt` is ISO 8601. */
export async function buildReport(
  store: SnapshotStore,
  projectId: string,
  generatedAt: string,
  range?: DateRange,
): Promise<string> {
  for (let reads = 1; reads <= MAX_READS; reads++) {
    const manifests: SnapshotManifest[] = [];
    for await (const manifest of listManifests(store, projectId)) manifests.push(manifest);
    const figures = figuresOf(projectId, manifests, generatedAt, range);
    const { pages, damaged } = await topPages(store, figures);
    // Files that an export replaced are not damaged. The means are of the new manifests, too.
    if (!(await isAnyReplaced(store, damaged))) return pageOf(figures, pagesTable(pages, figures), damaged);
  }
  const error = new Error(`days were exported anew each of the ${MAX_READS} times that the report read them`);
  throw new SnapshotStoreError('read', projectFolder(projectId), error);
}

async function isAnyReplaced(store: SnapshotStore, days: readonly Day[]): Promise<boolean> {
  for (const { manifest } of days) if (manifest && (await isReplaced(store, manifest))) return true;
  return false;
}

/** Puts a project's report into the store, whole, of the last days or of a range; gives its URL. */
export async function writeReport(
  store: SnapshotStore,
  projectId: string,
  generatedAt: string,
  range?: DateRange,
): Promise<string> {
  const page = await buildReport(store, projectId, generatedAt, range);
  const key = reportKey(projectId, range);
  await store.put(key, Buffer.from(page));
  // Best effort: what a killed writer left was never visible.
  await store.removeFolder(stagingKey(reportFolder(projectId))).catch(() => {});
  return store.urlOf(key);
}

function pageOf(read: Figures, top: Html, damaged: readonly Day[]): string {
  // The files of such a day are not as written, but its manifest is: its totals still count in the means.
  const shown = (day: Day): Day => (damaged.includes(day) ? { ...day, state: 'damaged', manifest: null } : day);
  const figures = { ...read, days: read.days.map(shown) };
  const { projectId, days } = figures;
  const title = `Visitors of ${visible(projectId)}`;
  const nothing = html`<p>There are no snapshots of single days yet. The nightly export makes one for each day.</p>`;
  const content = days.length > 0 ? [tiles(figures), charts(days), top, quality(figures, damaged)] : nothing;
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'" />
        <meta name="robots" content="noindex" />
        <title>${title}</title>
        <style>
          ${new Html(STYLE)}
        </style>
      </head>
      <body>
        <header>
          <h1>Visitors of <bdi>${visible(projectId)}</bdi></h1>
          ${spanOf(figures)}
        </header>
        <main>${content}</main>
        <footer>Made ${moment(figures.generatedAt)} from snapshots of single days alone.</footer>
      </body>
    </html> `;
  return page.text;
}

function spanOf({ days, generatedAt, hasLater }: Figures): Html | null {
  const [first, last] = [days.at(0), days.at(-1)];
  if (!first || !last) return null;
  const span = first.date === last.date ? first.date : `${first.date} to ${last.date}`;
  const isOld = !hasLater && plusDays(last.date, 2) < generatedAt.slice(0, 10);
  return html`<p class="muted">${span}, ${countOf(days.length)}${isOld ? '; there is no later snapshot' : ''}</p>`;
}

function tiles({ days, recent, before }: Figures): Html {
  const { mean } = recent;
  const then = before.mean;
  const counts = (state: DayState) => days.filter((day) => day.state === state).length;
  const states = Object.keys(DOUBTS) as DayState[];
  const doubts = states.flatMap((state) => (counts(state) > 0 ? [`${counts(state)} ${state}`] : []));
  const shareThen = then && aiShare(then);
  const was = shareThen === null ? null : html`<span class="flat">was ${percent(shareThen)}</span>`;
  const inDoubt = doubts.length === 0 ? null : html`<span class="down">${doubts.join(', ')}</span>`;
  const against = then
    ? `, against ${countOf(before.days.length)} in the ${PERIOD_DAYS} before`
    : '; no days before to compare with';
  return html`<dl class="tiles">
      ${tile('Human visitors a day', mean && number(mean.human), change(mean?.human, then?.human))}
      ${tile('AI visitors a day', mean && number(mean.ai), change(mean?.ai, then?.ai))}
      ${tile('AI share', mean && percent(aiShare(mean)), was)}
      ${tile('Days to believe', `${counts('final')} of ${days.length}`, inDoubt)}
    </dl>
    <p class="muted">
      Means of ${countOf(recent.days.length)} in the last ${PERIOD_DAYS}${against}. Unique visitors of different days or
      pages can’t be added up.
    </p>`;
}

function tile(name: string, value: string | null, note: Html | null): Html {
  return html`<div class="tile">
    <dt>${name}</dt>
    <dd><span class="number">${value ?? '–'}</span><br />${note}</dd>
  </div>`;
}

function charts(days: readonly Day[]): Html {
  return html`<section>
      <h2>Visitors over time</h2>
      ${visitorsChart(days)}
      <p class="muted">
        A day without a snapshot, or with a damaged one, is a gap. A red dot is an inconsistent day, a hollow one a
        provisional day.
      </p>
    </section>
    <section>
      <h2>AI share</h2>
      ${shareChart(days)}
    </section>`;
}

function quality({ days, generatedAt }: Figures, damaged: readonly Day[]): Html {
  const doubtful = days.filter(({ state }) => state !== 'final').toReversed();
  const note = html`<p class="down">
    The files of ${damaged.map(({ date }) => date).join(', ')} are not those that were exported; “agent-jobs export
    verify” says more.
  </p>`;
  return html`<section>
    <h2>How far the days can be believed</h2>
    ${doubtful.length === 0 ? html`<p>No day is missing or in doubt.</p>` : doubtTable(doubtful)}
    ${earlyNote(days, generatedAt)} ${damaged.length > 0 ? note : null}
  </section>`;
}

/** For how many days nights of the default Schedule read a day again. */
const DAYS_READ_AGAIN = 3;
/** Days that are named one by one. */
const MAX_NAMED = 10;

/** The final days that were last read within a day after they were over everywhere: later nights were missed. */
function earlyNote(days: readonly Day[], generatedAt: string): Html | null {
  const over = plusDays(generatedAt.slice(0, 10), -DAYS_READ_AGAIN);
  const early = days.filter(({ state, manifest }) => state === 'final' && manifest && manifest.dateTo < over);
  const dates = early.filter(({ manifest }) => manifest && isReadEarly(manifest)).map(({ date }) => date);
  if (dates.length === 0) return null;
  const named = dates.length > MAX_NAMED ? `${dates[0]} to ${dates.at(-1)}` : dates.join(', ');
  return html`<p class="muted">
    Read for the last time within a day after their end, so later data may be missing: ${named}
    (${countOf(dates.length)}).
  </p>`;
}

function doubtTable(days: readonly Day[]): Html {
  const rows = days.map(({ date, state, manifest }) => {
    const inconsistency = manifest?.drift ? inconsistencyText(manifest.drift) : '';
    const also = manifest?.provisional && state !== 'provisional' ? 'provisional' : '';
    const read = manifest ? `read ${moment(manifest.exportedAt)}` : '';
    return html`<tr>
      <td class="day">${date}</td>
      <td title="${DOUBTS[state] ?? ''}">${state}</td>
      <td>${[inconsistency, also, read].filter((text) => text !== '').join('; ')}</td>
    </tr>`;
  });
  return table(['Day', 'State', 'What was seen'], rows);
}

/** The page's CSS, inline: the page loads nothing from elsewhere. */
const STYLE = `
:root { color-scheme: light dark; --paper: #fff; --card: #f6f7f9; --ink: #17202c; --muted: #5a6675; --line: #dfe3e8;
  --human: #1f6feb; --ai: #c2570c; --good: #1a7f37; --bad: #c4262e; }
@media (prefers-color-scheme: dark) { :root { --paper: #10151c; --card: #19202a; --ink: #e8edf3; --muted: #9aa7b6;
  --line: #2b3542; --human: #6ea8fe; --ai: #f2a65a; --good: #56d364; --bad: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px 20px 48px; max-width: 1000px; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 26px; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 36px 0 8px; }
p { margin: 6px 0; } .muted, caption, footer { color: var(--muted); font-size: 14px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 20px 0;
  padding: 0; }
.tile { background: var(--card); border-radius: 10px; padding: 12px 14px; }
.tile dt { color: var(--muted); font-size: 14px; } .tile dd { margin: 0; }
.tile .number { font-size: 26px; font-weight: 600; font-variant-numeric: tabular-nums; }
.chart { overflow-x: auto; } .chart svg { display: block; width: 100%; min-width: 640px; height: auto; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 15px; }
th { text-align: left; font-weight: 600; color: var(--muted); font-size: 13px; vertical-align: bottom; }
th, td { padding: 6px 8px; border-bottom: 1px solid var(--line); } td.day { white-space: nowrap; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.path { overflow-wrap: anywhere; min-width: 110px; } caption { text-align: left; padding-bottom: 6px; }
.spark { width: 130px; height: 24px; display: block; overflow: visible; }
.spark path { fill: none; stroke: var(--human); stroke-width: 1.6; stroke-linecap: round; stroke-linejoin: round;
  vector-effect: non-scaling-stroke; }
.up { color: var(--good); } .down { color: var(--bad); } .flat { color: var(--muted); }
footer { margin-top: 40px; border-top: 1px solid var(--line); padding-top: 12px; }
@media (max-width: 560px) { body { padding: 16px 14px 32px; }
  .tiles { grid-template-columns: 1fr 1fr; } .tile .number { font-size: 22px; }
  th, td { padding: 6px 4px; font-size: 14px; } .spark { width: 64px; } }
`;
