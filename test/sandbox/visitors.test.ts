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

test.each(['limit=0', 'limit=251', 'limit=2.5', 'offset=-1'])('%s is refused with details', async (query) => {
  const sandbox = await withVisitors({});
  const reply = await getVisitors(sandbox, `?${query}`);
  expect(reply.status).toBe(400);
  expect(reply.json).toEqual({ error: 'Invalid query parameters', details: [{ message: expect.any(String) }] });
});

test('a pager reads the expected snapshot: every path once, and no count in contradiction to another', async () => {
  const sandbox = await withVisitors({ rows: 777 });
  const rows = await readAll(sandbox);
  expect(new Set(rows.map(({ path }) => path)).size).toBe(777);
  for (const { human, ai, total } of rows) {
    expect(total).toBeGreaterThanOrEqual(Math.max(human, ai));
    expect(total).toBeLessThanOrEqual(human + ai);
  }
  expect(await sandbox.expectedSnapshot(WINDOW)).toMatchObject({ rows: 777, entries: rows });
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
