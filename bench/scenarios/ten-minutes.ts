import type { Figures } from '../figures.js';
import type { JobsWork } from '../jobs-run.js';

/** A typical job: ten minutes, the default polling plan, one follow-up half way. */
export function tenMinutes(n: number, tag: string, activeMs = 600_000): JobsWork {
  const polling = { min: 2_000, max: 60_000, ratio: 0.1 };
  return { tag, n, polling, activeMs, followUpAfterMs: activeMs / 2 };
}

/** Figures that another contender beside it does not change: no times, no CPU. */
export function countsOnly(figures: Figures): Figures {
  return Object.fromEntries(Object.entries(figures).filter(([name]) => /^(reads|history|billable)/.test(name)));
}
