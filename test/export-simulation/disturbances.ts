/** Disturbances of the upstream's answers. */
import type { VisitorPage } from '../../src/upstream/upstream.js';
import type { GoodPage } from '../support/moving-visitors.js';

/** What no counts can explain. */
export const CONTRADICTIONS: ((page: GoodPage) => VisitorPage)[] = [
  ({ totals }) => ({ totals: { ...totals, total: totals.total + 1 }, visitors: [], hasMore: false }),
  ({ totals, ...page }) => ({
    ...page,
    totals: { human: 40 * totals.human + 9_000, ai: totals.ai, total: 40 * totals.total + 9_000 },
  }),
  (page) => ({
    ...page,
    totals: { human: 0, ai: 0, total: 0 },
    visitors: page.visitors.map((row) => ({ ...row, human: row.human + 90, total: row.total + 90 })),
  }),
];

/** The pages of an upstream that has lost most of its rows, and counts what is left. */
export function shrunk({ totals, visitors }: GoodPage, left: number): VisitorPage {
  const rows = visitors.slice(0, Math.floor(visitors.length * left));
  const most = (count: 'human' | 'ai' | 'total') => rows.reduce((all, row) => Math.max(all, row[count]), 0);
  const few = { human: most('human'), ai: most('ai'), total: most('total') };
  return { totals: left === 0 ? { human: 0, ai: 0, total: 0 } : { ...totals, ...few }, visitors: rows, hasMore: false };
}

/** The pages of an upstream that lost a field of each row whose path ends in 7 and 3. */
export function withOddRows({ visitors, ...page }: GoodPage): VisitorPage {
  const isOdd = ({ path }: { path: string }) => path.endsWith('73');
  return {
    ...page,
    visitors: visitors.map((row) =>
      isOdd(row) ? { malformed: { path: row.path }, field: 'human', fault: 'is missing' } : row,
    ),
  };
}
