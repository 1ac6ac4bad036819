import type { VisitorRow } from './content-digest.js';
import type { PathHash } from './path-set.js';

export const COUNTS = ['human', 'ai', 'total'] as const;
export type Count = (typeof COUNTS)[number];

const FIRST_ROWS = 1 << 13;
const FIRST_BYTES = 1 << 18;
const LENGTH_BYTES = 4;
const MAX_BYTES_PER_UNIT = 3; // of UTF-8, for one UTF-16 unit

/**
 * Rows by column, as bytes that the next batch uses again: one object per row would cause garbage collector pressure.
 */
export class RowBatch {
  #length = 0;
  #pathBytes = 0;
  #paths = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #counts: Record<Count, Float64Array> = {
    human: new Float64Array(FIRST_ROWS),
    ai: new Float64Array(FIRST_ROWS),
    total: new Float64Array(FIRST_ROWS),
  };
  #hashes = new Uint32Array(2 * FIRST_ROWS);

  get length(): number {
    return this.#length;
  }

  /** All paths in order, each as its length in bytes (32 bits, little-endian) and UTF-8: Parquet's plain encoding. */
  get paths(): Uint8Array {
    return this.#paths.subarray(0, this.#pathBytes);
  }

  counts(name: Count): Float64Array {
    return this.#counts[name].subarray(0, this.#length);
  }

  /** The paths' hashes, each as its high and its low half. */
  get hashes(): Uint32Array {
    return this.#hashes.subarray(0, 2 * this.#length);
  }

  add({ path, human, ai, total }: VisitorRow, { high, low }: PathHash): void {
    if (this.#length === this.#counts.human.length) this.#growRows();
    const at = this.#length++;
    this.#counts.human[at] = human;
    this.#counts.ai[at] = ai;
    this.#counts.total[at] = total;
    this.#hashes[2 * at] = high;
    this.#hashes[2 * at + 1] = low;
    this.#addPath(path);
  }

  clear(): void {
    this.#length = 0;
    this.#pathBytes = 0;
  }

  #addPath(path: string): void {
    const at = this.#pathBytes;
    const end = at + LENGTH_BYTES + MAX_BYTES_PER_UNIT * path.length;
    if (end > this.#paths.length) {
      const grown = Buffer.allocUnsafeSlow(2 * end);
      this.#paths.copy(grown, 0, 0, at);
      this.#paths = grown;
    }
    const bytes = this.#paths.write(path, at + LENGTH_BYTES, 'utf8');
    this.#paths.writeUInt32LE(bytes, at);
    this.#pathBytes = at + LENGTH_BYTES + bytes;
  }

  #growRows(): void {
    for (const name of COUNTS) {
      const grown = new Float64Array(2 * this.#length);
      grown.set(this.#counts[name]);
      this.#counts[name] = grown;
    }
    const hashes = new Uint32Array(4 * this.#length);
    hashes.set(this.#hashes);
    this.#hashes = hashes;
  }
}
