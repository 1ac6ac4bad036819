/**
 * One scan over the pages of a date range: the rows that they add, and whether the data changed meanwhile. No input or
 * output of its own.
 */
import type { Inconsistency, InconsistencyKind, VisitorTotals } from '../contract.js';
import type { VisitorPage } from '../upstream/upstream.js';
import { isSameTotals, type ScanCheckpoint } from '../visitor-export/scan-checkpoint.js';
import { addTo, ContentDigest, newPathKey, pathHash, sha256Hex, type VisitorRow } from './content-digest.js';

/**
 * Takes the pages in order, one at a time, from `checkpoint` on; `paths` holds the path hashes of all rows taken so
 * far.
 */
export class Scan {
  readonly #state: ScanCheckpoint;
  readonly #paths: PathSet;
  readonly #digest: ContentDigest;

  constructor(checkpoint: ScanCheckpoint, paths: PathSet) {
    // The key lasts as long as there are hashes made with it: in staging, and in the sets of other workers.
    const { rowSums, rowMaxima } = checkpoint;
    this.#state = {
      ...checkpoint,
      rowSums: { ...rowSums },
      rowMaxima: { ...rowMaxima },
      ...(checkpoint.chunks === 0 && { pathKey: newPathKey() }),
    };
    this.#paths = paths;
    this.#digest = new ContentDigest(checkpoint.content, checkpoint.order);
  }

  get stage(): ScanCheckpoint['stage'] {
    return this.#state.stage;
  }

  get inconsistency(): Inconsistency | null {
    return this.#state.inconsistency;
  }

  get pages(): number {
    return this.#state.pages;
  }

  /** Where the page to read next begins. */
  get offset(): number {
    return this.#state.stage === 'checking' ? 0 : this.#state.offset;
  }

  checkpoint(): ScanCheckpoint {
    const { rowSums, rowMaxima } = this.#state;
    const sums = { rowSums: { ...rowSums }, rowMaxima: { ...rowMaxima } };
    return { ...this.#state, ...sums, content: this.#digest.content, order: this.#digest.order };
  }

  /** Takes the page that begins at `offset`; returns the rows that it adds: no path twice, the first row wins. */
  take(raw: VisitorPage): VisitorRow[] {
    const page = this.#whole(raw);
    if (this.#state.stage === 'checking') {
      this.#compareFirst(page);
      return [];
    }
    const overlapped = this.#compare(page);
    const added: VisitorRow[] = [];
    page.visitors.forEach((row, i) => {
      if ((i > 0 || !overlapped) && this.#isNew(row, i)) added.push(row);
    });
    this.#advance(page, added.length);
    return added;
  }

  /** Ends the scan before its last page: it is inconsistent and will be repeated. */
  abort(): void {
    this.#state.stage = 'ended';
  }

  #whole({ totals, visitors, hasMore }: VisitorPage): VisitorPage {
    return { totals: this.#wholeCounts(totals), visitors: visitors.map((row) => this.#wholeRow(row)), hasMore };
  }

  #wholeRow(row: VisitorRow): VisitorRow {
    // Half a surrogate pair has no UTF-8, so a file can't hold it. Most rows are fine as they are, and a copy of each
    // costs.
    if (isWhole(row) && row.path.isWellFormed()) return row;
    return { path: row.path.toWellFormed(), ...this.#wholeCounts(row) };
  }

  #wholeCounts(counts: VisitorTotals): VisitorTotals {
    if (!isWhole(counts)) this.#state.rounded = true;
    const { human, ai, total } = counts;
    return { human: Math.round(human), ai: Math.round(ai), total: Math.round(total) };
  }

  /** Compares the page with those before; true where its first row is the last one read. */
  #compare(page: VisitorPage): boolean {
    const { offset, lastRow, totals } = this.#state;
    if (this.#state.pages === 0) {
      this.#state.totals = page.totals;
      this.#state.firstPage = pageDigest(page);
      return false;
    }
    if (!isSameTotals(page.totals, totals)) this.#recordInconsistency('totals', offset);
    if (lastRow === null) return false;
    const [first] = page.visitors;
    const isOverlap = first !== undefined && rowDigest(first) === lastRow;
    if (!isOverlap) this.#recordInconsistency('overlap', offset);
    return isOverlap;
  }

  /** Counts a row in, unless its path came before. */
  #isNew(row: VisitorRow, i: number): boolean {
    const hash = pathHash(this.#state.pathKey, row.path);
    if (!this.#paths.add(hash)) {
      this.#recordInconsistency('repeatedPath', this.#state.offset + i);
      return false;
    }
    this.#digest.add(row);
    addTo(this.#state, row);
    return true;
  }

  #advance(page: VisitorPage, added: number): void {
    const state = this.#state;
    const last = page.visitors.at(-1);
    const next = state.offset + page.visitors.length - 1;
    state.pages++;
    state.rows += added;
    if (!page.hasMore) {
      state.complete = true;
      // An inconsistent scan has nothing left to prove: the request is saved.
      state.stage = state.inconsistency ? 'ended' : 'checking';
    } else if (added === 0 || next <= state.offset) {
      // Pages without an end must not keep us for ever.
      this.#recordInconsistency('noProgress', state.offset);
      state.stage = 'ended';
    } else {
      state.offset = next;
    }
    state.lastRow = last ? rowDigest(last) : state.lastRow;
  }

  #compareFirst(page: VisitorPage): void {
    if (!isSameTotals(page.totals, this.#state.totals)) this.#recordInconsistency('totals', 0);
    if (pageDigest(page) !== this.#state.firstPage) this.#recordInconsistency('firstPage', 0);
    this.#state.pages++;
    this.#state.stage = 'ended';
  }

  /** The first thing seen is what is told. */
  #recordInconsistency(kind: InconsistencyKind, offset: number): void {
    this.#state.inconsistency ??= { kind, offset };
  }
}

function isWhole({ human, ai, total }: VisitorTotals): boolean {
  return Number.isInteger(human) && Number.isInteger(ai) && Number.isInteger(total);
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

/** The path hashes of one scan, to notice a path that comes twice. */

const FIRST_SLOTS = 1 << 14;

/**
 * A hash table with linear probing, at most half full: 16 to 32 bytes a path, outside of the JavaScript heap. A `Set`
 * of a million takes three times as much, and has the garbage of whole chunks wait for its collector. The hashes have a
 * key, so that nobody can choose paths that crowd. An empty slot is 0.
 */
export class PathSet {
  #slots = new BigUint64Array(FIRST_SLOTS);
  #size = 0;

  /** False where it was there before. */
  add(hash: bigint): boolean {
    const slot = this.#slotOf(hash || 1n);
    if (this.#slots[slot] !== 0n) return false;
    this.#slots[slot] = hash || 1n;
    this.#size += 1;
    if (2 * this.#size > this.#slots.length) this.#grow();
    return true;
  }

  /** Where the hash is, or would be. */
  #slotOf(hash: bigint): number {
    const mask = this.#slots.length - 1;
    let slot = Number(hash & BigInt(mask));
    while (this.#slots[slot] !== 0n && this.#slots[slot] !== hash) slot = (slot + 1) & mask;
    return slot;
  }

  #grow(): void {
    const before = this.#slots;
    this.#slots = new BigUint64Array(2 * before.length);
    for (const hash of before) if (hash !== 0n) this.#slots[this.#slotOf(hash)] = hash;
  }
}
