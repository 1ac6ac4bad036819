import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { createKeySource, KeyUnavailableError } from '../../src/upstream/keys.js';
import { clientOf, http, JOB, rejectionOf, setUp } from './raw-upstream.js';
import { newFolder } from '../support/folder.js';

let folder: string;
beforeEach(() => void (folder = newFolder()));

/** As a rotation does it: a new file in the old one's place. */
async function replace(name: string, text: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(`${path}.new`, text);
  await rename(`${path}.new`, path);
  return path;
}

describe('the key of a project', () => {
  test('is its own where it has one, else that of the file, else the given one', async () => {
    const adminApiKeyFile = await replace('admin', 'from-file\n');
    const projectKeysFile = await replace('projects', '{"p": "own", "__proto__": "odd"}');
    const both = createKeySource({ adminApiKey: 'given', adminApiKeyFile, projectKeysFile });
    expect(await both.keyFor('p')).toBe('own');
    expect(await both.keyFor('__proto__')).toBe('odd');
    expect(await both.keyFor('constructor')).toBe('from-file');
    expect(await createKeySource({ adminApiKey: 'given', projectKeysFile }).keyFor('q')).toBe('given');
  });

  test('is missed with a message that names the variable and the file, never a value', async () => {
    const missing = join(folder, 'missing');
    const empty = await replace('empty', '\n');
    const broken = await replace('broken', '{"p": "secret-value"');
    const odd = await replace('odd', '{"p": ["secret-value"]}');
    const cases = [
      [{}, 'ADMIN_API_KEY is not set'],
      [{ adminApiKey: 'secret value' }, 'ADMIN_API_KEY holds characters that a header cannot carry'],
      [{ adminApiKeyFile: missing }, `ADMIN_API_KEY_FILE ${missing} cannot be read (ENOENT)`],
      [{ adminApiKeyFile: empty }, `ADMIN_API_KEY_FILE ${empty} is wrong: it is empty`],
      [{ projectKeysFile: broken, adminApiKey: 'k' }, `PROJECT_KEYS_FILE ${broken} is wrong: it is not valid JSON`],
      [{ projectKeysFile: odd, adminApiKey: 'k' }, `PROJECT_KEYS_FILE ${odd} is wrong: project "p": should be a key`],
    ] as const;
    for (const [settings, message] of cases) {
      const rejection = await rejectionOf(createKeySource(settings).keyFor('p'));
      expect(rejection).toBeInstanceOf(KeyUnavailableError);
      expect(rejection.message).toBe(message);
    }
  });

  test('has a version that changes with it and never shows it', async () => {
    const projectKeysFile = await replace('projects', '{"p": "secret-one"}');
    const keys = createKeySource({ projectKeysFile }, { checkEveryMs: 0 });
    const client = clientOf('http://127.0.0.1:1', { keys });
    const first = await client.keyVersion('p');
    expect(first).toMatch(/^[0-9a-f]{16}$/);
    expect(await client.keyVersion('p')).toBe(first);
    expect(await client.keyVersion('q')).toBeNull();
    await replace('projects', '{"p": "secret-two"}');
    expect(await client.keyVersion('p')).toMatch(/^[0-9a-f]{16}$/);
    expect(await client.keyVersion('p')).not.toBe(first);
    await client.close();
  });

  test('is found once a broken file is mended, and holds while it is broken again, which is reported', async () => {
    const path = join(folder, 'projects');
    const problems: (string | null)[] = [];
    const onProblem = (problem: string | null) => problems.push(problem);
    const keys = createKeySource({ projectKeysFile: path }, { checkEveryMs: 1e9, onProblem });
    await rejectionOf(keys.keyFor('p'));
    await replace('projects', '{"p": "here"}');
    expect(await keys.keyFor('p')).toBe('here');
    await replace('projects', '{"p": "here');
    expect(await keys.refresh('p', 'here')).toBeNull();
    expect(await keys.keyFor('p')).toBe('here');
    const hidden = `PROJECT_KEYS_FILE ${path} is wrong: it is not valid JSON; its last good content holds`;
    expect(problems).toEqual([null, hidden]);
  });

  test('follows the file when it changes, and holds while that is empty, as it is just being written', async () => {
    const adminApiKeyFile = await replace('admin', 'old');
    const keys = createKeySource({ adminApiKeyFile }, { checkEveryMs: 0 });
    expect(await keys.keyFor('p')).toBe('old');
    await replace('admin', '');
    expect(await keys.keyFor('p')).toBe('old');
    await replace('admin', 'new');
    expect(await keys.keyFor('p')).toBe('new');
  });
});

type Client = ReturnType<typeof clientOf>;
const WINDOW = { dateFrom: '2026-01-01', dateTo: '2026-01-02', limit: 250, offset: 0 };
const calls: [string, (client: Client) => Promise<unknown>][] = [
  ['create 2xx', (client) => client.createJob({ projectId: 'p', prompt: 'x' })],
  ['get 2xx', (client) => client.getJob({ projectId: 'p', jobId: JOB.id })],
  // The answer is no page.
  ['visitors malformed', (client) => client.getVisitors({ projectId: 'p', ...WINDOW }).catch(() => {})],
];

describe('a 401 or 403', () => {
  async function withOldKey(accepted: string, status: number) {
    const adminApiKeyFile = await replace('admin', 'old-key');
    const { raw, client, classes } = await setUp(
      ({ headers }) =>
        headers['authorization'] === `Bearer ${accepted}`
          ? http(201)
          : http(status, { error: headers['authorization'] }),
      { keys: createKeySource({ adminApiKeyFile }, { checkEveryMs: 1e9 }) },
    );
    // The client has read the old key before it is replaced.
    await client.createJob({ projectId: 'p', prompt: 'x' });
    raw.requests.length = 0;
    classes.length = 0;
    return { raw, client, classes };
  }

  test.each(calls)('repeats the call once where the key is new: %s', async (end, call) => {
    for (const status of [401, 403]) {
      const { raw, client, classes } = await withOldKey('new-key', status);
      await replace('admin', 'new-key');
      await call(client);
      expect(raw.requests.map(({ headers }) => headers['authorization'])).toEqual(['Bearer old-key', 'Bearer new-key']);
      expect(classes).toEqual([`${end.split(' ')[0]} ${status}`, end]);
    }
  });

  test('ends the call if the new key is refused as well', async () => {
    const { raw, client } = await withOldKey('another', 401);
    await replace('admin', 'new-key');
    expect(await client.createJob({ projectId: 'p', prompt: 'x' })).toMatchObject({ kind: 'unauthorized' });
    expect(raw.requests).toHaveLength(2);
  });

  test('of 401 says that a write’s key is refused if the key is the same', async () => {
    const { raw, client } = await withOldKey('new-key', 401);
    const outcome = await client.createJob({ projectId: 'p', prompt: 'x' });
    expect(outcome).toEqual({ kind: 'unauthorized', reason: 'upstream answered 401' });
    const read = await rejectionOf(client.getJob({ projectId: 'p', jobId: 'j' }));
    expect(read).toMatchObject({ name: 'ReadFailedError', status: 401 });
    expect(raw.requests).toHaveLength(2);
  });
});

test('calls whose key is refused or missing are told, reads too, and each call with its time', async () => {
  const ended: string[] = [];
  const onCall = (operation: string, seconds: number, wasRefused: boolean) => {
    expect(seconds).toBeGreaterThan(0);
    ended.push(`${operation}${wasRefused ? ' refused' : ''}`);
  };
  const html = { 'content-type': 'text/html' };
  const answers = [http(401), http(403), http(403, '<html>', html), http(404), http(500), http(200)];
  const endsOf = async (call: (client: Client) => Promise<unknown>) => {
    for (const answer of answers) {
      const { client } = await setUp(() => answer, { onCall });
      await call(client).catch(() => {});
    }
    const lacking = clientOf('http://127.0.0.1:1', { onCall, keys: createKeySource({}) });
    await call(lacking).catch(() => {});
    return ended.splice(0).map((end) => end.replace(/^\w+ ?/, ''));
  };
  for (const [, call] of calls) {
    expect(await endsOf(call)).toEqual(['refused', 'refused', '', '', '', '', 'refused']);
  }
});
