import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { every } from '../../src/worker/every.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a round begins once the one before and a pause are over, whatever that one threw', async () => {
  const ends: ((error?: Error) => void)[] = [];
  const onError = vi.fn<(error: unknown) => void>();
  const work = () => new Promise<void>((resolve, reject) => ends.push((error) => (error ? reject(error) : resolve())));
  const stop = every(1_000, work, { onError });
  await vi.advanceTimersByTimeAsync(5_000);
  expect(ends).toHaveLength(1);
  ends[0]!(new Error('broken'));
  await vi.advanceTimersByTimeAsync(999);
  expect(ends).toHaveLength(1);
  expect(onError).toHaveBeenCalledExactlyOnceWith(new Error('broken'));
  await vi.advanceTimersByTimeAsync(1);
  expect(ends).toHaveLength(2);
  stop();
});

test('after the stop no round begins, and the one under way knows of it and reports no error', async () => {
  const signals: AbortSignal[] = [];
  const onError = vi.fn<(error: unknown) => void>();
  const work = async (stopped: AbortSignal) => {
    signals.push(stopped);
    await new Promise((resolve) => setTimeout(resolve, 100));
    throw new Error('broken');
  };
  const stop = every(1_000, work, { firstMs: 500, onError });
  await vi.advanceTimersByTimeAsync(550);
  expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
  stop();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
  expect(onError).not.toHaveBeenCalled();
});

test('the first of the rounds that fail in a row is reported, and again after one that went well', async () => {
  const fates = ['broken', 'broken', 'well', 'broken'];
  const told: unknown[] = [];
  const work = () => {
    const fate = fates.shift();
    if (fate === 'broken') throw new Error(`${fate}, ${fates.length} to come`);
  };
  const stop = every(1_000, work, { onError: (error) => told.push(error) });
  await vi.advanceTimersByTimeAsync(3_500);
  stop();
  expect(fates).toEqual([]);
  expect(told).toEqual([new Error('broken, 3 to come'), new Error('broken, 0 to come')]);
});
