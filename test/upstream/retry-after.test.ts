import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MAX_RETRY_AFTER_MS } from '../../src/contract.js';
import { retryAfterOf } from '../../src/upstream/retry-after.js';
import { http, rejectionOf, setUp } from './raw-upstream.js';

const NOW = Date.UTC(2026, 0, 1, 12);
const UNIX_S = NOW / 1_000;

const retryAfter = (header: string | string[], date?: string) =>
  retryAfterOf({ 'retry-after': header, date }, true, NOW);

test('takes seconds and HTTP dates', () => {
  expect(retryAfter('120')).toBe(120_000);
  expect(retryAfter(' 0 ')).toBe(0);
  expect(retryAfter('12 ')).toBe(12_000);
  expect(retryAfter('Thu, 01 Jan 2026 12:00:30 GMT')).toBe(30_000);
  expect(retryAfter('Thursday, 01-Jan-26 12:00:30 GMT')).toBe(30_000);
});

test('takes a fraction of a second for a whole one', () => {
  expect(retryAfter('299.997')).toBe(300_000);
  expect(retryAfter('0.001')).toBe(1_000);
  expect(retryAfter('30.0')).toBe(30_000);
});

test('takes the first of a list, and of a header that came twice', () => {
  expect(retryAfter('30, 60')).toBe(30_000);
  expect(retryAfter('30;w=60')).toBe(30_000);
  expect(retryAfter(['30', '60'])).toBe(30_000);
  expect(retryAfter('Thu, 01 Jan 2026 12:00:30 GMT, Thu, 01 Jan 2026 12:01:00 GMT')).toBe(30_000);
  expect(retryAfterOf({ 'retry-after': '30', date: ['x', 'y'] }, true, NOW)).toBe(30_000);
});

test('takes what is over a year for a Unix time, in seconds or milliseconds, by the answer’s own clock', () => {
  const date = 'Thu, 01 Jan 2026 10:00:00 GMT';
  for (const unix of [UNIX_S, UNIX_S * 1_000]) {
    expect(retryAfter(String(unix))).toBe(0);
    const ahead = unix + (unix === UNIX_S ? 30 : 30_000);
    expect(retryAfter(String(ahead))).toBe(30_000);
    expect(retryAfter(String(ahead - (unix === UNIX_S ? 7_200 : 7_200_000)), date)).toBe(30_000);
  }
  expect(retryAfter(`${UNIX_S + 29}.5`)).toBe(30_000);
  expect(retryAfter(`${NOW + 29_999}.5`)).toBe(30_000);
  expect(retryAfter('1')).toBe(1_000);
  expect(retryAfter(String(400 * 86_400))).toBe(0);
});

test('cuts what is longer than an hour, and a date in the past is no wait', () => {
  expect(retryAfter('86400')).toBe(MAX_RETRY_AFTER_MS);
  expect(retryAfter('999999999999999999999999')).toBe(MAX_RETRY_AFTER_MS);
  expect(retryAfter('9'.repeat(400))).toBe(MAX_RETRY_AFTER_MS);
  expect(retryAfter('Fri, 01 Jan 2027 12:00:00 GMT')).toBe(MAX_RETRY_AFTER_MS);
  expect(retryAfter('Thu, 01 Jan 2026 11:00:00 GMT')).toBe(0);
});

test('counts a date from the answer’s own, where that is a valid one', () => {
  const at = (date: string) =>
    retryAfterOf({ 'retry-after': 'Thu, 01 Jan 2026 12:00:30 GMT', date }, true, NOW - 7_200_000);
  expect(at('Thu, 01 Jan 2026 12:00:10 GMT')).toBe(20_000);
  for (const odd of ['', 'now', '2026-01-01T12:00:00Z', 'Thu, 99 Foo 2026']) expect(at(odd)).toBe(3_600_000);
  expect(retryAfter('5', 'Thu, 01 Jan 2026 12:00:10 GMT')).toBe(5_000);
});

test('a throttled answer without it has the reset of its rate limit, by the same rules', () => {
  const of = (headers: Record<string, string>, isThrottled = true) => retryAfterOf(headers, isThrottled, NOW);
  expect(of({ 'ratelimit-reset': '30' })).toBe(30_000);
  expect(of({ 'x-ratelimit-reset': String(UNIX_S + 30) })).toBe(30_000);
  expect(of({ 'ratelimit-reset': '20', 'x-ratelimit-reset': '10' })).toBe(20_000);
  expect(of({ 'retry-after': '5', 'ratelimit-reset': '30' })).toBe(5_000);
  expect(of({ 'retry-after': 'soon', 'ratelimit-reset': '30' })).toBe(30_000);
  // Many interfaces give the end of a window with each answer, whatever it is.
  expect(of({ 'x-ratelimit-reset': String(UNIX_S + 30) }, false)).toBeUndefined();
});

test('garbage says nothing', () => {
  const garbage = ['', 'soon', '-1', '-5', '+5', '1.', '.5', '1.5.5', '0x10', '1e3', '1e309', '2026-01-01', 'NaN'];
  for (const text of [...garbage, 'Infinity', 'Thu, 99 Foo 2026', '٣', '5 minutes', ', 5'])
    expect(retryAfter(text), text).toBeUndefined();
  expect(retryAfterOf({}, true, NOW)).toBeUndefined();
});

test('any text gives nothing or a whole wait from 0 to one hour', () => {
  const number = fc.double({ noNaN: true, min: 0 }).map(String);
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary' }), number), (text) => {
      const waitMs = retryAfter(text);
      const isInRange = waitMs !== undefined && waitMs >= 0 && waitMs <= MAX_RETRY_AFTER_MS;
      expect(waitMs === undefined || (isInRange && Number.isInteger(waitMs))).toBe(true);
    }),
  );
});

test.each([
  ['a fraction', '\r\nretry-after: 299.997', 300_000],
  ['a list', '\r\nretry-after: 30, 30', 30_000],
  ['two headers', '\r\nretry-after: 30\r\nRetry-After: 60', 30_000],
  ['a reset alone', '\r\nratelimit-reset: 30', 30_000],
])('write and reads that are throttled wait as %s says', async (_, headers, retryAfterMs) => {
  const { client } = await setUp(() => http(429, '').replace('\r\n', `${headers}\r\n`));
  const ids = { projectId: 'p', jobId: 'j' };
  const throttled = { kind: 'throttled', reason: 'upstream answered 429', retryAfterMs };
  expect(await client.createJob({ ...ids, prompt: 'x' })).toEqual(throttled);
  expect(await client.sendMessage({ ...ids, prompt: 'x' })).toEqual(throttled);
  const window = { projectId: 'p', dateFrom: '2026-01-01', dateTo: '2026-01-02', limit: 250, offset: 0 };
  for (const read of [client.getJob(ids), client.getVisitors(window)])
    expect(await rejectionOf(read)).toMatchObject({ status: 429, retryAfterMs });
});
