/**
 * One scan over the pages of a date range: the rows that they add, those that are left out as malformed, and whether
 * the data changed meanwhile. publish.ts decides what that does to the snapshot.
 */
import type { InconsistencyKind, VisitorTotals } from '../../contract.js';
import type { MalformedRow, VisitorPage, VisitorRow } from '../../upstream/upstream.js';
import { isSameTotals, PAGE_ROWS, type ScanCheckpoint } from '../scan-checkpoint.js';
import { addTo, ContentDigest, newPathKey, pathHash, sha256Hex } from './content-digest.js';

/** After ten pages in a row without a new row the scan ends: an upstream may leave out 2,500 rows, but not more. */
const MAX_BARREN_PAGES = 10;
/** Characters of a path that a snapshot's mark may show. */
const MAX_PATH_SHOWN = 100;

type PageRow = VisitorPage['visitors'][number];

/** Takes the pages in order, from `checkpoint` on; `paths` holds the path hashes of all rows taken so far. */
export class Scan {
  readonly #state: ScanCheckpoint;
  readonly #paths: PathSet;
  readonly #digest: ContentDigest;
  readonly #limit: number;

  /** @param limit Rows that a page is asked for. */
  constructor(checkpoint: ScanCheckpoint, paths: PathSet, limit = PAGE_ROWS) {
    this.#state = structuredClone(checkpoint);
    // The key lasts while there are hashes made with it: in staging, and in the sets of other workers.
    if (checkpoint.chunks === 0) this.#state.pathKey = newPathKey();
    this.#paths = paths;
    this.#limit = limit;
    this.#digest = new ContentDigest(checkpoint.content, checkpoint.order);
  }

  get state(): Readonly<ScanCheckpoint> {
    return this.#state;
  }

  /** The offset of the page to read next. */
  get offset(): number {
    return this.#state.stage === 'checking' ? 0 : this.#state.offset;
  }

  checkpoint(): ScanCheckpoint {
    return { ...structuredClone(this.#state), content: this.#digest.content, order: this.#digest.order };
  }

  /** Takes the page that begins at `offset`; returns the rows that it adds: no path twice, the first row wins. */
  take(raw: VisitorPage): VisitorRow[] {
    const page = this.#whole(raw);
    if (this.#state.stage === 'checking') {
      this.#compareFirst(page);
      return [];
    }
    if (this.#state.pages === 0) {
      this.#state.totals = page.totals;
      this.#state.firstPage = pageDigest(page);
    }
    this.#compareTotals(page);
    if (this.#isInGap(page)) return this.#leaveGap();
    if (this.#isToConfirm(page)) return [];
    const overlapped = this.#overlaps(page);
    const added: VisitorRow[] = [];
    page.visitors.forEach((row, i) => {
      if (i === 0 && overlapped) return;
      if (isMalformed(row)) this.#leaveOut(row, i);
      else if (this.#isNew(row, i)) added.push(row);
    });
    const leftOut = page.visitors.filter(isMalformed).length;
    this.#advance(page, { added: added.length, leftOut }, overlapped);
    return added;
  }

  /** Ends the scan before its last page: it is inconsistent and will be repeated. */
  abort(): void {
    this.#state.stage = 'ended';
  }

  #whole({ totals, visitors, hasMore }: VisitorPage): VisitorPage {
    return { totals: this.#wholeCounts(totals), visitors: visitors.map((row) => this.#wholeRow(row)), hasMore };
  }

  #wholeRow(row: PageRow): PageRow {
    if (isMalformed(row)) return row;
    // Half a surrogate pair has no UTF-8, so a file can't hold it. A copy of each row would cost time.
    if (hasWholeNumbers(row) && row.path.isWellFormed()) return row;
    return { path: row.path.toWellFormed(), ...this.#wholeCounts(row) };
  }

  #wholeCounts(counts: VisitorTotals): VisitorTotals {
    if (!hasWholeNumbers(counts)) this.#state.rounded = true;
    const { human, ai, total } = counts;
    return { human: Math.round(human), ai: Math.round(ai), total: Math.round(total) };
  }

  #compareTotals({ totals }: VisitorPage): void {
    if (!isSameTotals(totals, this.#state.totals)) this.#recordInconsistency('totals', this.offset);
  }

  /**
   * Whether the page, which begins where a short page before it ended, shows that the upstream leaves rows out: its
   * first row is an earlier row of that page, not the last one.
   */
  #isInGap({ visitors }: VisitorPage): boolean {
    const { gapEnd, offset, lastRow, leavesOut, pathKey } = this.#state;
    if (leavesOut === false || gapEnd === null || offset === gapEnd) return false;
    const [first] = visitors;
    if (first === undefined || rowDigest(first) === lastRow) return false;
    // Paths of malformed rows are not kept.
    const known = visitors.find((row): row is VisitorRow => !isMalformed(row));
    return known !== undefined && this.#paths.has(pathHash(pathKey, known.path));
  }

  #leaveGap(): VisitorRow[] {
    const state = this.#state;
    state.pages++;
    state.leavesOut = true;
    state.offset = state.gapEnd ?? state.offset;
    return [];
  }

  /** Whether to read a page without a new row once more. If it comes the same again, rows are left out of it. */
  #isToConfirm({ visitors, hasMore }: VisitorPage): boolean {
    const state = this.#state;
    if (!hasMore || visitors.length > 1 || state.leavesOut !== null) return false;
    state.leavesOut = state.isConfirming ? true : null;
    state.isConfirming = !state.isConfirming;
    if (state.isConfirming) state.pages++;
    return state.isConfirming;
  }

  /** Whether the page's first row is the last one read, as it must be unless that one is left out of this page. */
  #overlaps({ visitors }: VisitorPage): boolean {
    const { offset, lastRow, gapEnd } = this.#state;
    const [first] = visitors;
    if (lastRow === null) return false;
    const isOverlap = first !== undefined && rowDigest(first) === lastRow;
    if (!isOverlap && offset !== gapEnd) this.#recordInconsistency('overlap', offset);
    // Two short pages of one length, side by side, show a limit of the upstream's own. Nothing is left out of those.
    const lengthBefore = gapEnd === null ? null : offset - gapEnd + this.#limit;
    if (isOverlap && offset !== gapEnd && visitors.length === lengthBefore) this.#state.leavesOut ??= false;
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

  /** Counts a row that can be no row of a snapshot; the first one is named. */
  #leaveOut({ malformed, field, fault }: MalformedRow, i: number): void {
    const { path } = Object(malformed) as { path?: unknown };
    this.#state.malformed ??= {
      kind: 'malformedRows',
      offset: this.#state.offset + i,
      count: 0,
      field: `${field} ${fault}`,
      ...(typeof path === 'string' && { path: path.slice(0, MAX_PATH_SHOWN).toWellFormed() }),
    };
    this.#state.malformed.count! += 1;
  }

  #advance(
    { visitors, hasMore }: VisitorPage,
    { added, leftOut }: { added: number; leftOut: number },
    overlapped: boolean,
  ): void {
    const state = this.#state;
    const { offset } = state;
    const { length } = visitors;
    const last = visitors.at(-1);
    state.pages++;
    state.isConfirming = false;
    state.rows += added;
    // A row that is left out is none: the same odd one could come for ever.
    state.barren = added === 0 ? state.barren + 1 : 0;
    state.lastRow = last ? rowDigest(last) : null;
    // The offset advances by the limit, because rows are left out of a short page. But an upstream with a limit of its
    // own has all rows side by side, and is followed row by row.
    state.gapEnd = length < this.#limit ? offset + this.#limit - 1 : null;
    const isFollowed = state.leavesOut === false || (length > 1 && state.leavesOut === null);
    state.offset = (isFollowed ? null : state.gapEnd) ?? offset + length - 1;
    if (!hasMore) {
      state.complete = true;
      // An inconsistent scan has nothing left to prove: the request is saved.
      state.stage = state.inconsistency ? 'ended' : 'checking';
      return;
    }
    const isRepetition = added + leftOut === 0 && length > (overlapped ? 1 : 0);
    // Pages without an end must not keep us for ever.
    if (isRepetition || state.barren > MAX_BARREN_PAGES || state.offset <= offset) {
      this.#recordInconsistency('noProgress', offset);
      state.stage = 'ended';
    }
  }

  #compareFirst(page: VisitorPage): void {
    this.#compareTotals(page);
    if (pageDigest(page) !== this.#state.firstPage) this.#recordInconsistency('firstPage', 0);
    this.#state.pages++;
    this.#state.stage = 'ended';
  }

  /** The first one counts. */
  #recordInconsistency(kind: InconsistencyKind, offset: number): void {
    this.#state.inconsistency ??= { kind, offset };
  }
}

function isMalformed(row: PageRow): row is MalformedRow {
  return 'malformed' in row;
}

function hasWholeNumbers({ human, ai, total }: VisitorTotals): boolean {
  return Number.isInteger(human) && Number.isInteger(ai) && Number.isInteger(total);
}

function pageDigest({ totals, visitors, hasMore }: VisitorPage): string {
  return sha256Hex(JSON.stringify([totals.human, totals.ai, totals.total, hasMore, visitors.map(rowValues)]));
}

function rowDigest(row: PageRow): string {
  return sha256Hex(JSON.stringify(rowValues(row)));
}

function rowValues(row: PageRow): unknown[] {
  return isMalformed(row) ? [row.malformed] : [row.path, row.human, row.ai, row.total];
}

const FIRST_SLOTS = 1 << 14;

/**
 * The path hashes of one scan, to notice a path that comes twice. A hash table with linear probing, at most half full:
 * 16 to 32 bytes a path, outside of the JavaScript heap, a third of a `Set`. An empty slot is 0.
 */
export class PathSet {
  #slots = new BigUint64Array(FIRST_SLOTS);
  #size = 0;

  /** False if it was there before. */
  add(hash: bigint): boolean {
    const slot = this.#slotOf(hash || 1n);
    if (this.#slots[slot] !== 0n) return false;
    this.#slots[slot] = hash || 1n;
    this.#size += 1;
    if (2 * this.#size > this.#slots.length) this.#grow();
    return true;
  }

  has(hash: bigint): boolean {
    return this.#slots[this.#slotOf(hash || 1n)] !== 0n;
  }

  /** The place of the hash, if it is there or not. */
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
