import { MockActivityEnvironment } from '@temporalio/testing';
import { expect, test } from 'vitest';
import { SharedServerClock } from '../../src/temporal/activity-attempt.js';

const START = Date.UTC(2026, 0, 1);
const HOUR = 3_600_000;

/** A worker's clock, and how much of the machine's two clocks has passed. */
function clockOf({ wall = START } = {}) {
  const machine = { wall, monotonic: 5_000 };
  const clock = new SharedServerClock({ wall: () => machine.wall, monotonic: () => machine.monotonic });
  /** In an attempt that begins now. */
  const now = async (currentAttemptScheduledTimestampMs: number): Promise<number> => {
    const environment = new MockActivityEnvironment({ currentAttemptScheduledTimestampMs });
    return Number(await environment.run(() => Promise.resolve(clock.start()())));
  };
  return { machine, now };
}

test('attempts that waited hours for a worker have the time of all others', async () => {
  const { machine, now } = clockOf();
  expect(await now(START - 9 * HOUR)).toBe(START);
  machine.monotonic += HOUR;
  for (const hoursAgo of [0.5, 3, 9]) expect(await now(START + HOUR - hoursAgo * HOUR)).toBe(START + HOUR);
});

test('a machine’s clock that is set anew changes nothing', async () => {
  const { machine, now } = clockOf();
  for (const wall of [START + 5 * HOUR, START - 5 * HOUR]) {
    machine.wall = wall;
    machine.monotonic += HOUR / 2;
    expect(await now(START)).toBe(START - 5_000 + machine.monotonic);
  }
});

test('after a suspension the time stands still until an attempt shows it, and is never put back', async () => {
  const { machine, now } = clockOf();
  machine.wall += 2 * HOUR;
  expect(await now(START - HOUR)).toBe(START);
  const shown = await now(START + 2 * HOUR);
  expect(shown).toBeGreaterThanOrEqual(START + 2 * HOUR);
  expect(await now(START - HOUR)).toBe(shown);
  machine.monotonic += HOUR;
  expect(await now(START - HOUR)).toBe(shown + HOUR);
});

test('where the machine’s clock is hours behind, the first recent attempt puts it right', async () => {
  const { now } = clockOf({ wall: START - 9 * HOUR });
  expect(await now(START - 3 * HOUR)).toBeGreaterThanOrEqual(START - 3 * HOUR);
  expect(await now(START)).toBeGreaterThanOrEqual(START);
  expect(await now(START - 3 * HOUR)).toBeGreaterThanOrEqual(START);
});

test('where the machine’s clock is hours ahead, no attempt is ahead of it, and an hour is an hour', async () => {
  const { machine, now } = clockOf({ wall: START + 5 * HOUR });
  expect(await now(START)).toBe(START + 5 * HOUR);
  machine.monotonic += HOUR;
  expect(await now(START + HOUR)).toBe(START + 6 * HOUR);
});
