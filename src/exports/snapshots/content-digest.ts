/** Digests of rows and paths, and sums over rows. */
import { hash, randomBytes } from 'node:crypto';
import type { VisitorTotals } from '../../contract.js';
import type { VisitorRow } from '../../upstream/upstream.js';

export type { VisitorRow };

/** The counts of a row, in the order of a file's columns. */
export const COUNTS = ['human', 'ai', 'total'] as const;
const PATH_KEY_BYTES = 16;
const DIGEST_BITS = 256;

/** Adds a row to the sums and to the largest values of each count. */
export function addTo(figures: Record<'rowSums' | 'rowMaxima', VisitorTotals>, row: VisitorRow): void {
  const { rowSums, rowMaxima } = figures;
  for (const count of COUNTS) {
    rowSums[count] = Math.min(rowSums[count] + row[count], Number.MAX_SAFE_INTEGER);
    rowMaxima[count] = Math.max(rowMaxima[count], row[count]);
  }
}

/** A key for the hashes of one scan: no visitor can choose paths whose hashes collide. */
export function newPathKey(): string {
  return randomBytes(PATH_KEY_BYTES).toString('hex');
}

/**
 * Names a path in a `PathSet` by 64 bits. Two paths of one hash (1 in 37 million for a million paths) count as one path
 * that comes twice, and make the snapshot inconsistent.
 */
export function pathHash(key: string, path: string): bigint {
  return BigInt(`0x${sha256Hex(key + path).slice(0, 16)}`);
}

/** A digest of rows in any order (`content`: the sum of all row digests modulo 2^256), and one of their `order`. */
export class ContentDigest {
  #content: bigint;
  #order: number;

  constructor(content = '', order = 0) {
    this.#content = BigInt(`0x${content || '0'}`);
    this.#order = order;
  }

  add({ path, human, ai, total }: VisitorRow): void {
    const digest = sha256Hex(`${human},${ai},${total},${path}`);
    this.#content = BigInt.asUintN(DIGEST_BITS, this.#content + BigInt(`0x${digest}`));
    this.#order = (Math.imul(this.#order, 31) + Number.parseInt(digest.slice(0, 8), 16)) >>> 0;
  }

  get content(): string {
    return this.#content.toString(16).padStart(DIGEST_BITS / 4, '0');
  }

  get order(): number {
    return this.#order;
  }
}

/** SHA-256 of a text or bytes, as 64 hexadecimal digits. */
export function sha256Hex(data: string | Uint8Array): string {
  return hash('sha256', data, 'hex');
}
