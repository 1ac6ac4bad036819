/** Files share processes: what one has replaced is as it was before the next. */
import { afterAll, vi } from 'vitest';
import { ending } from './ending.js';
import { removeFolders } from './folder.js';

afterAll(async () => {
  await Promise.all(ending);
  ending.clear();
  await removeFolders();
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  vi.useRealTimers();
});
