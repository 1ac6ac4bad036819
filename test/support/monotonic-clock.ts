/** Makes `performance.now()` of a test's process go ahead, as if the time had passed: its timers fire as ever. */
import { onTestFinished, vi } from 'vitest';

export function aheadClock(): { skip: (ms: number) => void } {
  const now = performance.now.bind(performance);
  let skippedMs = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + skippedMs);
  onTestFinished(() => clock.mockRestore());
  return { skip: (ms) => void (skippedMs += ms) };
}
