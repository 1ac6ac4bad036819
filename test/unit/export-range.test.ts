import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { toExportRange, toRange } from '../../src/cli/export-options.js';

beforeEach(() => vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2026-03-10T23:59:00Z') }));
afterEach(() => vi.useRealTimers());

test('what has begun in some time zone may be exported', async () => {
  expect(await toExportRange({})).toEqual({ dateFrom: '2026-03-09', dateTo: '2026-03-10' });
  expect(await toExportRange({ day: '2026-03-11' })).toEqual({ dateFrom: '2026-03-11', dateTo: '2026-03-12' });
  expect((await toExportRange({ from: '2026-03-01', to: '2026-03-12' })).dateTo).toBe('2026-03-12');
});

test.each([{ day: '2026-03-12' }, { from: '2026-03-12' }, { from: '2026-03-01', to: '2026-03-13' }])(
  'a later end is wrong: %o',
  async (flags) => {
    const rule = 'the range is too late: no time zone is past 2026-03-11 yet';
    await expect(toExportRange(flags)).rejects.toMatchObject({ name: 'UsageError', message: rule });
  },
);

test('a reader takes any range', () => {
  const preset = { dateFrom: '0000-01-01', dateTo: '9999-12-31' };
  expect(toRange({ from: '2026-01-01', to: '2027-01-01' }, preset).dateTo).toBe('2027-01-01');
});
