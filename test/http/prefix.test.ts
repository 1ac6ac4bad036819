/** Addresses behind a proxy: the prefix that it adds to each path, and slashes at a path's end. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { readHttpConfig } from '../../src/config.js';
import { HttpServer } from '../../src/http/server.js';
import { QUICK } from '../client/job-server.js';
import { byId, startHttpJobServer } from './http-server.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startHttpJobServer);

/** Of a server without keys: the servers of its document, and the address of a job that it starts. */
async function addressesOf(publicUrl?: string) {
  const connect = () => Promise.resolve(server.jobs);
  const service = { connect, keys: null, version: '1.2.3', publicUrl, onProblem: () => {} };
  const http = await HttpServer.listen(service, { host: '127.0.0.1', port: 0 });
  const document = (await (await fetch(`${http.url}/openapi.json`)).json()) as { servers: object; info: object };
  const key = randomUUID();
  const started = await fetch(`${http.url}/v1/projects/${server.projectId}/jobs`, {
    method: 'POST',
    headers: { 'idempotency-key': key, 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'do it', ...QUICK }),
  });
  await http.end();
  const path = byId(`agent-job/${server.projectId}/${key}`);
  return { servers: document.servers, info: document.info, location: started.headers.get('location'), path };
}

test('with HTTP_PUBLIC_URL the document and Location name it; without it, paths alone', async () => {
  const { servers, info, location, path } = await addressesOf('https://example.com/agents');
  expect([servers, location]).toEqual([[{ url: 'https://example.com/agents' }], `https://example.com/agents${path}`]);
  expect(info).toMatchObject({ version: '1.2.3' });
  const bare = await addressesOf();
  expect([bare.servers, bare.location]).toEqual([[{ url: '/' }], bare.path]);
});

test('HTTP_PUBLIC_URL is an address, and may end in a slash', () => {
  const read = (url: string) => readHttpConfig({ HTTP_PUBLIC_URL: url }).publicUrl;
  expect([read('https://example.com/agents/'), read('http://example.com')]).toEqual([
    'https://example.com/agents',
    'http://example.com',
  ]);
  for (const wrong of ['/agents', 'example.com', 'https://user@example.com', 'https://example.com/?a']) {
    expect(() => read(wrong)).toThrow(/HTTP_PUBLIC_URL +should be/);
  }
});

test('a slash at the end is no other path, but below /v1, where a key may end in one', async () => {
  const { send } = server.bench;
  for (const path of ['/healthz/', '/readyz/', '/metrics/', '/openapi.json/']) {
    expect([path, (await send(path, { key: null })).status]).toEqual([path, 200]);
  }
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
  const accept = 'application/json, text/event-stream';
  expect((await send('/mcp/', { body: ping, headers: { accept } })).status).toBe(200);
  const jobs = `/v1/projects/${server.projectId}/jobs`;
  for (const [path, status] of [
    [`${jobs}/`, 400],
    [`${jobs}/k/`, 404],
    [`${jobs}/k/events/`, 404],
    ['/v1/jobs/', 400],
    ['/v1/', 404],
  ] as const) {
    const answer = await send(path);
    expect([path, answer.status, answer.body.detail]).toEqual([path, status, expect.stringContaining('%2F')]);
  }
  for (const path of ['//', '/healthz//', '/nothing/']) expect([path, (await send(path)).status]).toEqual([path, 404]);
  expect((await send(`${jobs}/k%2F`)).body.code).toBe('JOB_NOT_FOUND');
});
