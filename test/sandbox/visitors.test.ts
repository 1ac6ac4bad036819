import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Sandbox, VisitorSettings } from '../../src/testing.js';
import { getVisitors, sandboxForTest } from './support.js';

const DAY = 'dateFrom=2026-03-01&dateTo=2026-03-02';
const WINDOW = { projectId: 'acme', dateFrom: '2026-03-01', dateTo: '2026-03-02' };

interface Row {
  path: string;
  human: number;
  ai: number;
  total: number;
}

/** All rows as a plain pager reads them. */
async function readAll(sandbox: Sandbox, limit = 250): Promise<Row[]> {
  const rows: Row[] = [];
  for (let offset = 0; ; offset += limit) {
    const { json } = await getVisitors(sandbox, `?${DAY}&limit=${limit}&offset=${offset}`);
    rows.push(...(json.visitors as Row[]));
    if (!json.hasMore) return rows;
  }
}

const withVisitors = (visitors: VisitorSettings) => sandboxForTest({ visitors });

test('pages hold 50 rows by default, and hasMore ends with the last row', async () => {
  const sandbox = await withVisitors({ rows: 100 });
  const first = (await getVisitors(sandbox, `?${DAY}`)).json;
  expect(first.visitors).toHaveLength(50);
  expect(first.hasMore).toBe(true);
  const second = (await getVisitors(sandbox, `?${DAY}&offset=50`)).json;
  expect(second.visitors).toHaveLength(50);
  expect(second.hasMore).toBe(false);
  expect((await getVisitors(sandbox, `?${DAY}&offset=100`)).json).toMatchObject({ visitors: [], hasMore: false });
});

test.each([
  ['limit=0', 'limit must be a whole number from 1 to 250'],
  ['limit=251', 'limit must be a whole number from 1 to 250'],
  ['limit=2.5', 'limit must be a whole number from 1 to 250'],
  ['offset=-1', 'offset must be a whole number of at least 0'],
  ['dateFrom=yesterday', 'dateFrom must be a date in ISO 8601 or YYYY-MM-DD format'],
  ['dateTo=2026-02-31', 'dateTo must be a date in ISO 8601 or YYYY-MM-DD format'],
])('%s is refused with details', async (query, message) => {
  const sandbox = await withVisitors({});
  const reply = await getVisitors(sandbox, `?${query}`);
  expect(reply.status).toBe(400);
  expect(reply.json).toEqual({ error: 'Invalid query parameters', details: [{ message }] });
});

test('without dates the last thirty days are meant, and ISO 8601 times are dates too', async () => {
  const sandbox = await withVisitors({ rows: 3 });
  expect((await getVisitors(sandbox)).json.totals.total).toBeGreaterThan(0);
  const iso = '?dateFrom=2026-03-01T00:00:00Z&dateTo=2026-03-02T00:00:00Z';
  expect((await getVisitors(sandbox, iso)).json.visitors).toHaveLength(3);
});

test.each(['plain', 'unicode'] as const)('a pager reads the expected snapshot: every %s path once', async (paths) => {
  const sandbox = await withVisitors({ rows: 777, paths });
  const rows = await readAll(sandbox);
  expect(new Set(rows.map(({ path }) => path)).size).toBe(777);
  for (const { human, ai, total } of rows) {
    expect(total).toBeGreaterThanOrEqual(Math.max(human, ai));
    expect(total).toBeLessThanOrEqual(human + ai);
  }
  const expected = await sandbox.expectedSnapshot(WINDOW);
  expect(expected).toMatchObject({ rows: 777, settled: true, entries: rows });
  const lines = rows.map(({ path, human, ai, total }) => `${path}\t${human}\t${ai}\t${total}\n`).toSorted();
  expect(expected.digest).toBe(createHash('sha256').update(lines.join('')).digest('hex'));
});

test('numbers are the same for the same seed, project and dates, and others otherwise', async () => {
  const [one, two] = await Promise.all([withVisitors({ rows: 20 }), withVisitors({ rows: 20 })]);
  const expected = await one.expectedSnapshot(WINDOW);
  expect(await two.expectedSnapshot(WINDOW)).toEqual(expected);
  for (const other of [{ projectId: 'b' }, { dateFrom: '2026-02-28' }, { dateTo: '2026-03-03' }]) {
    expect((await one.expectedSnapshot({ ...WINDOW, ...other })).digest).not.toBe(expected.digest);
  }
  await two.setVisitors({ rows: 20, seed: 2 });
  expect((await two.expectedSnapshot(WINDOW)).digest).not.toBe(expected.digest);
});

test('a day in any zone is still arriving until it is over there, and settles after its lag', async () => {
  const hour = 3_600_000;
  const sandbox = await sandboxForTest({
    clock: 'manual',
    startAt: Date.parse('2026-03-02T05:00:00Z'),
    visitors: { rows: 100, timeZone: 'America/Los_Angeles', lateMs: 2 * hour },
  });
  const expected = await sandbox.expectedSnapshot(WINDOW);
  expect(expected).toMatchObject({ rows: 100, settled: false, settlesAt: '2026-03-02T10:00:00.000Z' });
  const early = (await getVisitors(sandbox, `?${DAY}&limit=250`)).json;
  expect(early.visitors.length).toBeLessThan(100);
  expect(early.visitors.length).toBeGreaterThan(0);
  await sandbox.advance(3 * hour); // the day is over, late data still come
  const late = (await getVisitors(sandbox, `?${DAY}&limit=250`)).json;
  expect(late.visitors.length).toBeGreaterThan(early.visitors.length);
  expect(late.visitors.length).toBeLessThan(100);
  await sandbox.advance(2 * hour);
  expect(await readAll(sandbox)).toEqual(expected.entries);
  expect((await getVisitors(sandbox, `?${DAY}`)).json.totals).toEqual(expected.totals);
  expect((await sandbox.expectedSnapshot(WINDOW)).settled).toBe(true);
});

test('a day lasts 23 hours where the clocks go forward', async () => {
  const sandbox = await withVisitors({ timeZone: 'Europe/Berlin' });
  const night = { projectId: 'acme', dateFrom: '2026-03-29', dateTo: '2026-03-30' };
  const { settlesAt: start } = await sandbox.expectedSnapshot({
    ...night,
    dateFrom: '2026-03-28',
    dateTo: '2026-03-29',
  });
  const { settlesAt: end } = await sandbox.expectedSnapshot(night);
  expect(Date.parse(end) - Date.parse(start)).toBe(23 * 3_600_000);
});

test('rows and totals can be given as they are, per project', async () => {
  const sandbox = await withVisitors({ rows: 5 });
  const entries = [{ path: '/\ud800', human: null, ai: 'x', total: 1e300 }];
  await sandbox.setVisitors({ projectId: 'odd', entries, totals: null });
  expect((await getVisitors(sandbox, `?${DAY}`, 'odd')).json).toEqual({
    totals: null,
    visitors: entries,
    hasMore: false,
  });
  expect((await getVisitors(sandbox, `?${DAY}`)).json.visitors).toHaveLength(5);
});

test('new settings of one project leave the drift of the others as it is', async () => {
  const sandbox = await withVisitors({ rows: 300, drift: [{ kind: 'delete' }] });
  expect(await readAll(sandbox)).toHaveLength(299);
  await sandbox.setVisitors({ projectId: 'other', rows: 1 });
  expect(await readAll(sandbox)).toHaveLength(299);
  await sandbox.setVisitors({ rows: 300 });
  expect(await readAll(sandbox)).toHaveLength(300);
});
