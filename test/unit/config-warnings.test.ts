import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { payloadKeysWarnings, readUpstreamConfig, upstreamWarnings } from '../../src/config.js';

const folder = mkdtempSync(join(tmpdir(), 'config-warnings-'));
afterAll(() => rmSync(folder, { recursive: true }));

const minimal = { UPSTREAM_BASE_URL: 'https://api.example.com', ADMIN_API_KEY: 'the-key' };
const warn = (env: Record<string, string>) => upstreamWarnings(readUpstreamConfig({ ...minimal, ...env }));

test('an upstream without TLS is warned about, unless it is on this machine', () => {
  for (const url of [
    'http://api.example.com',
    'http://10.0.0.1:8080',
    'http://127.evil.example',
    'http://sandbox:8080',
  ]) {
    expect(warn({ UPSTREAM_BASE_URL: url })).toEqual([expect.stringMatching(/^UPSTREAM_BASE_URL is http/)]);
  }
  for (const url of [
    'https://api.example.com',
    'http://127.0.0.1:1',
    'http://127.1:1',
    'http://localhost:1',
    'http://[::1]:1',
  ]) {
    expect(warn({ UPSTREAM_BASE_URL: url })).toEqual([]);
  }
});

test.each(['proxy.corp:3128', 'user:proxy-secret@proxy', 'https://proxy.corp', '10.0.0.1:3128'])(
  'a proxy at %s is taken, and one without a scheme is http',
  (text) => {
    const { proxy } = readUpstreamConfig({ ...minimal, HTTPS_PROXY: text, HTTP_PROXY: text });
    const url = text.startsWith('https:') ? text : `http://${text}`;
    expect(proxy).toEqual({ httpsProxy: url, httpProxy: url });
    expect(warn({ HTTPS_PROXY: text })).toEqual([]);
  },
);

test.each(['socks5://proxy-secret:1080', 'http://proxy-secret:port', 'http://proxy-secret:%zz@proxy', 'http://'])(
  'a proxy that cannot be used (%s) is warned about, and left out',
  (text) => {
    expect(readUpstreamConfig({ ...minimal, HTTPS_PROXY: text }).proxy).toEqual({});
    expect(warn({ HTTPS_PROXY: text, http_proxy: text })).toEqual([
      expect.stringMatching(/^HTTPS_PROXY is not used: it should be the http or https address of a proxy/),
      expect.stringMatching(/^HTTP_PROXY is not used/),
    ]);
    expect(warn({ HTTPS_PROXY: text }).join()).not.toContain('secret');
  },
);

test('a key file that every user can read is warned about, and the warning holds no key', () => {
  const [key, keys] = [join(folder, 'key'), join(folder, 'keys')];
  writeFileSync(key, 'secret-one');
  writeFileSync(keys, '{"acme":"secret-two"}');
  const env = { ADMIN_API_KEY_FILE: key, PROJECT_KEYS_FILE: keys };
  for (const path of [key, keys]) chmodSync(path, 0o640);
  expect(warn(env)).toEqual([]);
  for (const path of [key, keys]) chmodSync(path, 0o644);
  expect(warn(env)).toEqual([
    expect.stringMatching(/^ADMIN_API_KEY_FILE can be read by every user/),
    expect.stringMatching(/^PROJECT_KEYS_FILE can be read by every user/),
  ]);
  expect(warn(env).join()).not.toContain('secret');
});

test('a file of payload keys that every user can read is warned about', () => {
  const path = join(folder, 'payload-keys');
  writeFileSync(path, '{}', { mode: 0o640 });
  expect([...payloadKeysWarnings(path), ...payloadKeysWarnings(undefined)]).toEqual([]);
  chmodSync(path, 0o644);
  expect(payloadKeysWarnings(path)).toEqual([expect.stringMatching(/^PAYLOAD_KEYS_FILE can be read by every user/)]);
});
