import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance, type DuckDBConnection } from '@duckdb/node-api';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { manifestKey } from '../../src/exports/snapshots/layout.js';
import { putDay } from '../report/snapshots.js';
import { exportRows, rows } from './pages.js';
import { makeStore } from './test-store.js';

let root: string;
let connection: DuckDBConnection;
const ODD_PROJECT = '../ä & 7';
/** Paths that a spreadsheet takes for formulas, also where it separates by semicolons or lines. */
const FORMULAS = ['=HYPERLINK("http://x")', '@x', '\u0001=1', '＝4', '/x;=2', '/x\n=3'];

beforeAll(async () => {
  const { store, ...made } = await makeStore();
  ({ root } = made);
  const exported = (projectId: string, dateFrom: string, dateTo: string, count: number) =>
    exportRows(store, () => rows(count), { range: { projectId, dateFrom, dateTo } });
  await exported('007', '2026-01-01', '2026-01-02', 3);
  await exported('007', '2026-01-02', '2026-01-03', 0);
  await exported('007', '2026-01-01', '2026-01-08', 9);
  await exported(ODD_PROJECT, '2026-01-01', '2026-01-02', 2);
  const hostile = FORMULAS.map((path) => ({ path, human: 1, ai: 2, total: 3 }));
  await putDay(store, 'hostile', { date: '2026-02-01', rows: hostile });
  const pages = [{ path: '/', human: 1, ai: 2, total: 3 }];
  await putDay(store, 'doubted', { date: '2026-02-01', rows: pages, drift: { kind: 'totals', offset: 0 } });
  await putDay(store, 'doubted', { date: '2026-02-02', rows: pages, provisional: true });
  await putDay(store, 'dead', { date: '2026-02-01', rows: pages });
  await store.remove(manifestKey({ projectId: 'dead', dateFrom: '2026-02-01', dateTo: '2026-02-02' }));
  connection = await connectTo(root);
});

/** Where the reader stands: what the lines write without a folder goes here. */
const workOf = (folder: string) => `${folder}-work`;

/** A connection with the views of the page over a folder of snapshots. */
async function connectTo(folder: string): Promise<DuckDBConnection> {
  const work = workOf(folder);
  await mkdir(work);
  const made = await (await DuckDBInstance.create()).connect();
  const docs = await readFile(new URL('../../docs/recipes.md', import.meta.url), 'utf8');
  for (const [, sql] of docs.matchAll(/```sql\n([\s\S]*?)```/g)) {
    const lines = sql!
      .replaceAll('/snapshots/', `${folder}/`)
      .replaceAll(/'([\w-]+\.(?:parquet|csv))'/g, `'${work}/$1'`);
    for (const statement of lines.split(/;\n/)) {
      if (statement.trim() !== '') await made.run(statement);
    }
  }
  return made;
}

afterAll(async () => {
  connection.closeSync();
  for (const folder of [root, workOf(root)]) await rm(folder, { recursive: true, force: true });
});

async function query(sql: string): Promise<unknown[][]> {
  const found = (await connection.runAndReadAll(sql)).getRows();
  return found.map((row) => row.map((value) => (typeof value === 'bigint' ? Number(value) : String(value))));
}

test('the documented view of daily pages gives the rows of one-day snapshots alone', async () => {
  expect(
    await query('select projectId, day, count(*), sum(human) from daily_pages where human > 9 group by all order by 3'),
  ).toEqual([
    [ODD_PROJECT, '2026-01-01', 2, 21],
    ['007', '2026-01-01', 3, 31],
  ]);
});

test('the documented view of daily totals knows each day, those without visitors too', async () => {
  const sql = 'select projectId, day, human, ai, total, pages, consistent::varchar from daily_totals order by all';
  expect(await query(sql)).toEqual([
    [ODD_PROJECT, '2026-01-01', 11, 5, 15, 2, 'true'],
    ['007', '2026-01-01', 12, 5, 16, 3, 'true'],
    ['007', '2026-01-02', 0, 0, 0, 0, 'true'],
    ['doubted', '2026-02-01', 1, 2, 3, 1, 'false'],
    ['doubted', '2026-02-02', 1, 2, 3, 1, 'true'],
    ['hostile', '2026-02-01', 6, 12, 18, 6, 'true'],
  ]);
});

test('the documented view of believed pages leaves out the days that daily totals doubts', async () => {
  expect(await query('select projectId, day, count(*) from believed_pages group by all order by all')).toEqual([
    [ODD_PROJECT, '2026-01-01', 2],
    ['007', '2026-01-01', 3],
    ['hostile', '2026-02-01', 6],
  ]);
});

test('the documented views are empty where no day has rows', async () => {
  const { root: empty, store } = await makeStore();
  await putDay(store, 'p', { date: '2026-01-02', rows: [] });
  const other = await connectTo(empty);
  const found = await other.runAndReadAll(
    'select count(*)::int from daily_pages union all select pages::int from daily_totals',
  );
  expect(found.getRows()).toEqual([[0], [0]]);
  other.closeSync();
  for (const folder of [empty, workOf(empty)]) await rm(folder, { recursive: true });
});

test('the documented CSV is safe for a spreadsheet, whatever the paths', async () => {
  const csv = await readFile(join(workOf(root), 'pages.csv'), 'utf8');
  expect(csv).toMatch(/^projectId,day,path,human,ai,total\n/);
  for (const path of [`"'=HYPERLINK(""http://x"")"`, "'@x", "'\u0001=1", "'＝4", "/x;'=2", `"/x\n'=3"`, '/page/0'])
    expect(csv).toContain(`-01,${path},`);
});

test('the lines write nothing among the snapshots, which a reader may only read', async () => {
  const found = await readdir(root);
  expect(found.filter((name) => !['visitors', 'projects', 'superseded', 'staging'].includes(name))).toEqual([]);
});
