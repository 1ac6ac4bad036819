/** The paths that a scan has seen, to notice one that comes twice; millions of them, in little memory. */
/** The first 64 bits of a path's keyed SHA-256, as two halves. */
export interface PathHash {
  high: number;
  low: number;
}

const BLOCK_BITS = 13;
const BLOCK_SLOTS = 1 << BLOCK_BITS;
/** Slots behind the last home, for what does not fit before; where they run out, a block is added. */
const MARGIN_SLOTS = 256;
const MAX_LOAD = 0.85;
const GROWTH = 1 / 8;
const HASHES = 2 ** 32;

/**
 * Which paths a scan has seen, in about 10 bytes a path outside the JavaScript heap. Two paths of one hash (1 in 37
 * million for a million paths) count as one path that comes twice. The second row is then dropped, and the snapshot is
 * marked as inconsistent.
 *
 * A hash table with linear probing whose slots are in the order of the hashes: it grows in place, block by block, and
 * leaves no garbage behind. A hash's home is the slot that its value alone gives; where that is taken, the hash lies
 * further on. An empty slot is 0, 0.
 */
export class PathSet {
  readonly #blocks = [new Uint32Array(2 * BLOCK_SLOTS)];
  #size = 0;
  #margin = MARGIN_SLOTS;

  /** Adds a path; false where it was there before. */
  add({ high, low }: PathHash): boolean {
    if (!this.#insert(high, high === 0 && low === 0 ? 1 : low)) return false;
    this.#size++;
    if (this.#size > MAX_LOAD * this.#homes()) this.#grow();
    return true;
  }

  #slots(): number {
    return this.#blocks.length * BLOCK_SLOTS;
  }

  #homes(): number {
    return this.#slots() - this.#margin;
  }

  #insert(high: number, low: number): boolean {
    for (let slot = home(high, this.#homes()); ; slot++) {
      const block = this.#blockOf(slot);
      const at = indexOf(slot);
      const [seenHigh, seenLow] = [block[at] as number, block[at + 1] as number];
      if (seenHigh === high && seenLow === low) return false;
      const isEmpty = seenHigh === 0 && seenLow === 0;
      if (!isEmpty && (seenHigh < high || (seenHigh === high && seenLow < low))) continue;
      this.#put(slot, high, low);
      if (!isEmpty) this.#shift(slot + 1, seenHigh, seenLow);
      return true;
    }
  }

  /** Moves what lies from a slot on one further, up to the next empty slot, and puts a hash there. */
  #shift(from: number, high: number, low: number): void {
    for (let slot = from; high !== 0 || low !== 0; slot++) {
      const block = this.#blockOf(slot);
      const at = indexOf(slot);
      const [nextHigh, nextLow] = [block[at] as number, block[at + 1] as number];
      block[at] = high;
      block[at + 1] = low;
      high = nextHigh;
      low = nextLow;
    }
  }

  /** Adds blocks, moves all hashes to the end, and from there, in order, to their new homes. */
  #grow(): void {
    const before = this.#slots();
    for (let more = Math.ceil(this.#blocks.length * GROWTH); more > 0; more--) {
      this.#blocks.push(new Uint32Array(2 * BLOCK_SLOTS));
    }
    let end = this.#slots();
    for (let slot = before - 1; slot >= 0; slot--) if (this.#isTaken(slot)) this.#move(slot, --end);
    const homes = this.#homes();
    for (let slot = end, free = 0; slot < this.#slots(); slot++) {
      const to = Math.max(free, home(this.#blockOf(slot)[indexOf(slot)] as number, homes));
      this.#move(slot, to);
      free = to + 1;
    }
  }

  #move(from: number, to: number): void {
    if (from === to) return;
    const block = this.#blockOf(from);
    const at = indexOf(from);
    this.#put(to, block[at] as number, block[at + 1] as number);
    block[at] = 0;
    block[at + 1] = 0;
  }

  #put(slot: number, high: number, low: number): void {
    const block = this.#blockOf(slot);
    const at = indexOf(slot);
    block[at] = high;
    block[at + 1] = low;
  }

  #isTaken(slot: number): boolean {
    const block = this.#blockOf(slot);
    const at = indexOf(slot);
    return block[at] !== 0 || block[at + 1] !== 0;
  }

  /** Hashes that crowd at the end, as only chosen ones would, lengthen the margin. */
  #blockOf(slot: number): Uint32Array {
    const known = this.#blocks[slot >>> BLOCK_BITS];
    if (known) return known;
    const added = new Uint32Array(2 * BLOCK_SLOTS);
    this.#blocks.push(added);
    this.#margin += BLOCK_SLOTS;
    return added;
  }
}

function home(high: number, homes: number): number {
  return Math.floor((high * homes) / HASHES);
}

function indexOf(slot: number): number {
  return 2 * (slot & (BLOCK_SLOTS - 1));
}
