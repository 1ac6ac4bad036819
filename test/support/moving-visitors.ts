/** Visitors that change while they are read: edits over the rows that a source shows, and pages of the outcome. */
import type { VisitorTotals } from '../../src/contract.js';
import type { VisitorPage, VisitorRow } from '../../src/upstream/upstream.js';

export interface Shown {
  rows: VisitorRow[];
  totals: VisitorTotals;
}

/** A page whose rows are all as the interface says. */
export interface GoodPage extends VisitorPage {
  visitors: VisitorRow[];
}

/** A change right before a page at `atOffset` (1 by default) or later, `times` times (once). */
export interface Drift {
  kind: keyof typeof EDITS;
  atOffset?: number;
  /** Which row goes, counted from 0. */
  index?: number;
  times?: number;
}

const added = (number: number) => ({ path: `/added/${number}`, human: 1, ai: 0, total: 1 });

const EDITS = {
  /** A row moves behind the reader, another is added at the end. */
  swap({ rows }: Shown, index: number, number: number) {
    rows.splice(index, 1);
    rows.push(added(number));
  },
  delete({ rows }: Shown, index: number) {
    rows.splice(index, 1);
  },
  insert({ rows }: Shown, _: number, number: number) {
    rows.unshift(added(number));
  },
  totals({ totals }: Shown) {
    totals.human += 1;
    totals.total += 1;
  },
  rotate({ rows }: Shown) {
    rows.push(...rows.splice(0, 1));
  },
  /** The rows within each group of seven change places. */
  shuffle({ rows }: Shown) {
    for (let start = 0; start < rows.length; start += 7) {
      const [first, ...others] = rows.slice(start, start + 7);
      rows.splice(start, others.length + 1, ...others, first!);
    }
  },
};

export class MovingVisitors {
  readonly #source: () => Shown;
  readonly #drift: { event: Drift; left: number }[];
  readonly #edits: ((shown: Shown) => void)[] = [];

  constructor(source: () => Shown, drift: readonly Drift[]) {
    this.#source = source;
    this.#drift = drift.map((event) => ({ event, left: event.times ?? 1 }));
  }

  page({ offset, limit }: { offset: number; limit: number }): GoodPage {
    for (const drift of this.#drift) {
      const { kind, atOffset = 1, index = 0 } = drift.event;
      if (drift.left === 0 || offset < atOffset) continue;
      drift.left -= 1;
      const number = this.#edits.length + 1;
      this.#edits.push((shown) => EDITS[kind](shown, index, number));
    }
    const { rows, totals } = this.edited();
    return { totals, visitors: rows.slice(offset, offset + limit), hasMore: offset + limit < rows.length };
  }

  /** What is shown with all edits so far; of another source if one is given. */
  edited(source = this.#source()): Shown {
    const shown = { rows: [...source.rows], totals: { ...source.totals } };
    for (const edit of this.#edits) edit(shown);
    return shown;
  }
}
