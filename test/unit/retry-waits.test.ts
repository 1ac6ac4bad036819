import { expect, test } from 'vitest';
import { backstopMs } from '../../src/agent-job/retry-waits.js';

const HOUR = 3_600_000;
const NOW = 1_000 * HOUR;
const inHours = (hours: number) => ({ position: 1, expectedAt: new Date(NOW + hours * HOUR).toISOString() });
const hoursOf = (waits: number, place: { position?: number; expectedAt?: string }) =>
  backstopMs(waits, place, NOW) / HOUR;

test('who waits for a turn tries by itself some hours after it was expected, however long that is', () => {
  expect([0, 1, 12, 24, 100].map((hours) => hoursOf(1, inHours(hours)))).toEqual([3.5, 4.5, 15.5, 27.5, 103.5]);
  expect(hoursOf(3, inHours(1))).toBe(12.5);
  expect(hoursOf(1, inHours(10_000))).toBe(7 * 24);
});

test('who waits for a turn that nobody can tell tries by itself more and more rarely', () => {
  expect([1, 2, 3, 4, 5, 9].map((waits) => hoursOf(waits, { position: 5 }))).toEqual([4, 6.5, 12.5, 24, 24, 24]);
  expect([100, 10_000].map((position) => hoursOf(1, { position }))).toEqual([13.5, 48]);
  expect(hoursOf(1, {}) * 60).toBe(5);
});
