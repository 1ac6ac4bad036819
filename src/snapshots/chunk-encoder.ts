import { ByteWriter } from 'hyparquet-writer';
import type { VisitorRow } from './content-digest.js';
import { writeParquet } from './parquet.js';
import type { RowSink } from './scan.js';
import type { PathHash } from './path-set.js';
import { RowBatch } from './row-batch.js';

const COUNT_BYTES = 4;
const HASH_BYTES = 8;
const FIRST_BYTES = 1 << 20;

/**
 * The rows of one chunk on their way into staging: a Parquet file, path hashes, then the row count, in one object. Used
 * for one chunk after the other.
 */
export class ChunkEncoder implements RowSink {
  readonly #rows = new RowBatch();
  readonly #writer = new ByteWriter(FIRST_BYTES);

  get length(): number {
    return this.#rows.length;
  }

  /** About what the rows take in memory. */
  get bytes(): number {
    return this.#rows.paths.length;
  }

  add(row: VisitorRow, hash: PathHash): void {
    this.#rows.add(row, hash);
  }

  /** The chunk's bytes: good until the next call. */
  finish(): Uint8Array {
    const writer = this.#writer;
    writer.index = 0;
    writer.offset = 0;
    if (this.#rows.length > 0) writeParquet(writer, this.#rows);
    const { buffer, byteOffset, byteLength } = this.#rows.hashes;
    writer.appendBytes(new Uint8Array(buffer, byteOffset, byteLength));
    writer.appendUint32(this.#rows.length);
    return writer.getBytes();
  }

  /** Forgets all rows; the memory serves the next chunk. */
  clear(): void {
    this.#rows.clear();
  }
}

/** The path hashes in a chunk's bytes. */
export function* chunkHashes(bytes: Buffer): Generator<PathHash> {
  for (let at = parquetEnd(bytes); at < bytes.length - COUNT_BYTES; at += HASH_BYTES) {
    yield { high: bytes.readUInt32LE(at), low: bytes.readUInt32LE(at + 4) };
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
