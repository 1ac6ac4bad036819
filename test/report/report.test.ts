import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { MockActivityEnvironment } from '@temporalio/testing';
import { expect, test, vi } from 'vitest';
import { createExportActivities } from '../../src/activities/visitor-export/export-activities.js';
import { type DateRange, plusDays } from '../../src/exports/date-range.js';
import { buildReport, writeReport } from '../../src/exports/report/report.js';
import { manifestKey, reportKey, snapshotFolder } from '../../src/exports/snapshots/layout.js';
import { encodeManifest } from '../../src/exports/snapshots/manifest.js';
import { type SnapshotStore, SnapshotStoreError } from '../../src/exports/snapshots/snapshot-store.js';
import type { Upstream } from '../../src/upstream/upstream.js';
import { projectDays } from '../../src/worker/export-gauges.js';
import { putDay } from './snapshots.js';
import { parquetKey, parquetPath } from '../snapshots/published.js';
import { changed, useStore } from '../snapshots/test-store.js';

const NOW = '2026-03-11T06:00:00.000Z';
const TODAY = '2026-03-11';

let root: string;
let store: SnapshotStore;
useStore((made) => ({ root, store } = made));

/** How the days are of projects whose Schedules were made on a date. */
const daysOf = (now: string, made: string, ...projects: string[]) =>
  projectDays(store, Date.parse(now), new Map(projects.map((project) => [project, Date.parse(made)])));
const page = (path: string, human: number, ai = 0) => ({ path, human, ai, total: human + ai });

/** The text of a page, tags removed. */
async function textOf(projectId = 'p', range?: DateRange, from = store): Promise<string> {
  const report = await buildReport(from, projectId, NOW, range);
  return report
    .replace(/<(style|svg)[\s\S]*?<\/\1>/g, '')
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ');
}

test('without snapshots the page says so', async () => {
  expect(await textOf()).toContain('There are no snapshots of single days yet');
});

test('one day is shown as it is, with nothing to compare', async () => {
  await putDay(store, 'p', { date: '2026-03-10', rows: [page('/', 30, 10), page('/a', 5)] });
  const text = await textOf();
  expect(text).toContain('2026-03-10, 1 day');
  expect(text).toContain('Human visitors a day 35');
  expect(text).toContain('no days before to compare with');
  expect(text).toMatch(/AI share 22 %/);
});

test('28 days are compared with the 28 before, days in doubt are shown and provisional ones not averaged', async () => {
  for (let back = 1; back <= 56; back++) {
    const human = back <= 28 ? 200 : 100;
    const rows = [page('/old', 10), page('/', human)];
    if (back === 5) continue;
    await putDay(store, 'p', {
      date: plusDays(TODAY, -back),
      rows: back === 1 ? [page('/', 1)] : rows,
      ...(back === 9 && { drift: { kind: 'overlap', offset: 249 } }),
      provisional: back === 1,
    });
  }
  const text = await textOf();
  expect(text).toContain('Human visitors a day 210 ▲ 91 %');
  expect(text).toContain('Means of 25 days in the last 28, against 28 days in the 28 before');
  expect(text).toContain('Days to believe 53 of 56 1 inconsistent, 1 provisional, 1 missing');
  expect(text).toContain(
    `${plusDays(TODAY, -9)} inconsistent a page did not begin with the last row of the page before (overlap, row 249)`,
  );
  expect(text).toContain(`${plusDays(TODAY, -5)} missing`);
  expect(text).toMatch(/ \/ 200 ▲ 100 % 0\.0 % \/old 10 ±0 %/);
});

test('days that no night exported are missing up to yesterday', async () => {
  await putDay(store, 'p', { date: '2026-03-07', rows: [page('/', 1)] });
  expect(await textOf()).toContain('Days to believe 1 of 4 3 missing');
});

test('days without a snapshot at the beginning of a span are missing, unless the project began later', async () => {
  const range = { dateFrom: '2026-03-01', dateTo: '2026-03-08' };
  const day = (date: string) => putDay(store, 'p', { date, rows: [page('/', 1)] });
  await day('2026-03-06');
  expect(await textOf('p', range)).toContain('Days to believe 1 of 2 1 missing');
  await day('2026-02-27');
  expect(await textOf('p', range)).toContain('Days to believe 1 of 7 6 missing');
});

test('a snapshot of a day that has not begun anywhere, asked for by mistake, is left out', async () => {
  await putDay(store, 'p', { date: '2026-03-10', rows: [page('/', 35)] });
  await putDay(store, 'p', { date: '2026-03-12', rows: [page('/', 1)], provisional: true });
  await putDay(store, 'p', { date: '2026-03-13', rows: [] });
  await putDay(store, 'p', { date: '2027-03-13', rows: [] });
  const text = await textOf();
  expect(text).toContain('2026-03-10 to 2026-03-12, 3 days');
  expect(text).toContain('Human visitors a day 35');
});

test('a project whose last snapshot is weeks old has days without one, not days without visitors', async () => {
  await putDay(store, 'p', { date: plusDays(TODAY, -40), rows: [page('/', 7)] });
  const text = await textOf();
  expect(text).toContain('None of the last 28 days can be believed');
  expect(text).not.toContain('No page had a visitor');
  await putDay(store, 'p', { date: plusDays(TODAY, -1), rows: [] });
  expect(await textOf()).toContain('No page had a visitor');
});

test('a project whose only day is inconsistent is not told that its day is provisional', async () => {
  await putDay(store, 'p', { date: plusDays(TODAY, -1), rows: [page('/', 7)], drift: { kind: 'totals', offset: 0 } });
  const text = await textOf();
  expect(text).toContain('None of the last 28 days can be believed');
  expect(text).not.toContain('provisional.');
});

test('a project that ended long ago shows its last days, and says that they are', async () => {
  await putDay(store, 'p', { date: '2025-03-01', rows: [page('/', 7)] });
  await putDay(store, 'p', { date: '2025-03-02', rows: [page('/', 7)] });
  expect(await textOf()).toContain('2025-03-01 to 2025-03-02, 2 days; there is no later snapshot');
});

test('final days whose later nights were missed are named, as long as none to come reads them', async () => {
  const readDay = async (date: string, readAt: string) => {
    const manifest = await putDay(store, 'p', { date, rows: [page('/', 3)] });
    await store.put(manifestKey({ ...manifest }), encodeManifest({ ...manifest, exportedAt: readAt }));
  };
  await readDay('2026-03-04', '2026-03-06T11:59:00.000Z');
  await readDay('2026-03-05', '2026-03-06T12:30:00.000Z');
  await readDay('2026-03-06', '2026-03-08T12:00:00.000Z');
  for (const date of ['2026-03-07', '2026-03-08', '2026-03-10']) await readDay(date, '2026-03-11T12:00:00.000Z');
  await readDay('2026-03-09', '2026-03-10T12:30:00.000Z');
  const text = await textOf();
  expect(text).toContain('No day is missing or in doubt. Read for the last time within a day after their end');
  expect(text).toContain('2026-03-04, 2026-03-05 (2 days)');
  for (const date of ['2026-03-06', '2026-03-09']) expect(text.split('Read for the last time')[1]).not.toContain(date);
});

test('snapshots of several days and of other projects are left out', async () => {
  await putDay(store, 'p', { date: '2026-03-10', rows: [page('/', 3)] });
  await putDay(store, 'p', { date: '2026-03-01', dateTo: '2026-03-09', rows: [page('/week', 1_000)] });
  await putDay(store, 'p2', { date: '2026-03-09', rows: [page('/other', 1_000)] });
  const text = await textOf();
  expect(text).toContain('2026-03-10, 1 day');
  expect(text).not.toMatch(/week|other/);
});

test('text from outside is escaped and made visible, and nothing is loaded from elsewhere', async () => {
  const projectId = '<img src=x onerror=alert(1)>';
  await putDay(store, projectId, { date: '2026-03-10', rows: [page('/<script>"\'&</script>\u202e\n', 3)] });
  const report = await buildReport(store, projectId, NOW);
  expect(report).toContain('/&lt;script&gt;&quot;&#39;&amp;&lt;/script&gt;\\u202e\\u000a');
  expect(report).toContain('Visitors of &lt;img src=x onerror=alert(1)&gt;');
  expect(report).not.toMatch(/<script|<img|<link|@import|url\((?!#)|src=["']/);
  expect(report).toContain("default-src 'none'");
});

test('of a path of megabytes the report shows the beginning', async () => {
  await putDay(store, 'p', { date: '2026-03-10', rows: [page(`/${'x'.repeat(2_000_000)}`, 3), page('/short', 2)] });
  const report = await buildReport(store, 'p', NOW);
  expect(report.length).toBeLessThan(200_000);
  expect(report).toMatch(/<bdi>\/x{499}…<\/bdi>[\s\S]*<bdi>\/short<\/bdi>/);
});

test('the most visited pages are found among many, with their days', async () => {
  for (let back = 1; back <= 3; back++) {
    const rows = Array.from({ length: 3_000 }, (_, i) => page(`/page-${i}`, (i * 7_919) % 3_000));
    await putDay(store, 'p', { date: plusDays(TODAY, -back), rows });
  }
  const paths = [...(await buildReport(store, 'p', NOW)).matchAll(/<bdi>(\/page-\d+)<\/bdi>/g)].map(([, path]) => path);
  const expected = Array.from({ length: 25 }, (_, n) => {
    return `/page-${Array.from({ length: 3_000 }, (_unused, i) => i).find((i) => (i * 7_919) % 3_000 === 2_999 - n)}`;
  });
  expect(paths).toEqual(expected);
});

test('rows with a flipped bit, which any reader of Parquet takes, are named and not shown', async () => {
  const range = { projectId: 'p', dateFrom: '2026-03-09', dateTo: '2026-03-10' };
  await putDay(store, 'p', { date: '2026-03-09', rows: [page('/flipped', 3), page('/other', 2)] });
  await putDay(store, 'p', { date: '2026-03-10', rows: [page('/', 4)] });
  const file = parquetPath(root, range);
  const bytes = await readFile(file);
  bytes[bytes.indexOf('/flipped') + 1]! ^= 1;
  await writeFile(file, bytes);
  const text = await textOf();
  expect(text).toContain('The files of 2026-03-09 are not those that were exported');
  expect(text).toContain('Days to believe 1 of 2 1 damaged');
  expect(text).toContain('2026-03-09 damaged');
  expect(text).not.toMatch(/glipped|flipped/);
});

test('a store that fails is no damage: the report fails, and the page before stays', async () => {
  await putDay(store, 'p', { date: '2026-03-10', rows: [page('/', 4)] });
  await writeReport(store, 'p', NOW);
  const before = await store.read(reportKey('p'));
  const failing = changed(store, 'read', (real, args) => {
    if (!String(args[0]).endsWith('.parquet')) return real(...args);
    return Promise.reject(new SnapshotStoreError('read', 'x', new Error('connect ECONNREFUSED')));
  });
  await expect(writeReport(failing, 'p', NOW)).rejects.toThrow('ECONNREFUSED');
  expect(await store.read(reportKey('p'))).toEqual(before);
});

test('a day that is exported anew while the report is made is read anew, but not without end', async () => {
  const day = { projectId: 'p', dateFrom: '2026-03-10', dateTo: '2026-03-11' };
  let human = 30;
  const exportAnew = async () => {
    const old = human === 30 ? null : await parquetKey(store, day);
    await putDay(store, 'p', { date: day.dateFrom, rows: [page('/', human++)] });
    if (old) await store.remove(old);
  };
  await exportAnew();
  const replacedUpTo = (most: number) =>
    changed(store, 'read', async (real, args) => {
      if (String(args[0]).endsWith('.parquet') && human < most) await exportAnew();
      return real(...args);
    });
  const text = await textOf('p', undefined, replacedUpTo(32));
  expect(text).toContain('Human visitors a day 31');
  expect(text).toMatch(/No day is missing or in doubt/);
  await expect(buildReport(replacedUpTo(Infinity), 'p', NOW)).rejects.toThrow('exported anew');
});

test('a report of damaged days alone says that they are damaged, and one of a gap that they are missing', async () => {
  const manifest = await putDay(store, 'p', { date: '2026-03-10', rows: [page('/', 4)] });
  await store.remove(await parquetKey(store, manifest));
  expect(await textOf()).toContain('Days to believe 0 of 1 1 damaged');
  await putDay(store, 'p', { date: '2026-02-20', rows: [page('/', 4)] });
  expect(await textOf('p', { dateFrom: '2026-03-01', dateTo: '2026-03-04' })).toContain('0 of 3 3 missing');
});

test('a day with a foreign Parquet file is damaged, as for the command, at a list for each day', async () => {
  await putDay(store, 'p', { date: '2026-03-09', rows: [page('/', 4)] });
  const manifest = await putDay(store, 'p', { date: '2026-03-10', rows: [page('/foreign', 4)] });
  await store.put(`${snapshotFolder(manifest)}/copy.parquet`, Buffer.from('x'));
  const asked: unknown[] = [];
  const counting = changed(store, 'all', (real, args, name) => {
    if (name === 'list' || String(args[0]).endsWith('.parquet')) asked.push(name);
    return real(...args);
  });
  const text = await textOf('p', undefined, counting);
  expect(text).toContain('Days to believe 1 of 2 1 damaged');
  expect(text).toContain('The files of 2026-03-10 are not those that were exported');
  expect(text).not.toContain('/foreign');
  const isList = (name: unknown) => name === 'list';
  expect(asked.filter(isList)).toHaveLength(1 + 2); // the manifests, and the two days
  expect(asked.filter((name) => !isList(name))).toEqual(['size', 'read', 'read']);
});

test('a day whose manifest was changed is damaged, and none of its numbers is shown or averaged', async () => {
  const range = { projectId: 'p', dateFrom: '2026-03-09', dateTo: '2026-03-10' };
  await putDay(store, 'p', { date: '2026-03-09', rows: [page('/', 3)] });
  await putDay(store, 'p', { date: '2026-03-10', rows: [page('/', 4)] });
  const file = join(root, manifestKey(range));
  await writeFile(file, (await readFile(file, 'utf8')).replace('"human": 3', '"human": 7654321'));
  const text = await textOf();
  expect(text).toMatch(/Days to believe 1 of 2 1 damaged/);
  expect(text).toContain('2026-03-09 damaged');
  expect(text).toContain('Means of 1 day in the last 28');
  expect(text).not.toContain('7,654,321');
});

test('a worker whose clock is wrong reports the days by the time of the Temporal server', async () => {
  await putDay(store, 'p', { date: '2026-03-10', rows: [page('/', 3)] });
  const { writeReport: write } = createExportActivities({
    upstream: {} as Upstream,
    store,
    shutdownSignal: new AbortController().signal,
  });
  vi.useFakeTimers({ toFake: ['Date'], now: 0 });
  try {
    const environment = new MockActivityEnvironment({ currentAttemptScheduledTimestampMs: Date.parse(NOW) });
    await environment.run(write, { projectId: 'p' });
  } finally {
    vi.useRealTimers();
  }
  expect(String(await store.read(reportKey('p')))).toMatch(/2026-03-10[\s\S]*Made 2026-03-11 06:00/);
});

test('a report removes what a killed writer left unfinished', async () => {
  const staging = join(root, 'staging', dirname(reportKey('p')));
  await mkdir(staging, { recursive: true });
  await writeFile(join(staging, 'index.html.left.part'), 'x');
  await writeReport(store, 'p', NOW);
  expect(await readdir(root)).toEqual(['reports']);
});

test('the last consistent day of each project is found, whatever came after it', async () => {
  await putDay(store, 'a', { date: '2026-03-08', rows: [page('/', 3)] });
  await putDay(store, 'a', { date: '2026-03-09', rows: [page('/', 3)], drift: { kind: 'totals', offset: 0 } });
  await putDay(store, 'a', { date: '2026-03-09', dateTo: '2026-03-20', rows: [page('/', 3)] });
  await putDay(store, 'b', { date: '2026-03-10', rows: [page('/', 3)] });
  await putDay(store, 'b', { date: '2027-03-10', rows: [] });
  await putDay(store, 'c', { date: '2026-03-10', rows: [page('/', 3)], drift: { kind: 'totals', offset: 0 } });
  const found = await daysOf(NOW, '2026-03-08', 'a', 'b', 'c', 'none');
  const ends = { a: '2026-03-09', b: '2026-03-11', c: '2026-03-08', none: '2026-03-08' };
  const since = Object.entries(ends).map(([project, end]) => [project, Date.parse(end)]);
  expect([...found].map(([project, days]) => [project, days.since])).toEqual(since);
});

test('a look costs one list a scheduled project and a read for each manifest that is new', async () => {
  const asked: string[] = [];
  const counting = changed(store, 'all', (real, args, name) => {
    asked.push([name, ...args].join(' '));
    return real(...args);
  });
  for (const project of ['a', 'b', 'unscheduled']) {
    for (const date of ['2018-03-05', '2026-03-09', '2026-03-10'])
      await putDay(store, project, { date, rows: [page('/', 3)] });
  }
  const [schedules, finals] = [
    new Map([
      ['a', Date.parse(NOW)],
      ['b', Date.parse(NOW)],
    ]),
    new Map(),
  ];
  const look = () => projectDays(counting, Date.parse(NOW), schedules, finals);
  expect((await look()).get('a')).toEqual({ since: Date.parse('2026-03-11'), gaps: 0 });
  const lists = ['a', 'b'].map((project) => `list visitors/projectId=${project} dateFrom=2026-02-11`);
  expect(asked.filter((one) => one.startsWith('list'))).toEqual(lists);
  expect(asked.filter((one) => one.startsWith('read'))).toHaveLength(4);
  asked.length = 0;
  await putDay(store, 'b', { date: '2026-03-10', rows: [page('/', 4)] });
  asked.length = 0;
  await look();
  expect(asked).toHaveLength(lists.length + 1);
});

test('gaps and days whose file is gone count, what a night is still to come for does not', async () => {
  for (const date of ['2026-03-05', '2026-03-07', '2026-03-08'])
    await putDay(store, 'p', { date, rows: [page('/', 3)] });
  await putDay(store, 'p', { date: '2026-03-09', rows: [page('/', 3)], provisional: true });
  await putDay(store, 'p', { date: '2026-03-10', rows: [page('/', 3)], provisional: true });
  await store.remove(await parquetKey(store, { projectId: 'p', dateFrom: '2026-03-10', dateTo: '2026-03-11' }));
  const before = await daysOf(NOW, '2026-03-05', 'p');
  expect(before.get('p')).toEqual({ since: Date.parse('2026-03-10'), gaps: 1 }); // the 6th
  await store.remove(await parquetKey(store, { projectId: 'p', dateFrom: '2026-03-08', dateTo: '2026-03-09' }));
  const after = await daysOf('2026-03-12T12:00:00Z', '2026-03-05', 'p');
  expect(after.get('p')?.gaps).toBe(4); // the 8th, 9th and 10th, too
});

test.each([
  ['2026-03-11T11:30:00Z', 0], // the night of 2026-03-09 at 23:00 in Pago Pago is at 10:00 UTC
  ['2026-03-11T12:30:00Z', 1],
])('a late hour far in the west is no gap before its nights: at %s there is %i', async (now, gaps) => {
  await putDay(store, 'p', { date: '2026-03-08', rows: [page('/', 3)] });
  expect((await daysOf(now, '2026-03-05', 'p')).get('p')?.gaps).toBe(3 + gaps);
});

test('a foreign folder and a broken manifest cost the others neither report nor numbers', async () => {
  await putDay(store, 'p', { date: '2026-03-10', rows: [page('/', 3)] });
  const text = await textOf();
  const broken = [
    '{',
    '[]',
    '{"snapshotId":"x","rows":1,"totals":{"total":1},"consistent":true,' +
      '"provisional":false,"exportedAt":"x","files":[]}',
  ];
  const folders = [
    'dateFrom=2026-03-09/dateTo=2026-03-10',
    'dateFrom=soon/dateTo=later',
    'dateFrom=2026-03-08/dateTo=2026-03-01',
  ];
  for (const [i, folder] of folders.entries()) {
    await store.put(`visitors/projectId=p/${folder}/manifest.json`, Buffer.from(broken[i]!));
  }
  await store.put('visitors/projectId=%ZZ/dateFrom=2026-03-09/dateTo=2026-03-10/manifest.json', Buffer.from('{}'));
  await store.put('visitors/readme.txt', Buffer.from('x'));
  expect(await textOf()).toBe(text);
  const days = await daysOf('2026-03-11T12:00:00Z', '2026-03-09', 'p');
  expect(days).toEqual(new Map([['p', { since: Date.parse('2026-03-11'), gaps: 1 }]]));
});

test('a day that can not be right moves no mean and stretches no axis; its dot has its value', async () => {
  const rows = [page('/', 80, 20)];
  for (let back = 2; back <= 9; back++) await putDay(store, 'p', { date: plusDays(TODAY, -back), rows });
  const drift = { kind: 'impossible', offset: 1 } as const;
  await putDay(store, 'p', { date: plusDays(TODAY, -1), rows, totals: { human: 90_000, ai: 7, total: 90_007 }, drift });
  const leftOut = { kind: 'malformedRows', offset: 3, count: 1, field: 'ai is missing' } as const;
  await putDay(store, 'p', { date: plusDays(TODAY, -10), rows: [page('/', 44, 20)], drift: leftOut });
  expect(await textOf()).toContain('Human visitors a day 76');
  const [chart] = /<svg[\s\S]*?<\/svg>/.exec(await buildReport(store, 'p', NOW))!;
  const labels = [...chart.matchAll(/<text[^>]*>([^<]*)</g)].map(([, text]) => text);
  expect(labels).toContain('90K');
  expect(labels).toContain('80');
  expect(labels.filter((label) => label!.endsWith('K'))).toEqual(['90K']);
});

test('a day to doubt that is a little above all others stands where its value is', async () => {
  const day = (back: number, human: number, more = {}) =>
    putDay(store, 'p', { date: plusDays(TODAY, -back), rows: [page('/', human, 20)], ...more });
  for (let back = 3; back <= 9; back++) await day(back, 83);
  for (const back of [1, 2]) await day(back, 93, { provisional: true });
  const [chart] = /<svg[\s\S]*?<\/svg>/.exec(await buildReport(store, 'p', NOW))!;
  expect([...chart.matchAll(/<text[^>]*>([^<]*)</g)].map(([, text]) => text)).not.toContain('93');
});
