import { hash, randomBytes } from 'node:crypto';
import type { VisitorTotals } from '../contract.js';

/** The counts of a row, in the order of a file's columns. */
export const COUNTS = ['human', 'ai', 'total'] as const;
const LANES = 8;
const PATH_KEY_BYTES = 16;

/** One row of a snapshot, counts whole. */
export interface VisitorRow {
  path: string;
  human: number;
  ai: number;
  total: number;
}

/** Adds a row to sums and largest counts of rows. */
export function addTo(figures: Record<'rowSums' | 'rowMaxima', VisitorTotals>, row: VisitorRow): void {
  const { rowSums, rowMaxima } = figures;
  for (const count of COUNTS) {
    rowSums[count] = Math.min(rowSums[count] + row[count], Number.MAX_SAFE_INTEGER);
    rowMaxima[count] = Math.max(rowMaxima[count], row[count]);
  }
}

/**
 * A key for the hashes of one scan: whoever chooses paths can't choose where they fall, nor make two of them fall
 * together.
 */
export function newPathKey(): string {
  return randomBytes(PATH_KEY_BYTES).toString('hex');
}

/**
 * Names a path in a `PathSet` whose hashes all have this key, by 64 bits. Two paths of one hash (1 in 37 million for a
 * million paths) count as one path that comes twice. The second row is then dropped, and the snapshot is marked as
 * inconsistent.
 */
export function pathHash(key: string, path: string): bigint {
  const digest = sha256(key + path);
  return (BigInt(word(digest, 0)) << 32n) | BigInt(word(digest, 4));
}

/**
 * A digest of rows that does not depend on their order (`content`: the sum of all row digests modulo 2^256), and beside
 * it one that does (`order`), to tell two scans apart that hold the same rows.
 */
export class ContentDigest {
  readonly #lanes = new Uint32Array(LANES);
  #order: number;

  constructor(content = '', order = 0) {
    const bytes = Buffer.from(content, 'hex');
    for (let lane = 0; lane < bytes.length / 4; lane++) this.#lanes[lane] = bytes.readUInt32BE(4 * lane);
    this.#order = order;
  }

  add({ path, human, ai, total }: VisitorRow): void {
    const digest = sha256(`${human},${ai},${total},${path}`);
    let carry = 0;
    for (let lane = LANES - 1; lane >= 0; lane--) {
      const sum = (this.#lanes[lane] as number) + word(digest, 4 * lane) + carry;
      this.#lanes[lane] = sum;
      carry = sum > 0xffffffff ? 1 : 0;
    }
    this.#order = (Math.imul(this.#order, 31) + word(digest, 0)) >>> 0;
  }

  get content(): string {
    const bytes = Buffer.alloc(4 * LANES);
    this.#lanes.forEach((value, lane) => bytes.writeUInt32BE(value, 4 * lane));
    return bytes.toString('hex');
  }

  get order(): number {
    return this.#order;
  }
}

/** SHA-256 of a text or bytes, as 64 hexadecimal digits. */
export function sha256Hex(data: string | Uint8Array): string {
  return hash('sha256', data, 'hex');
}

// One character a byte: three times as fast as a Buffer for each row.
function sha256(text: string): string {
  return hash('sha256', text, 'binary');
}

function word(digest: string, at: number): number {
  const high = (digest.charCodeAt(at) << 24) | (digest.charCodeAt(at + 1) << 16);
  return (high | (digest.charCodeAt(at + 2) << 8) | digest.charCodeAt(at + 3)) >>> 0;
}
