import { expect, test } from 'vitest';
import { ignoredSettings } from '../../src/local/worker-process.js';

const RESTORE = { CONFIRM_WRITES_BEFORE: '2026-01-01T00:00:00Z' };

test('without --real the demo tells that it ignores CONFIRM_WRITES_BEFORE, which real jobs keep', () => {
  expect(ignoredSettings(RESTORE, false)).toEqual(['CONFIRM_WRITES_BEFORE']);
  expect(ignoredSettings(RESTORE, true)).toEqual([]);
});

test('an empty setting is none', () => {
  expect(ignoredSettings({ CONFIRM_WRITES_BEFORE: '' }, false)).toEqual([]);
});
