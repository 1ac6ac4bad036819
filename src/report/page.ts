/** The report as one HTML page that needs nothing else. */
import { plusDays } from '../visitor-export/date-range.js';
import type { Day, DayState } from '../snapshots/days.js';
import { inconsistencyText } from '../visitor-export/inconsistency.js';
import { shareChart, sparkline, visitorsChart } from './charts.js';
import { aiShare, PERIOD_DAYS, type Figures, type Period } from './figures.js';
import { change, countOf, moment, number, percent } from './format.js';
import { html, Html, visible } from './html.js';
import { STYLE } from './style.js';
import type { PageTrend, TopPages } from './top-pages.js';

const MAX_LISTED = 60;
const STATES: [state: DayState, meaning: string][] = [
  ['final', 'consistent and over'],
  ['inconsistent', 'the answers did not fit together'],
  ['provisional', 'may not have been over when it was read'],
  ['missing', 'no snapshot'],
  ['damaged', 'not what was exported'],
];

/** The whole page. */
export function reportPage(figures: Figures, top: TopPages): string {
  const { projectId, days } = figures;
  const hasData = days.some(({ manifest }) => manifest !== null);
  const title = `Visitors of ${visible(projectId)}`;
  const content = hasData
    ? [tiles(figures), charts(days), pagesTable(top.pages, figures.recent), quality(days, top.unreadable)]
    : nothingYet();
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
        ${footer(figures)}
      </body>
    </html> `;
  return page.text;
}

function nothingYet(): Html {
  return html`<p>There are no snapshots of single days yet. The nightly export makes one for each day.</p>`;
}

function spanOf({ days, generatedAt }: Figures): Html | null {
  const [first, last] = [days.at(0), days.at(-1)];
  if (!first || !last) return null;
  const span = first.date === last.date ? first.date : `${first.date} to ${last.date}`;
  const isOld = plusDays(last.date, 2) < generatedAt.slice(0, 10);
  return html`<p class="muted">${span}, ${countOf(days.length)}${isOld ? '; there is no later snapshot' : ''}</p>`;
}

function tiles({ days, recent, before }: Figures): Html {
  const { mean } = recent;
  const then = before.mean;
  const counts = (state: DayState) => days.filter((day) => day.state === state).length;
  const doubts = STATES.slice(1).flatMap(([state]) => (counts(state) > 0 ? [`${counts(state)} ${state}`] : []));
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
        A shaded band has no snapshot, or a damaged one, a red dot is an inconsistent day, a hollow one a provisional
        day.
      </p>
      ${dailyTable(days)}
    </section>
    <section>
      <h2>AI share</h2>
      ${shareChart(days)}
    </section>`;
}

function dailyTable(days: readonly Day[]): Html {
  const rows = days.toReversed().map(({ date, state, manifest }) => {
    const counts = manifest ? [manifest.totals.human, manifest.totals.ai, manifest.totals.total] : ['–', '–', '–'];
    const cells = counts.map(
      (count) => html`<td class="number">${typeof count === 'number' ? number(count) : count}</td>`,
    );
    return html`<tr>
      <td class="day">${date}</td>
      ${cells}
      <td>${state === 'final' ? '' : state}</td>
    </tr>`;
  });
  return html`<details>
    <summary>Every day in figures</summary>
    <table>
      <thead>
        <tr>
          <th scope="col">Day</th>
          <th scope="col" class="number">Human</th>
          <th scope="col" class="number">AI</th>
          <th scope="col" class="number">All</th>
          <th scope="col">State</th>
        </tr>
      </thead>
      <tbody>
        ${rows}
      </tbody>
    </table>
  </details>`;
}

function pagesTable(pages: readonly PageTrend[], recent: Period): Html {
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

function quality(days: readonly Day[], unreadable: readonly string[]): Html {
  const doubtful = days.filter(({ state }) => state !== 'final').toReversed();
  const more = doubtful.length - MAX_LISTED;
  return html`<section>
    <h2>How far the days can be believed</h2>
    <ul class="strip" aria-label="State of each day">
      ${days.map(({ date, state }) => html`<li class="${state}" title="${date}: ${state}"></li>`)}
    </ul>
    <p class="key">
      ${STATES.map(([state, meaning]) => html`<span><i class="${state}"></i>${state}: ${meaning}</span>`)}
    </p>
    ${doubtful.length === 0 ? html`<p>No day is missing or in doubt.</p>` : doubtTable(doubtful.slice(0, MAX_LISTED))}
    ${more > 0 ? html`<p class="muted">and ${more} earlier days</p>` : null}
    ${unreadable.length > 0 ? unreadableNote(unreadable) : null}
  </section>`;
}

function unreadableNote(unreadable: readonly string[]): Html {
  return html`<p class="down">
    The rows of ${unreadable.join(', ')} could not be read; “agent-jobs export verify” tells more.
  </p>`;
}

function doubtTable(days: readonly Day[]): Html {
  const rows = days.map(({ date, state, manifest }) => {
    const inconsistency = manifest?.drift ? inconsistencyText(manifest.drift) : '';
    const also = manifest?.provisional && state !== 'provisional' ? 'provisional' : '';
    const read = manifest ? `read ${moment(manifest.exportedAt)}` : '';
    return html`<tr>
      <td class="day">${date}</td>
      <td>${state}</td>
      <td>${[inconsistency, also, read].filter((text) => text !== '').join('; ')}</td>
    </tr>`;
  });
  return html`<table>
    <thead>
      <tr>
        <th scope="col">Day</th>
        <th scope="col">State</th>
        <th scope="col">What was seen</th>
      </tr>
    </thead>
    <tbody>
      ${rows}
    </tbody>
  </table>`;
}

function footer({ generatedAt }: Figures): Html {
  return html`<footer>Made ${moment(generatedAt)} from snapshots of single days alone.</footer>`;
}
