import type { VisitorRow } from './content-digest.js';
import { ParquetEncoder } from './parquet.js';
import type { KeptRows } from './pass.js';
import type { PathHash } from './path-set.js';
import { RowBatch } from './row-batch.js';

/** Rows of one Parquet row group: few enough that they are garbage before the collector calls them old. */
const GROUP_ROWS = 10_000;
const FIRST_HASHES = 1 << 12;
const COUNT_BYTES = 4;
const HASH_BYTES = 8;

/** The rows of one chunk on their way into staging: row count, path hashes, then a Parquet file, in one object. */
export class ChunkEncoder implements KeptRows {
  readonly #parquet = new ParquetEncoder();
  #batch = new RowBatch();
  #hashes = Buffer.alloc(FIRST_HASHES * HASH_BYTES);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  add(row: VisitorRow, { high, low }: PathHash): void {
    this.#batch.add(row);
    const at = this.#length * HASH_BYTES;
    if (at === this.#hashes.length) this.#hashes = Buffer.concat([this.#hashes], 2 * at);
    this.#hashes.writeUInt32LE(high, at);
    this.#hashes.writeUInt32LE(low, at + 4);
    this.#length++;
    if (this.#batch.length === GROUP_ROWS) this.#encodeGroup();
  }

  /** The chunk's bytes; nothing may be added afterwards. */
  finish(): Uint8Array {
    if (this.#batch.length > 0) this.#encodeGroup();
    const count = Buffer.alloc(COUNT_BYTES);
    count.writeUInt32LE(this.#length);
    return Buffer.concat([count, this.#hashes.subarray(0, this.#length * HASH_BYTES), this.#parquet.finish()]);
  }

  #encodeGroup(): void {
    this.#parquet.add(this.#batch);
    this.#batch = new RowBatch();
  }
}

/** The path hashes in a chunk's bytes. */
export function* chunkHashes(bytes: Buffer): Generator<PathHash> {
  const end = parquetStart(bytes);
  for (let at = COUNT_BYTES; at < end; at += HASH_BYTES) {
    yield { high: bytes.readUInt32LE(at), low: bytes.readUInt32LE(at + 4) };
  }
}

/** The Parquet file in a chunk's bytes. */
export function chunkParquet(bytes: Buffer): Uint8Array {
  return bytes.subarray(parquetStart(bytes));
}

function parquetStart(bytes: Buffer): number {
  return COUNT_BYTES + bytes.readUInt32LE(0) * HASH_BYTES;
}
