import { expect, test } from 'vitest';
import { simulateRuns } from './simulation.js';

test('after 80 scheduled runs every published day is the upstream’s final truth, or is marked', async () => {
  const figures = await simulateRuns(12, 80);
  expect(figures.unmarkedWrong).toEqual([]);
  expect(figures.worse).toEqual([]);
  expect(figures.notMadeUp).toEqual([]);
  // Days at the end whose nights were all missed lie between no others.
  expect(figures.days).toBeGreaterThanOrEqual(75);
  expect(figures.stillMarked).toBeLessThanOrEqual(figures.settledDays / 100);
  // The runs were disturbed.
  expect(Math.min(...Object.values(figures.met))).toBeGreaterThan(0);
});
