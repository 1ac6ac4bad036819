import { expect, test } from 'vitest';
import { askAgainMs } from '../../src/agent-job/retry-waits.js';

const HOUR = 3_600_000;
const NOW = 1_000 * HOUR;
const inHours = (hours: number) => ({ position: 1, expectedAt: new Date(NOW + hours * HOUR).toISOString() });
const hoursOf = (waits: number, place: { position?: number; expectedAt?: string }) =>
  askAgainMs(waits, place, NOW) / HOUR;

test('who waits for a turn asks again after some hours, and not before it was expected', () => {
  expect([0, 1, 12, 24, 100].map((hours) => hoursOf(1, inHours(hours)))).toEqual([6.5, 6.5, 15.5, 27.5, 103.5]);
  expect(hoursOf(1, inHours(10_000))).toBe(7 * 24);
  expect([1, 5].map((waits) => hoursOf(waits, { position: 5 }))).toEqual([6.5, 6.5]);
});

test('who was told no place asks again soon, and then more and more rarely', () => {
  expect([1, 2, 3, 9].map((waits) => hoursOf(waits, {}) * 60)).toEqual([5, 10, 20, 6.5 * 60]);
});
