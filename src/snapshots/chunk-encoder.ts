import type { VisitorRow } from './content-digest.js';
import type { RowSink } from './scan.js';

const COUNT_BYTES = 4;
const HASH_BYTES = 8;

/**
 * The rows of one chunk on their way into staging: a Parquet file, path hashes, then the row count, in one object.
 */
export class ChunkEncoder implements RowSink {
  readonly #rows: VisitorRow[] = [];
  readonly #hashes: bigint[] = [];
  #bytes = 0;

  get length(): number {
    return this.#rows.length;
  }

  /** What the paths take as UTF-8: about what the rows take in memory, where paths are long. */
  get bytes(): number {
    return this.#bytes;
  }

  add(row: VisitorRow, hash: bigint): void {
    this.#rows.push(row);
    this.#hashes.push(hash);
    this.#bytes += Buffer.byteLength(row.path);
  }

  /** The chunk's bytes. */
  async finish(): Promise<Uint8Array> {
    const end = Buffer.alloc(HASH_BYTES * this.length + COUNT_BYTES);
    this.#hashes.forEach((hash, row) => end.writeBigUInt64LE(hash, HASH_BYTES * row));
    end.writeUInt32LE(this.length, HASH_BYTES * this.length);
    if (this.length === 0) return end;
    const { writeParquet } = await import('./parquet.js');
    return Buffer.concat([writeParquet(this.#rows), end]);
  }
}

/** The path hashes in a chunk's bytes. */
export function* chunkHashes(bytes: Buffer): Generator<bigint> {
  for (let at = parquetEnd(bytes); at < bytes.length - COUNT_BYTES; at += HASH_BYTES) {
    yield bytes.readBigUInt64LE(at);
  }
}

/** The Parquet file in a chunk's bytes; empty where it has no rows. */
export function chunkParquet(bytes: Buffer): Buffer {
  return bytes.subarray(0, parquetEnd(bytes));
}

function parquetEnd(bytes: Buffer): number {
  const end = bytes.length - COUNT_BYTES;
  return end - bytes.readUInt32LE(end) * HASH_BYTES;
}
