/** One pass over the pages of a window: what is kept of them, and the verdict on whether the data moved meanwhile. No input or output of its own. */
import type { Drift, DriftKind, VisitorTotals } from '../contract.js';
import { isSameTotals, type PassCheckpoint } from '../pass-checkpoint.js';
import type { VisitorPage } from '../upstream/upstream.js';
import { ContentDigest, pathHash, sha256Hex, type VisitorRow } from './content-digest.js';
import type { PathHash, PathSet } from './path-set.js';

/** A kept row with the hash of its path. */
export interface KeptRow extends VisitorRow {
  hash: PathHash;
}

/** Takes the pages in order, one at a time, from `checkpoint` on; `paths` holds the paths of all rows kept so far. */
export class Pass {
  readonly #state: PassCheckpoint;
  readonly #paths: PathSet;
  readonly #digest: ContentDigest;

  constructor(checkpoint: PassCheckpoint, paths: PathSet) {
    this.#state = { ...checkpoint };
    this.#paths = paths;
    this.#digest = new ContentDigest(checkpoint.content, checkpoint.order);
  }

  get stage(): PassCheckpoint['stage'] {
    return this.#state.stage;
  }

  get drift(): Drift | null {
    return this.#state.drift;
  }

  get pages(): number {
    return this.#state.pages;
  }

  get rows(): number {
    return this.#state.rows;
  }

  /** Where the page to read next begins. */
  get offset(): number {
    return this.#state.stage === 'checking' ? 0 : this.#state.offset;
  }

  checkpoint(): PassCheckpoint {
    return { ...this.#state, content: this.#digest.content, order: this.#digest.order };
  }

  /** Takes the page that begins at `offset`; gives the rows to keep: no path twice, the first row wins. */
  take(raw: VisitorPage): KeptRow[] {
    const page = this.#whole(raw);
    if (this.#state.stage === 'checking') {
      this.#compareFirst(page);
      return [];
    }
    const overlapped = this.#compare(page);
    const kept = this.#keepNew(overlapped ? page.visitors.slice(1) : page.visitors, overlapped ? 1 : 0);
    this.#advance(page, kept.length);
    return kept;
  }

  /** Ends the pass before its last page: it drifted and will be repeated. */
  giveUp(): void {
    this.#state.stage = 'ended';
  }

  #whole({ totals, visitors, hasMore }: VisitorPage): VisitorPage {
    return { totals: this.#wholeCounts(totals), visitors: visitors.map((row) => this.#wholeRow(row)), hasMore };
  }

  #wholeRow(row: VisitorRow): VisitorRow {
    // Half a surrogate pair has no UTF-8, so a file can't hold it.
    return { path: row.path.toWellFormed(), ...this.#wholeCounts(row) };
  }

  #wholeCounts({ human, ai, total }: VisitorTotals): VisitorTotals {
    const whole = { human: Math.round(human), ai: Math.round(ai), total: Math.round(total) };
    if (whole.human !== human || whole.ai !== ai || whole.total !== total) this.#state.rounded = true;
    return whole;
  }

  /** Compares the page with those before; true where its first row is the last one read. */
  #compare(page: VisitorPage): boolean {
    const { offset, lastRow, totals } = this.#state;
    if (this.#state.pages === 0) {
      this.#state.totals = page.totals;
      this.#state.firstPage = pageDigest(page);
      return false;
    }
    if (!isSameTotals(page.totals, totals)) this.#drifted('totals', offset);
    if (lastRow === null) return false;
    const [first] = page.visitors;
    const isOverlap = first !== undefined && rowDigest(first) === lastRow;
    if (!isOverlap) this.#drifted('overlap', offset);
    return isOverlap;
  }

  #keepNew(rows: VisitorRow[], skipped: number): KeptRow[] {
    const kept: KeptRow[] = [];
    rows.forEach((row, i) => {
      const hash = pathHash(row.path);
      if (!this.#paths.add(hash)) {
        this.#drifted('repeatedPath', this.#state.offset + skipped + i);
        return;
      }
      this.#digest.add(row);
      kept.push({ ...row, hash });
    });
    return kept;
  }

  #advance(page: VisitorPage, kept: number): void {
    const state = this.#state;
    const last = page.visitors.at(-1);
    const next = state.offset + page.visitors.length - 1;
    state.pages++;
    state.rows += kept;
    if (!page.hasMore) {
      state.complete = true;
      // A pass that drifted has nothing left to prove: the request is saved.
      state.stage = state.drift ? 'ended' : 'checking';
    } else if (kept === 0 || next <= state.offset) {
      // Pages without an end must not keep us for ever.
      this.#drifted('noProgress', state.offset);
      state.stage = 'ended';
    } else {
      state.offset = next;
    }
    state.lastRow = last ? rowDigest(last) : state.lastRow;
  }

  #compareFirst(page: VisitorPage): void {
    if (!isSameTotals(page.totals, this.#state.totals)) this.#drifted('totals', 0);
    if (pageDigest(page) !== this.#state.firstPage) this.#drifted('firstPage', 0);
    this.#state.pages++;
    this.#state.stage = 'ended';
  }

  /** The first thing seen is what is told. */
  #drifted(kind: DriftKind, offset: number): void {
    this.#state.drift ??= { kind, offset };
  }
}

function pageDigest({ totals, visitors, hasMore }: VisitorPage): string {
  return sha256Hex(JSON.stringify([totals.human, totals.ai, totals.total, hasMore, visitors.map(rowValues)]));
}

function rowDigest(row: VisitorRow): string {
  return sha256Hex(JSON.stringify(rowValues(row)));
}

function rowValues({ path, human, ai, total }: VisitorRow): unknown[] {
  return [path, human, ai, total];
}
