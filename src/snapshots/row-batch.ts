import type { VisitorRow } from './content-digest.js';
import type { PathHash } from './path-set.js';

/** Rows by column, with the hashes of their paths: a tenth of the objects that rows would be. */
export class RowBatch {
  readonly paths: string[] = [];
  readonly human: number[] = [];
  readonly ai: number[] = [];
  readonly total: number[] = [];
  /** High and low half in turn. */
  readonly hashes: number[] = [];

  get length(): number {
    return this.paths.length;
  }

  add({ path, human, ai, total }: VisitorRow, { high, low }: PathHash): void {
    this.paths.push(path);
    this.human.push(human);
    this.ai.push(ai);
    this.total.push(total);
    this.hashes.push(high, low);
  }
}
