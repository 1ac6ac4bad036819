/** When a deadline passes that stands still and goes on. */
import { expect, test } from 'vitest';
import { leftAt, passesAt, restart, resume, stop } from '../../src/workflows/agent-job/deadline.js';

const running = restart(100);

test('what is left when it stops is left when it goes on', () => {
  const stopped = stop(running, 30);
  expect(passesAt(stopped)).toBeNull();
  expect([leftAt(stopped, 30), leftAt(stopped, 5_000)]).toEqual([70, 70]);
  expect(passesAt(resume(stopped, 5_000))).toBe(5_070);
});

test('it stops once, and goes on only if it had stopped', () => {
  const stopped = stop(running, 30);
  expect(stop(stopped, 60)).toBe(stopped);
  expect(resume(running, 60)).toBe(running);
});

test('one that passed before it stopped has passed when it goes on', () => {
  const late = resume(stop({ ...running, hasExpired: true }, 130), 500);
  expect(passesAt(late)).toBe(470);
});

test('once it has expired it passes no more, until it stands still or begins anew', () => {
  const expired = { ...running, hasExpired: true };
  expect(passesAt(expired)).toBeNull();
  expect(stop(expired, 30).hasExpired).toBe(false);
  expect(passesAt(restart(700))).toBe(700);
});
