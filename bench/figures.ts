/** Figures of a run: plain numbers by name; null where there is none. */
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

export function median(values: readonly number[]): number {
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
