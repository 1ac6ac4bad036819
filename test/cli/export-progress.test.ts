import { getEventListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { showProgress } from '../../src/cli/export-progress.js';
import type { VisitorExportHandle } from '../../src/starter.js';

test('an export that is watched for long leaves no listeners behind, of which Node would warn', async () => {
  const signals = vi.spyOn(AbortSignal.prototype, 'addEventListener');
  const silent = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  const handle = { progress: () => Promise.resolve(null) } as unknown as VisitorExportHandle;
  const stop = await showProgress(handle, new AbortController().signal);
  try {
    await delay(4_500);
    const kept = signals.mock.contexts.map((signal) => getEventListeners(signal as AbortSignal, 'abort').length);
    expect(kept.length).toBeGreaterThan(2);
    expect(Math.max(...kept)).toBeLessThanOrEqual(1);
  } finally {
    stop();
    silent.mockRestore();
    signals.mockRestore();
  }
});
