import { describe, expect, test } from 'vitest';
import { NEW_SCAN, type ScanCheckpoint, inconsistencyOf } from '../../src/exports/scan-checkpoint.js';
import { PathSet, Scan } from '../../src/exports/snapshots/scan.js';
import type { VisitorPage } from '../../src/upstream/upstream.js';
import { pageAt, row, rows, type Row } from './pages.js';

const LIMIT = 10;
const COUNTS = { human: 100, ai: 100, total: 100 };

/** A scan over an upstream whose rows may differ at each request. */
function read(rowsAt: (request: number) => readonly Row[], limit = LIMIT): ScanCheckpoint & { paths: string[] } {
  return readPages((request, offset) => pageAt(rowsAt(request), offset, limit));
}

function readPages(answer: (request: number, offset: number) => VisitorPage): ScanCheckpoint & { paths: string[] } {
  const scan = new Scan(NEW_SCAN, new PathSet(), LIMIT);
  const paths: string[] = [];
  for (let request = 0; scan.state.stage !== 'ended'; request++) {
    if (request > 1000) throw new Error('The scan has no end');
    paths.push(...scan.take(answer(request, scan.offset)).map(({ path }) => path));
  }
  return { ...scan.checkpoint(), paths };
}

test.each([0, 1, 9, 10, 11, 19, 20, 28, 100])(
  '%i rows that stay put are read once each, without an inconsistency',
  (count) => {
    const all = rows(count);
    const { inconsistency, complete, paths, rows: kept } = read(() => all);
    expect({ inconsistency, complete, kept }).toEqual({ inconsistency: null, complete: true, kept: count });
    expect(paths).toEqual(all.map(({ path }) => path));
  },
);

test('pages overlap by one row and the first page is read again at the end', () => {
  const offsets: number[] = [];
  readPages((_, offset) => {
    offsets.push(offset);
    return pageAt(rows(25), offset, LIMIT);
  });
  expect(offsets).toEqual([0, 9, 18, 0]);
});

test('an exactly full last page that claims more is followed by its last row alone, without an inconsistency', () => {
  const all = rows(10);
  const seen = readPages((_, offset) => ({ ...pageAt(all, offset, LIMIT), hasMore: offset === 0 }));
  expect([seen.inconsistency, seen.rows]).toEqual([null, 10]);
});

test('short pages are followed to the end', () => {
  const all = rows(50);
  const { inconsistency, rows: kept } = readPages((_, offset) => {
    const visitors = all.slice(offset, offset + 4);
    return { ...pageAt(all, offset, LIMIT), visitors, hasMore: offset + 4 < all.length };
  });
  expect([inconsistency, kept]).toEqual([null, 50]);
});

/** An upstream that leaves rows out of the pages, and counts them in `offset` and `limit`, as the interface has it. */
function filtered(all: readonly Row[], isShown: (i: number) => boolean, offset: number): VisitorPage {
  const visitors = all.slice(offset, offset + LIMIT).filter((_, i) => isShown(offset + i));
  return { ...pageAt(all, offset, LIMIT), visitors };
}

test.each<[string, (i: number) => boolean]>([
  ['every third', (i) => i % 3 > 0],
  ['all but every seventh', (i) => i % 7 === 0],
  ['the first of each page', (i) => i % 10 > 3],
  ['the last of each page', (i) => i % 9 < 5],
  ['whole pages', (i) => i < 20 || i > 60],
  ['the first pages', (i) => i > 35],
  ['the last pages', (i) => i < 15],
  ['all', () => false],
])('rows that are left out of pages (%s) make no inconsistency, and the others are read once each', (_, isShown) => {
  const all = rows(83);
  const seen = readPages((__, offset) => filtered(all, isShown, offset));
  expect(seen.paths).toEqual(all.filter((__, i) => isShown(i)).map(({ path }) => path));
  expect([seen.inconsistency, seen.complete]).toEqual([null, true]);
});

test('where rows are left out, one page is read in vain, and then the offset advances by the limit', () => {
  const offsets: number[] = [];
  readPages((_, offset) => {
    offsets.push(offset);
    return filtered(rows(50), (i) => i % 2 === 0, offset);
  });
  expect(offsets).toEqual([0, 4, 9, 18, 27, 36, 45, 0]);
});

test.each([0, 1])('a page that was cut to %i rows for a moment is asked for again, and loses no row', (length) => {
  const seen = readPages((request, offset) => {
    const page = pageAt(rows(50), offset, LIMIT);
    return request === 3 ? { ...page, visitors: page.visitors.slice(0, length) } : page;
  });
  expect(seen.paths).toEqual(rows(50).map(({ path }) => path));
  expect([seen.inconsistency, seen.complete]).toEqual([null, true]);
});

test('a row that moved into a full page is inconsistent also where others are left out', () => {
  const all = rows(60);
  const isShown = (i: number) => i > 15 || i % 2 === 0;
  const moved = [...all.slice(0, 30), row(99), ...all.slice(30)];
  const { inconsistency } = readPages((request, offset) => filtered(request > 4 ? moved : all, isShown, offset));
  expect(inconsistency).not.toBeNull();
});

test.each<[string, (all: Row[]) => Row[]]>([
  ['lose a row', (all) => all.filter((_, i) => i !== 1)],
  ['get a row from behind', (all) => [...all.slice(0, 6), all[30]!, ...all.slice(6, 30), ...all.slice(31)]],
])('short pages side by side that %s meanwhile are inconsistent', (_, moved) => {
  const { inconsistency } = readPages((request, offset) => {
    const now = request > 2 ? moved(rows(50)) : rows(50);
    return { ...pageAt(now, offset, LIMIT), visitors: now.slice(offset, offset + 4), totals: COUNTS };
  });
  expect(inconsistency).toMatchObject({ kind: 'overlap' });
});

test('a row deleted behind the reader and one added at the end is inconsistent, though totals and page 1 stay', () => {
  const before = rows(30);
  const after = [...before.slice(0, 5), ...before.slice(6), row(99)];
  const { inconsistency } = read((request) => (request === 1 ? after : before));
  expect(inconsistency).toEqual({ kind: 'overlap', offset: 9 });
});

test('totals that change are inconsistent where they changed', () => {
  const { inconsistency } = readPages((request, offset) => {
    const page = pageAt(rows(30), offset, LIMIT);
    return request === 2 ? { ...page, totals: { ...page.totals, ai: 8 } } : page;
  });
  expect(inconsistency).toEqual({ kind: 'totals', offset: 18 });
});

test('a path that comes twice is kept once, its first row, and is inconsistent', () => {
  const all = [...rows(15), { ...row(3), human: 1_000 }, ...rows(5, 15)];
  const { inconsistency, rows: kept, paths } = read(() => all);
  expect(inconsistency).toEqual({ kind: 'repeatedPath', offset: 15 });
  expect(kept).toBe(20);
  expect(new Set(paths).size).toBe(20);
});

test('a first page that changed meanwhile is inconsistent', () => {
  const before = rows(30);
  const after = [row(77), ...before.slice(1)];
  const last = 4;
  const { inconsistency } = read((request) => (request === last ? after : before));
  expect(inconsistency).toEqual({ kind: 'firstPage', offset: 0 });
});

test.each<[string, (offset: number) => VisitorPage]>([
  ['the same page for ever', () => ({ ...pageAt(rows(10), 0, LIMIT), hasMore: true })],
  ['empty pages for ever', () => ({ ...pageAt(rows(0), 0, LIMIT), hasMore: true })],
  ['one row for ever', (offset) => ({ ...pageAt(rows(500), offset, 1), hasMore: true })],
  [
    'the same rows in circles',
    (offset) => ({ ...pageAt([...rows(18), ...rows(18)], offset % 18, LIMIT), hasMore: true }),
  ],
])('an upstream that gives %s does not keep the reader', (_, answer) => {
  const seen = readPages((__, offset) => answer(offset));
  expect(seen.inconsistency).not.toBeNull();
  expect(seen).toMatchObject({ complete: false, stage: 'ended' });
  expect(seen.pages).toBeLessThan(500 / (LIMIT - 1) + 15);
});

test('two scans with the same rows in another order are inconsistent in order only', () => {
  const all = rows(30);
  const shuffled = [...all.slice(0, 3), row(4), row(3), ...all.slice(5)];
  const one = read((request) => (request > 3 ? shuffled : all));
  const two = read((request) => (request > 3 ? all : shuffled));
  const three = read(() => all);
  expect(one.inconsistency).toEqual({ kind: 'firstPage', offset: 0 });
  expect(two.content).toBe(one.content);
  expect(inconsistencyOf(two, one)).toEqual({ kind: 'order', offset: 0 });
  expect(inconsistencyOf(one, one)).toEqual({ kind: 'firstPage', offset: 0 });
  expect(inconsistencyOf(three, one)).toBeNull();
});

test('counts that are not whole are rounded, and the result says so', () => {
  const all = [{ path: '/a', human: 1.5, ai: 0.2, total: 1.7 }];
  const scan = new Scan(NEW_SCAN, new PathSet());
  const page = { ...pageAt(all, 0, LIMIT), totals: { human: 1.6, ai: 0, total: 2 } };
  expect(scan.take(page)).toEqual([{ path: '/a', human: 2, ai: 0, total: 2 }]);
  expect(scan.checkpoint()).toMatchObject({ rounded: true, totals: { human: 2, ai: 0, total: 2 } });
});

describe('rows that are not as the interface says', () => {
  const odd = (path: unknown) => ({ malformed: { path }, field: 'human', fault: 'is missing' });
  /** An upstream that spoils these rows. */
  const spoilt = (count: number, ...indexes: number[]) =>
    readPages((_, offset) => {
      const spoil = (one: Row, i: number) => (indexes.includes(offset + i) ? odd(one.path) : one);
      const visitors = rows(count)
        .slice(offset, offset + LIMIT)
        .map(spoil);
      return { ...pageAt(rows(count), offset, LIMIT), visitors };
    });

  test.each([[[0]], [[4]], [[9]], [[9, 10]], [[24]], [[0, 9, 18, 24]]])(
    'are left out wherever they are (%j), and no other row is',
    (indexes) => {
      const { paths, inconsistency, malformed, complete } = spoilt(25, ...indexes);
      expect(paths).toEqual(
        rows(25)
          .filter((_, i) => !indexes.includes(i))
          .map(({ path }) => path),
      );
      const first = {
        offset: indexes[0],
        count: indexes.length,
        field: 'human is missing',
        path: `/page/${indexes[0]}`,
      };
      expect({ inconsistency, complete, malformed }).toEqual({
        ...{ inconsistency: null, complete: true },
        malformed: { kind: 'malformedRows', ...first },
      });
    },
  );

  test.each<[string, unknown[]]>([
    ['the same one', [odd('/a')]],
    ['the same ones', [odd('/a'), odd('/b')]],
    ['one and the same good one', [odd('/a'), row(1)]],
  ])('do not keep the reader if pages hold %s for ever', (_, visitors) => {
    const seen = readPages(() => ({ ...pageAt([], 0, LIMIT), visitors: visitors as Row[], hasMore: true }));
    expect(seen).toMatchObject({ complete: false, stage: 'ended', inconsistency: expect.anything() });
    expect(seen.pages).toBeLessThan(15);
  });

  test('first of a page that shows that others are left out, they make no inconsistency', () => {
    const all = rows(60);
    const seen = readPages((_, offset) => {
      const page = filtered(all, (i) => ![3, 6, 8].includes(i), offset);
      return {
        ...page,
        visitors: page.visitors.map((one) => ('path' in one && one.path === '/page/7' ? odd('/page/7') : one)),
      };
    });
    expect(seen).toMatchObject({ inconsistency: null, rows: 56, malformed: { count: 1 } });
  });

  test('are told without more than 100 characters of a path', () => {
    const seen = readPages(() => ({ ...pageAt([], 0, LIMIT), visitors: [odd('/x'.repeat(4_000))] }));
    expect(seen.malformed!.path).toHaveLength(100);
    // Half of a character that takes two has no UTF-8.
    const cut = readPages(() => ({ ...pageAt([], 0, LIMIT), visitors: [odd(`${'x'.repeat(99)}😀`)] }));
    expect(cut.malformed!.path).toBe(`${'x'.repeat(99)}\uFFFD`);
  });
});
