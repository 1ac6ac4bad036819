import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MAX_RETRY_AFTER_MS } from '../../src/contract.js';
import { parseRetryAfter } from '../../src/upstream/outcome.js';

const NOW = Date.UTC(2026, 0, 1, 12);

test('takes seconds and HTTP dates', () => {
  expect(parseRetryAfter('120', null, NOW)).toBe(120_000);
  expect(parseRetryAfter(' 0 ', null, NOW)).toBe(0);
  expect(parseRetryAfter('12 ', null, NOW)).toBe(12_000);
  expect(parseRetryAfter('Thu, 01 Jan 2026 12:00:30 GMT', null, NOW)).toBe(30_000);
  expect(parseRetryAfter('Thursday, 01-Jan-26 12:00:30 GMT', null, NOW)).toBe(30_000);
});

test('cuts what is longer than an hour, and a date in the past is no wait', () => {
  expect(parseRetryAfter('999999999999999999999999', null, NOW)).toBe(MAX_RETRY_AFTER_MS);
  expect(parseRetryAfter('9'.repeat(400), null, NOW)).toBe(MAX_RETRY_AFTER_MS);
  expect(parseRetryAfter('Fri, 01 Jan 2027 12:00:00 GMT', null, NOW)).toBe(MAX_RETRY_AFTER_MS);
  expect(parseRetryAfter('Thu, 01 Jan 2026 11:00:00 GMT', null, NOW)).toBe(0);
});

test('counts a date from the answer’s own, where that is a valid one', () => {
  const at = (date: string) => parseRetryAfter('Thu, 01 Jan 2026 12:00:30 GMT', date, NOW - 7_200_000);
  expect(at('Thu, 01 Jan 2026 12:00:10 GMT')).toBe(20_000);
  for (const odd of ['', 'now', '2026-01-01T12:00:00Z', 'Thu, 99 Foo 2026']) expect(at(odd)).toBe(3_600_000);
  expect(parseRetryAfter('5', 'Thu, 01 Jan 2026 12:00:10 GMT', NOW)).toBe(5_000);
});

test('garbage says nothing', () => {
  for (const text of [null, '', 'soon', '-1', '+5', '1.5', '0x10', '1e3', '2026-01-01', 'Thu, 99 Foo 2026']) {
    expect(parseRetryAfter(text, null, NOW), String(text)).toBeUndefined();
  }
});

test('any text gives nothing or a wait from 0 to one hour', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const waitMs = parseRetryAfter(text, null, NOW);
      expect(waitMs === undefined || (waitMs >= 0 && waitMs <= MAX_RETRY_AFTER_MS)).toBe(true);
    }),
  );
});
