/** Keeps all figures, and writes the file after each measurement, so that an interruption loses none. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { dirname } from 'node:path';
import type { Figures, Measured } from './figures.js';

export class Recorder {
  readonly measured: Measured[] = [];
  /** The machine and Node, in one line. */
  readonly place: string;
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
    this.place = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, Node ${process.version}`;
  }

  /** Runs one scenario for one contender and keeps its figures. */
  async run(
    { scenario, contender, repetition }: Pick<Measured, 'scenario' | 'contender' | 'repetition'>,
    measure: () => Promise<Figures>,
  ): Promise<Figures> {
    const load = loadavg()[0] ?? NaN;
    const startedAt = Date.now();
    const figures = await measure();
    const seconds = Math.round((Date.now() - startedAt) / 1_000);
    console.error(`${contender}, ${scenario}, repetition ${repetition}: ${seconds} s, load ${load.toFixed(1)}`);
    this.add({ scenario, contender, repetition, load, figures });
    return figures;
  }

  add(measured: Measured): void {
    this.measured.push(measured);
    mkdirSync(dirname(this.#file), { recursive: true });
    const run = { at: new Date().toISOString(), place: this.place, measured: this.measured };
    writeFileSync(this.#file, `${JSON.stringify(run, null, 2)}\n`);
  }
}
