import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { UpstreamSettings } from '../../src/upstream/client.js';
import { ReadFailedError, RejectedError } from '../../src/upstream/errors.js';
import { createKeySource } from '../../src/upstream/keys.js';
import { type Answer, compressed, COMPRESSIONS, http, JOB, rejectionOf, until } from './raw-upstream.js';
import { setUp as setUpUpstream } from './raw-upstream.js';

const JOB_ID = 'j 1';
const RECORD = { ...JOB, id: JOB_ID };

async function setUp(serve: Answer, settings: Partial<UpstreamSettings> = {}) {
  const { raw, client, classes } = await setUpUpstream(serve, settings);
  return {
    raw,
    classes,
    getJob: (signal?: AbortSignal) => client.getJob({ projectId: 'p', jobId: JOB_ID }, signal && { signal }),
    getVisitors: () =>
      client.getVisitors({ projectId: 'p', dateFrom: '2026-01-01', dateTo: '2026-01-02', limit: 250, offset: 500 }),
  };
}

const COUNTS = { human: 1, ai: 2.5, total: 3 };

function page(changes: object = {}) {
  return { totals: COUNTS, visitors: [{ path: '/a', ...COUNTS }], hasMore: false, ...changes };
}

describe('reading a job', () => {
  test('asks for it by its percent-encoded id and returns its record', async () => {
    const { raw, getJob, classes } = await setUp(() => http(200, RECORD));
    expect(await getJob()).toMatchObject({ job: RECORD });
    expect(raw.requests[0]).toMatchObject({ line: 'GET /v2/agent/p/job/j%201 HTTP/1.1', body: '' });
    expect(classes).toEqual(['get 2xx']);
  });

  test('a 404 is a rejection', async () => {
    const { getJob } = await setUp(() => http(404, { error: 'no such job' }));
    const rejection = await rejectionOf(getJob());
    expect(rejection).toBeInstanceOf(RejectedError);
    expect(rejection).toMatchObject({ status: 404, error: 'no such job', reason: 'upstream answered 404' });
  });

  test.each([400, 401, 403, 408, 429, 500, 503])('a %i is a failed read with its wait', async (status) => {
    const { getJob, raw } = await setUp(() => http(status, '', { 'retry-after': '9' }));
    const rejection = await rejectionOf(getJob());
    expect(rejection).toBeInstanceOf(ReadFailedError);
    expect(rejection).toMatchObject({ status, retryAfterMs: 9_000, reason: `upstream answered ${status}` });
    expect(rejection.message).toBe(`upstream answered ${status} (get, project p, job j 1)`);
    expect(raw.requests).toHaveLength(1);
  });

  test.each([201, 205, 299])('a %i with a record is read', async (status) => {
    const { getJob, classes } = await setUp(() => http(status, RECORD));
    expect(await getJob()).toMatchObject({ job: RECORD });
    expect(classes).toEqual(['get 2xx']);
  });

  test.each(Object.keys(COMPRESSIONS))('a record in %s, though nothing asked for it, is read', async (how) => {
    const { getJob } = await setUp((_, socket) => void socket.write(compressed(200, RECORD, how)));
    expect(await getJob()).toMatchObject({ job: RECORD });
  });

  const broken: [string, Answer, string][] = [
    ['no status', () => http(200, { id: 'j' }), 'answer is not an agent job: status is missing'],
    [
      'a status that is no text',
      () => http(200, { id: 'j', status: 1 }),
      'answer is not an agent job: status is not a string',
    ],
    ['an empty status', () => http(200, { id: 'j', status: '' }), 'answer is not an agent job: status is empty'],
    ['the record of another job', () => http(200, JOB), 'answer is not an agent job: it is that of another job'],
    ['null', () => http(200, 'null'), 'answer is not an agent job: it is not a JSON object'],
    ['nothing', () => http(200, ''), 'answer is not an agent job: it is empty'],
    ['half a JSON', () => http(200, '{"id"'), 'answer is not an agent job: it is not JSON'],
    [
      'an unknown compression',
      (_, socket) => void socket.write(compressed(200, RECORD, 'zstd', COMPRESSIONS['gzip']!('{}'))),
      'answer is not an agent job: it is not UTF-8',
    ],
    [
      'too much once it is decoded',
      (_, socket) => void socket.write(compressed(200, 'x'.repeat(2 ** 26))),
      'answer is over 256 KiB',
    ],
    ['too much', () => http(200, 'x'.repeat(300_000)), 'answer is over 256 KiB'],
    [
      'a huge record',
      () => http(200, { ...JOB, model: 'x'.repeat(70_000) }),
      'answer is not an agent job: it is over 64 KiB',
    ],
    ['a close', (_, socket) => void socket.end(), 'connection was lost (UND_ERR_SOCKET)'],
    ['no HTTP', () => 'hello\r\n\r\n', 'answer is not valid HTTP (HTTPParserError)'],
  ];

  test.each(broken)('%s is a failed read that says so', async (_, serve, reason) => {
    const { getJob } = await setUp(serve);
    const rejection = await rejectionOf(getJob());
    expect(rejection).toBeInstanceOf(ReadFailedError);
    expect(rejection['reason']).toBe(reason);
  });

  test('silence ends at the time limit', async () => {
    const { getJob, classes, raw } = await setUp(() => {}, { timeoutMs: 3_000 });
    expect(await rejectionOf(getJob())).toMatchObject({ name: 'ReadFailedError', reason: 'no answer within 3 s' });
    expect(classes).toEqual(['get timeout']);
    await until(() => raw.openConnections === 0);
  });

  test("ends with the caller's own abort", async () => {
    const { getJob, raw, classes } = await setUp(() => {});
    const stop = new AbortController();
    const rejected = rejectionOf(getJob(stop.signal));
    await until(() => raw.requests.length === 1);
    stop.abort();
    expect((await rejected).name).toBe('AbortError');
    expect((await rejectionOf(getJob(stop.signal))).name).toBe('AbortError');
    expect(classes).toEqual(['get aborted']);
    expect(raw.requests).toHaveLength(1);
  });

  test('ends with an abort at once, also where no key can be had', async () => {
    const { getJob, raw } = await setUp(() => {}, { keys: createKeySource({}) });
    const stop = new AbortController();
    const rejected = rejectionOf(getJob(stop.signal));
    stop.abort();
    expect((await rejected).name).toBe('AbortError');
    await setImmediate(); // An unhandled rejection would fail the run by now.
    expect(raw.requests).toEqual([]);
  });

  test.each([401, 404, 500])("ends with the caller's own abort within the body of a %i", async (status) => {
    const head = `HTTP/1.1 ${status} X\r\ncontent-length: 9\r\n\r\n`;
    const stop = new AbortController();
    const { getJob, classes } = await setUp((_, socket) => {
      const abortLater = async () => {
        for (let polls = 0; polls < 10; polls++) await setImmediate(); // the client reads the head in one of them
        stop.abort();
      };
      socket.write(head, () => void abortLater());
    });
    expect((await rejectionOf(getJob(stop.signal))).name).toBe('AbortError');
    expect(classes).toEqual([`get ${{ 401: '401', 404: '4xx', 500: '5xx' }[status]}`]);
  });
});

describe('reading visitors', () => {
  test('asks with the window and the offset and returns the page without unknown fields', async () => {
    const { raw, getVisitors } = await setUp(() =>
      http(200, page({ more: 1, visitors: [{ path: '/a', ...COUNTS, x: 1 }] })),
    );
    expect(await getVisitors()).toEqual(page());
    expect(raw.requests[0]!.line).toBe(
      'GET /v1/analytics/p/visitors?dateFrom=2026-01-01&dateTo=2026-01-02&limit=250&offset=500 HTTP/1.1',
    );
  });

  test('counts that come as strings of whole numbers are read', async () => {
    const counts = { human: '1', ai: '0', total: '9007199254740991' };
    const { getVisitors } = await setUp(() =>
      http(200, page({ totals: counts, visitors: [{ path: '/a', ...counts }] })),
    );
    const read = { human: 1, ai: 0, total: Number.MAX_SAFE_INTEGER };
    expect(await getVisitors()).toMatchObject({ totals: read, visitors: [{ path: '/a', ...read }] });
  });

  test.each([400, 401, 403, 404])('a %i is a rejection, details included', async (status) => {
    const { getVisitors } = await setUp(() => http(status, { error: 'bad', details: [{ message: 'dateFrom' }, null] }));
    const rejection = await rejectionOf(getVisitors());
    expect(rejection).toBeInstanceOf(RejectedError);
    expect(rejection).toMatchObject({ status, error: 'bad; dateFrom' });
  });

  test.each([302, 408, 429, 500])('a %i is a failed read', async (status) => {
    const { getVisitors } = await setUp(() => http(status, ''));
    expect(await rejectionOf(getVisitors())).toBeInstanceOf(ReadFailedError);
  });

  const good = { path: '/b', ...COUNTS };
  const withRow = (row: unknown) => page({ visitors: [good, row] });
  test.each([
    ['human', 'is not a number', { ...good, human: null }],
    ['ai', 'is below 0', { ...good, ai: -1 }],
    ['total', 'is not a number', { ...good, total: '1,234' }],
    ['total', 'is over 2^53 - 1', { ...good, total: '9007199254740993' }],
    ['total', 'is over 2^53 - 1', { ...good, total: 2 ** 53 }],
    ['ai', 'is not a number', { path: '/b', human: 1, total: 1 }],
    ['path', 'is not a text', { ...COUNTS, path: null }],
    ['row', 'is not an object', null],
  ])('a row whose %s %s is told apart, and the others are read', async (field, fault, row) => {
    const { getVisitors } = await setUp(() => http(200, withRow(row)));
    expect((await getVisitors()).visitors).toEqual([good, { malformed: row, field, fault }]);
  });

  test('a text with a fraction is a number', async () => {
    const { getVisitors } = await setUp(() => http(200, withRow({ ...good, human: '3.0', ai: '2.5' })));
    expect((await getVisitors()).visitors[1]).toMatchObject({ human: 3, ai: 2.5 });
  });

  const none = { human: 0, ai: 0, total: 0 };
  test.each([
    ['visitors: null as no rows', { visitors: null, totals: none }, { visitors: [], totals: none }],
    ['totals: null as 0', { visitors: [], totals: null }, { visitors: [], totals: none }],
    ['hasMore: null as the last page', { hasMore: null }, { hasMore: false }],
    ['hasMore: undefined as the last page', { hasMore: undefined }, { hasMore: false }],
  ])('%s is read as what it must mean, and told', async (told, given, read) => {
    const { getVisitors } = await setUp(() => http(200, page(given)));
    expect(await getVisitors()).toMatchObject({ ...read, readAs: [told] });
  });

  const odd = (count: number, of: number) =>
    page({ visitors: Array.from({ length: of }, (_, i) => (i < count ? { ...good, path: i } : good)) });
  test('five malformed rows of a page, or one in twenty, are left to the scan', async () => {
    for (const [count, of] of [
      [5, 6],
      [12, 250],
    ] as const) {
      const { getVisitors } = await setUp(() => http(200, odd(count, of)));
      expect((await getVisitors()).visitors.filter((row) => 'malformed' in row)).toHaveLength(count);
    }
  });

  test.each([
    [
      'more malformed rows',
      odd(13, 250),
      'more than 12 of 250 rows are malformed, first visitors.0: path is not a text',
    ],
    ['an infinite number', JSON.stringify(page({})).replace('"ai":2.5', '"ai":1e999'), 'totals.ai is not a number'],
    ['NaN', JSON.stringify(page({})).replace('"ai":2.5', '"ai":NaN'), 'it is not JSON'],
    ['no rows', page({ visitors: undefined }), 'visitors is not a list'],
    ['no totals', page({ totals: undefined }), 'totals is not an object'],
    ['a list that is null', page({ visitors: null }), 'visitors is null, and totals is not 0'],
    ['totals that are null', page({ totals: null }), 'totals is null, and there are rows'],
    ['another hasMore', page({ hasMore: 'yes' }), 'hasMore is not a boolean'],
    [
      'no hasMore in a full page',
      page({ visitors: Array.from({ length: 250 }, () => good), hasMore: undefined }),
      'hasMore is undefined, and the page is full',
    ],
  ])('%s makes the page malformed', async (_, answer, fault) => {
    const { getVisitors, classes } = await setUp(() => http(200, answer));
    const rejection = await rejectionOf(getVisitors());
    expect(rejection).toBeInstanceOf(ReadFailedError);
    expect(rejection['reason']).toBe(`answer is not a visitor page: ${fault}`);
    expect(classes).toEqual(['visitors malformed']);
  });

  test('a page of two million wrong rows is refused by the first part of them', async () => {
    const { getVisitors } = await setUp(() =>
      http(200, page({ visitors: Array.from({ length: 2_000_000 }, () => 0) })),
    );
    expect((await rejectionOf(getVisitors()))['reason']).toMatch(/more than 100000 of 2000000 rows are malformed/);
  });
});
