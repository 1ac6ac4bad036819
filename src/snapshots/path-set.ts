/** The first 64 bits of a path's SHA-256, as two halves. */
export interface PathHash {
  high: number;
  low: number;
}

const SEGMENTS = 64;
const FIRST_SLOTS = 64;
const GROWTH = 1.5;
const MAX_LOAD = 0.8;

/**
 * Which paths a pass has seen, in about 12 bytes a path outside the JavaScript heap. Two paths of one hash (1 in 37 million for
 * a million paths) would count as a repeated path, so an error can only make a snapshot look worse than it is.
 */
export class PathSet {
  // Segments grow one by one, so that there are never two copies of the whole.
  readonly #segments = Array.from({ length: SEGMENTS }, () => new Segment());

  /** Adds a path; false where it was there before. */
  add({ high, low }: PathHash): boolean {
    return (this.#segments[high % SEGMENTS] as Segment).add(high, low);
  }
}

/** A hash table with open addressing; an empty slot is 0, 0. */
class Segment {
  #slots = new Uint32Array(2 * FIRST_SLOTS);
  #size = 0;

  add(high: number, low: number): boolean {
    const marked = low === 0 && high === 0 ? 1 : low;
    if (!insert(this.#slots, high, marked)) return false;
    this.#size++;
    if (this.#size > MAX_LOAD * (this.#slots.length / 2)) this.#grow();
    return true;
  }

  #grow(): void {
    const grown = new Uint32Array(2 * Math.ceil((this.#slots.length / 2) * GROWTH));
    for (let i = 0; i < this.#slots.length; i += 2) {
      const high = this.#slots[i] as number;
      const low = this.#slots[i + 1] as number;
      if (high !== 0 || low !== 0) insert(grown, high, low);
    }
    this.#slots = grown;
  }
}

function insert(slots: Uint32Array, high: number, low: number): boolean {
  const count = slots.length / 2;
  for (let slot = low % count; ; slot = slot + 1 === count ? 0 : slot + 1) {
    const at = 2 * slot;
    if (slots[at] === high && slots[at + 1] === low) return false;
    if (slots[at] !== 0 || slots[at + 1] !== 0) continue;
    slots[at] = high;
    slots[at + 1] = low;
    return true;
  }
}
