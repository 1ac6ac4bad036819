import type { VisitorRow } from './content-digest.js';

/** Rows by column: a tenth of the objects that rows would be. */
export class RowBatch {
  readonly paths: string[] = [];
  readonly human: number[] = [];
  readonly ai: number[] = [];
  readonly total: number[] = [];

  get length(): number {
    return this.paths.length;
  }

  add({ path, human, ai, total }: VisitorRow): void {
    this.paths.push(path);
    this.human.push(human);
    this.ai.push(ai);
    this.total.push(total);
  }
}
