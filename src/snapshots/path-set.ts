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
