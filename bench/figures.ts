/** Figures of a run: plain numbers by name; null where there is none. */
export type Figures = Record<string, number | null>;

/** What one contender did in one repetition of one scenario. */
export interface Measured {
  scenario: string;
  contender: string;
  repetition: number;
  /** Load average of the machine over the minute before. */
  load: number;
  figures: Figures;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** 0 to 1; between two values the nearer. NaN of nothing. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.round((sorted.length - 1) * share)] ?? NaN;
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
