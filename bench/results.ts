/** The figures of a run: kept in a file, and shown as tables. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { dirname } from 'node:path';

/** Plain numbers by name; null if there is none. */
export type Figures = Record<string, number | null>;

/** The figures of one contender in one repetition of one scenario. */
export interface Measured {
  scenario: string;
  contender: string;
  repetition: number;
  /** Load average of the machine over the minute before. */
  load: number;
  figures: Figures;
}

let tags = 0;

/** A part of workflow ids that is unique to this run. */
export function uniqueTag(name: string): string {
  return `${name}-${process.pid}-${Date.now()}-${++tags}`;
}

function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The quantile of sorted values, nearest rank; NaN without values. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.round((sorted.length - 1) * share)] ?? NaN;
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Keeps all figures, and writes the file after each measurement, so that an interruption loses none. */
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

/** Prints a table for each scenario: medians (least to most), and ours as a multiple of the next contender. */
export function printTables(measured: readonly Measured[]): void {
  for (const scenario of new Set(measured.map((one) => one.scenario))) {
    const runs = measured.filter((one) => one.scenario === scenario);
    const contenders = [...new Set(runs.map(({ contender }) => contender))];
    const valuesOf = (contender: string, name: string) =>
      runs
        .filter((one) => one.contender === contender)
        .map(({ figures }) => figures[name])
        .filter((value): value is number => value != null && !Number.isNaN(value));
    const rows = [...new Set(runs.flatMap(({ figures }) => Object.keys(figures)))].map((name) => {
      const values = contenders.map((contender) => valuesOf(contender, name));
      const cells = contenders.map((contender, index) => [contender, cell(values[index]!)]);
      return [name, { ...Object.fromEntries(cells), 'first ÷ second': ratio(values) }];
    });
    console.log(scenario);
    console.table(Object.fromEntries(rows));
  }
}

function cell(values: number[]): string {
  if (values.length === 0) return '–';
  const [middle, least, most] = [median(values), Math.min(...values), Math.max(...values)].map(show);
  return values.length === 1 ? middle! : `${middle} (${least}–${most})`;
}

function ratio([first, second]: number[][]): string {
  return first?.length && second?.length ? `${(median(first) / median(second)).toFixed(2)} ×` : '–';
}

/** Three significant digits. */
function show(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString('en');
}
