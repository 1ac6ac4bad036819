import { vi } from 'vitest';

/** Waits until it is so, in hooks too. One question that a busy worker or server leaves unanswered is asked again. */
export function until(isSo: () => Promise<boolean>): Promise<void> {
  const ask = async () => {
    if (!(await isSo())) throw new Error(`not yet so: ${isSo.toString()}`);
  };
  return vi.waitFor(ask, { timeout: 100_000, interval: 200 });
}
