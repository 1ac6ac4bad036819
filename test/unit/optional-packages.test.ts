import { expect, test } from 'vitest';
import { loadOptional } from '../../src/snapshots/open-store.js';

test('what needs a package that is missing says how to install it', async () => {
  const missing = 'a-package-that-is-not-there';
  const load = loadOptional('the report', () => import(missing));
  await expect(load).rejects.toThrow('the report needs a package that is not installed: npm install echarts');
});

test('any other failure to load is told as it is', async () => {
  const failed = new Error('broken');
  await expect(loadOptional('the report', () => Promise.reject(failed))).rejects.toBe(failed);
});
