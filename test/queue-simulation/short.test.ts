import { expect, test } from 'vitest';
import { shared } from '../support/shared.js';
import { runCrowd } from './crowd.js';

test('30 creates where the upstream takes 10 an hour: none is lost or doubled, and waits cost little', async () => {
  const { path: server } = await shared('time-skipping-program');
  // One worker knows of all that was accepted: what is learned, and so every count, is the same each time.
  const result = await runCrowd({ server, jobs: 30, perHour: 10, workers: 1, mostHours: 3 });
  expect(result).toMatchObject({ created: 30, doubled: 0, outcomes: { completed: 30 } });
  const [first, ...later] = result.throttledByHour;
  // Eight at once, and the probes.
  expect(first).toBeLessThanOrEqual(16);
  expect(Math.max(...later)).toBeLessThanOrEqual(3);
  // By the server's clock, which is skipped: ten at once, and ten more with each hour.
  expect(result.createdAt.map((minutes) => Math.floor(minutes / 60))).toEqual(
    [0, 1, 2].flatMap((hour) => Array<number>(10).fill(hour)),
  );
  const { quiet, refused } = result.waits;
  expect(quiet.jobs + refused.jobs).toBe(20);
  // A try that is held back, the join and the question for the place, what it waits for, a timer, the turn.
  expect(quiet.most).toEqual({ events: 13, actions: 6, prompts: 1 });
  // One that is answered 429 waits again; the first send of the first eight is no send with a turn.
  expect(refused.most.events).toBeLessThanOrEqual(13 + 12 * refused.mostRefusals);
  expect(refused.most.prompts).toBeLessThanOrEqual(1 + refused.mostRefusals);
}, 120_000);
