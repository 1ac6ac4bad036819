import { expect, test } from 'vitest';
import { askAgainMs } from '../../src/agent-job/retry-waits.js';

const HOUR = 3_600_000;
const NOW = 1_000 * HOUR;
const inHours = (hours: number) => ({ position: 1, expectedAt: new Date(NOW + hours * HOUR).toISOString() });
const hoursOf = (waits: number, place: { position?: number; expectedAt?: string }, random = 0) =>
  askAgainMs(waits, place, NOW, random) / HOUR;

test('who waits for a turn asks again after some hours, and not before it was expected', () => {
  expect([0, 1, 12, 24, 100].map((hours) => hoursOf(1, inHours(hours)))).toEqual([6.25, 6.25, 15.5, 27.5, 103.5]);
  expect(hoursOf(1, inHours(10_000))).toBe(7 * 24);
  expect([1, 5].map((waits) => hoursOf(waits, { position: 5 }))).toEqual([6.25, 6.25]);
});

test('who was told no place asks again soon, and then more and more rarely', () => {
  expect([1, 2, 3, 9].map((waits) => hoursOf(waits, {}) * 60)).toEqual([5, 10, 20, 6.25 * 60]);
});

test('those that began to wait at once ask again at many moments', () => {
  expect([0, 0.5, 1].map((random) => hoursOf(1, { position: 5 }, random))).toEqual([6.25, 6.5, 6.75]);
  expect([0, 1].map((random) => hoursOf(1, inHours(100), random))).toEqual([103.5, 104]);
  expect([0, 1].map((random) => hoursOf(1, {}, random) * 60)).toEqual([5, 5.5]);
});
