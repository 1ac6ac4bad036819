/** What answers in the upstream's place, with a page or a redirect, and what it means to each call. */
import { describe, expect, test } from 'vitest';
import type { UpstreamSettings } from '../../src/upstream/client.js';
import { clientOf, compressed, http, JOB, KEY, RawUpstream, rejectionOf, setUp } from './raw-upstream.js';

/** Each second character percent-encoded. */
const encoded = (text: string) => Array.from(text, (c, i) => (i % 2 ? `%${c.charCodeAt(0).toString(16)}` : c)).join('');

type Client = ReturnType<typeof clientOf>;

const IDS = { projectId: 'p', jobId: 'j' };
const WRITES = {
  create: (client: Client) => client.createJob({ ...IDS, prompt: 'do it' }),
  message: (client: Client) => client.sendMessage({ ...IDS, prompt: 'do it' }),
};
const READS = {
  get: (client: Client) => client.getJob(IDS),
  visitors: (client: Client) =>
    client.getVisitors({ projectId: 'p', dateFrom: '2026-01-01', dateTo: '2026-01-02', limit: 250, offset: 0 }),
};
const CHALLENGE = '<!DOCTYPE html><html><head><title>Just a moment…</title></head><body>Wait</body></html>';
const page = (status: number, headers: object = { 'content-type': 'text/html' }, body: unknown = CHALLENGE) =>
  http(status, body, headers as Record<string, string>);

/** What becomes of each kind of call that is answered so, and its class. */
async function outcomes(answer: string | Buffer, settings: Partial<UpstreamSettings> = {}) {
  const { raw, client, classes } = await setUp((_, socket) => void socket.write(answer), settings);
  const writes = await Promise.all(Object.values(WRITES).map((write) => write(client)));
  const reads = await Promise.all(Object.values(READS).map((read) => rejectionOf(read(client))));
  return { raw, classes: classes.sort(), writes, reads };
}

describe('a page in place of an answer', () => {
  test.each([
    ['401', page(401)],
    ['403 with a charset', page(403, { 'content-type': 'Text/HTML; charset=UTF-8' })],
    ['403 with its type twice', page(403, { 'content-type': 'text/html, text/html' })],
    ['404', page(404)],
    ['404 as plain text', page(404, { 'content-type': 'text/plain' })],
    ['407', page(407)],
    ['401 of a challenge', page(401, { 'cf-mitigated': 'challenge' })],
    ['403 of a challenge, as JSON', page(403, { 'cf-mitigated': 'challenge', 'content-type': 'application/json' })],
    ['404 of a challenge', page(404, { 'cf-mitigated': '' })],
    [
      '403 that is compressed',
      compressed(403, CHALLENGE).toString('latin1').replace('X\r\n', 'X\r\ncontent-type: text/html\r\n'),
    ],
  ])('says nothing of key, job or prompt: %s', async (what, answer) => {
    const status = Number(what.slice(0, 3));
    const { raw, classes, writes, reads } = await outcomes(
      Buffer.from(answer, what.includes('compressed') ? 'latin1' : 'utf8'),
    );
    const reason = `a page instead of an answer: ${status}`;
    const text = ' Just a moment…';
    expect(writes).toEqual([
      { kind: 'blocked', reason, text },
      { kind: 'blocked', reason, text },
    ]);
    for (const read of reads) {
      expect(read).toMatchObject({ name: 'ReadFailedError', status, isPage: true, reason: `${reason}${text}` });
    }
    expect(raw.requests).toHaveLength(4);
    expect(classes).toEqual(['create malformed', 'get malformed', 'message malformed', 'visitors malformed']);
  });

  test.each([
    ['403 as JSON', page(403, { 'content-type': 'application/json' }, { error: 'no scope' }), 'unauthorized'],
    ['403 as a problem', page(403, { 'content-type': 'application/problem+json' }, '{}'), 'unauthorized'],
    ['403 without a type', page(403, {}), 'unauthorized'],
    ['401 without anything', page(401, {}, ''), 'unauthorized'],
    ['401 as plain text', page(401, { 'content-type': 'text/plain' }, 'no key'), 'unauthorized'],
    ['403 as HTML that is empty', page(403, undefined, ' \r\n'), 'unauthorized'],
    ['401 as HTML that is JSON', page(401, undefined, { error: 'expired' }), 'unauthorized'],
    ['404 as plain text that is JSON', page(404, { 'content-type': 'text/plain' }, ' [{}]'), 'rejected'],
    ['404 without a type', page(404, {}), 'rejected'],
    ['407 as JSON', page(407, { 'content-type': 'application/json' }, '{}'), 'rejected'],
    ['400 as a page', page(400), 'rejected'],
    ['429 as a page', page(429), 'throttled'],
    ['500 as a page', page(500), 'inDoubt'],
  ])('is none of these: %s', async (_, answer, kind) => {
    const { writes, reads } = await outcomes(answer);
    expect(writes.map((outcome) => outcome.kind)).toEqual([kind, kind]);
    for (const read of reads) expect(read['isPage'] ?? false).toBe(false);
  });

  test.each([
    [
      'the text without its tags',
      '<html><style>b{}</style><body>\n<h1>403 Forbidden</h1>\n<hr>nginx',
      ' 403 Forbidden',
    ],
    ['the first line of a text', '\n\n default backend - 404\nbye', ' default backend - 404'],
    ['at most 60 characters', `<title>${'é'.repeat(100)}</title>`, ` ${'é'.repeat(60)}`],
    ['no control character', '<title>a\u0000b\u202e\r\n c</title>', ' a b c'],
    ['entities as they came', '<title>a &amp; b&#7;</title>', ' a &amp; b&#7;'],
    ['nothing of one without words', '<html><title> </title></html>', ''],
    ['no key', `<title>key ${KEY} is wrong</title>`, ' key *** is wrong'],
    ['no half of a key', `<title>${'x'.repeat(50)} ${KEY}</title>`, ` ${'x'.repeat(50)} ***`],
    ['nothing that is far behind', `${' '.repeat(100_000)}<title>late</title>`, ''],
  ])('shows %s', async (_, body, text) => {
    const { client } = await setUp(() => page(404, { 'content-type': 'text/html' }, body));
    expect(await WRITES.create(client)).toMatchObject({ kind: 'blocked', text });
  });

  test('of 8 MB is shown at once, however its tags are', async () => {
    for (const text of ['<title', '<script', '<', 'x']) {
      const { client } = await setUp(() => page(403, undefined, text.repeat((8 * 1024 * 1024) / text.length - 1)));
      const rejection = await rejectionOf(READS.visitors(client));
      expect(rejection).toMatchObject({
        isPage: true,
        reason: expect.stringMatching(/^a page instead of an answer: 403/),
      });
      expect((rejection['reason'] as string).length).toBeLessThan(100);
    }
  });

  test('that breaks off shows nothing of itself, for it may end within an echo of the key', async () => {
    const half = `HTTP/1.1 403 X\r\ncontent-type: text/html\r\ncontent-length: 99\r\n\r\n<title>${KEY.slice(0, -4)}`;
    const { client } = await setUp((_, socket) => void socket.end(half));
    const reason = 'a page instead of an answer: 403';
    expect(await WRITES.create(client)).toEqual({ kind: 'blocked', reason, text: '' });
    expect(await rejectionOf(READS.get(client))).toMatchObject({ isPage: true, reason });
  });

  test('that breaks off before its body is one, by its type', async () => {
    const head = 'HTTP/1.1 403 X\r\ncontent-type: text/html\r\ncontent-length: 99\r\n\r\n';
    const { client } = await setUp((_, socket) => void socket.end(head));
    expect(await WRITES.create(client)).toMatchObject({ kind: 'blocked', text: '' });
  });

  test('that comes before the last byte means the same', async () => {
    const { create } = await early(page(403));
    expect(create).toMatchObject({ kind: 'blocked', text: ' Just a moment…' });
  });

  test('is not followed by a request with another key', async () => {
    const keys = { keyFor: () => Promise.resolve('old'), refresh: () => Promise.resolve('new') };
    const { raw } = await outcomes(page(401), { keys });
    expect(raw.requests).toHaveLength(4);
  });
});

/** What becomes of writes that are answered before their last byte. */
async function early(answer: string) {
  const raw = await RawUpstream.answeringEarly(answer);
  const client = clientOf(raw.url);
  return { create: await WRITES.create(client), message: await WRITES.message(client) };
}

const to = (status: number, location?: string) => http(status, '', location === undefined ? {} : { location });

describe('a redirect of a write', () => {
  test.each([
    ['307', to(307, '/elsewhere'), / to http:\/\/127\.0\.0\.1:\d+\/elsewhere$/],
    ['308', to(308), /$/],
    [
      '302 to a sign-in page',
      to(302, 'https://login.example:8443/sso?return=secret#x'),
      / to https:\/\/login\.example:8443\/sso$/,
    ],
    ['301 to another host', to(301, '//other.example/a%20b/%C3%A9'), / to http:\/\/other\.example\/a%20b\/%C3%A9$/],
    ['302 to https of the same host', to(302, 'https://127.0.0.1/'), / to https:\/\/127\.0\.0\.1\/$/],
    ['302 with credentials', to(302, 'http://user:secret@127.0.0.2/x'), / to http:\/\/127\.0\.0\.2\/x$/],
    ['302 with a long path', to(302, `//b.example/${'x'.repeat(10_000)}`), / to http:\/\/b\.example\/x{200,300}…$/],
    ['302 with the key', to(302, `//b.example/${KEY}/x`), / to http:\/\/b\.example\/\*\*\*\/x$/],
    ['302 with the key encoded', to(302, `//b.example/${encoded(KEY)}`), / to http:\/\/b\.example\/\*\*\*$/],
  ])('was surely not taken: %s', async (what, answer, target) => {
    const { raw, classes, writes, reads } = await outcomes(answer);
    for (const outcome of writes) {
      expect(outcome).toEqual({ kind: 'blocked', reason: expect.stringMatching(target) });
      const { reason } = outcome as { reason: string };
      expect(reason).toMatch(/^a redirect instead of an answer: 30\d/);
      expect(reason).not.toMatch(/secret|user/);
    }
    for (const read of reads) {
      expect(read).toMatchObject({ name: 'ReadFailedError', status: Number(what.slice(0, 3)), isPage: false });
      expect(read['reason']).toMatch(target);
    }
    expect(raw.requests).toHaveLength(4);
    expect(classes).toEqual(['create 3xx', 'get 3xx', 'message 3xx', 'visitors 3xx']);
  });

  test.each([
    ['302 to the same origin', to(302, '/login')],
    ['301 to the same origin', to(301, '/v3/agent/p/job')],
    ['302 without an address', to(302)],
    ['302 with an address that can not be read', to(302, 'http://[x')],
    ['302 with an address of no web', to(302, 'mailto:a@b.example')],
    ['302 to two addresses', to(302, '//b.example/').replace('\r\n', '\r\nlocation: //c.example/\r\n')],
    ['303 to another origin', to(303, '//b.example/')],
    ['300', to(300, '//b.example/')],
    ['304', to(304)],
  ])('may have been taken, and is not sent again by itself: %s', async (what, answer) => {
    const { raw, writes } = await outcomes(answer);
    const inDoubt = { kind: 'inDoubt', asksBeforeRetry: true, reason: `upstream answered ${what.slice(0, 3)}` };
    expect(writes).toMatchObject([inDoubt, inDoubt]);
    expect(raw.requests).toHaveLength(4);
  });

  test('that may have been taken shows where it points to', async () => {
    const { raw, writes } = await outcomes(to(302, '/job/7?a=b'));
    expect(writes[0]).toHaveProperty('text', `; Location: ${raw.url}/job/7`);
  });

  test.each([300, 301, 302, 303, 304, 307, 308])(
    'that comes before its last byte was not taken: %i',
    async (status) => {
      const { create, message } = await early(to(status, '/login'));
      for (const outcome of [create, message]) {
        expect(outcome).toMatchObject({
          kind: 'blocked',
          reason: expect.stringMatching(`^a redirect instead of an answer: ${status} to http:.*/login$`),
        });
      }
    },
  );
});

test('a message that is answered 303 with the address of its job is in doubt: which message is not said', async () => {
  const { client } = await setUp(() => to(303, '/v2/agent/p/job/j'));
  expect(await WRITES.message(client)).toMatchObject({ kind: 'inDoubt', asksBeforeRetry: true });
});

test('no answer of the upstream’s own is a page', async () => {
  const { client } = await setUp(() => http(201, JOB, { 'content-type': 'text/html' }));
  expect(await WRITES.create(client)).toMatchObject({ kind: 'accepted' });
});
