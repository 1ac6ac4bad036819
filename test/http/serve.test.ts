/** The command `serve` as a process: its settings, what it prints, and its end; and the document of all calls. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { readHttpConfig } from '../../src/config.js';
import { cliProgram, envOf } from '../cli/run-cli.js';
import { runInProcess } from '../cli/run-in-process.js';
import { connectDevServer, startPrivateDevServer } from '../support/dev-server.js';
import { hashOf } from './http-server.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

const server = useForFile(connectDevServer);

async function keysFile(content: string): Promise<string> {
  const file = join(newFolder(), 'keys.json');
  await writeFile(file, content);
  return file;
}

/** A process of its own, once it has printed where it listens. */
async function serve(env: Record<string, string>) {
  const child = spawn(process.execPath, [cliProgram, 'serve'], {
    env: { PATH: process.env['PATH'] ?? '', HOME: tmpdir(), HTTP_ADDRESS: '127.0.0.1:0', ...env },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += String(data)));
  const closed = once(child, 'close');
  return {
    output: () => output,
    url: () => vi.waitUntil(() => /http:\/\/\S+:\d+/.exec(output)?.[0], { timeout: 120_000, interval: 100 }),
    async end(signal: NodeJS.Signals) {
      child.kill(signal);
      const [code] = (await closed) as [number | null];
      return code;
    },
  };
}

test('settings have their defaults, and a server of no one machine needs keys', () => {
  expect(readHttpConfig({})).toEqual({ address: { host: '127.0.0.1', port: 8080 }, hasPage: true });
  for (const local of ['localhost:1', '127.0.0.2:1', '[::1]:1']) {
    expect(readHttpConfig({ HTTP_ADDRESS: local }).keysFile).toBeUndefined();
  }
  for (const open of ['0.0.0.0:8080', '[::]:8080', '192.0.2.1:80', 'example.com:80']) {
    expect(() => readHttpConfig({ HTTP_ADDRESS: open })).toThrow(
      /HTTP_KEYS_FILE +is missing; without keys HTTP_ADDRESS/,
    );
  }
  const perAddress = (text: string) => readHttpConfig({ HTTP_CONNECTIONS_PER_ADDRESS: text }).strangersPerAddress;
  expect(['', '0', '1000'].map(perAddress)).toEqual([undefined, 0, 1_000]);
  for (const wrong of ['-1', '1.5', 'none']) {
    expect(() => perAddress(wrong)).toThrow(/HTTP_CONNECTIONS_PER_ADDRESS +should be a whole number, or 0 for none/);
  }
  expect(() => readHttpConfig({ HTTP_ADDRESS: '8080', HTTP_KEYS_FILE: '/no/such/file' })).toThrow(
    /2 settings are wrong/,
  );
});

test('a file of keys that is wrong at the start is reported without what it holds', async () => {
  for (const content of ['{', '{"a-secret-key": {"name": "x", "projects": "*"}}']) {
    const env = { ...envOf(server), HTTP_KEYS_FILE: await keysFile(content) };
    const { code, stderr } = await runInProcess(['serve'], { env });
    expect([code, stderr]).toEqual([1, expect.stringContaining('should be a JSON object of the SHA-256 of a key')]);
    expect(stderr).not.toContain('a-secret-key');
  }
});

test('an address that is taken is named by its setting', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  const { code, stderr } = await runInProcess(['serve'], {
    env: { ...envOf(server), HTTP_ADDRESS: `127.0.0.1:${port}` },
  });
  expect([code, stderr]).toEqual([1, expect.stringContaining('HTTP_ADDRESS cannot be used: listen EADDRINUSE')]);
  other.close();
});

test('without keys it is for this machine alone, and says so; SIGTERM ends it and its streams', async () => {
  const { url, output, end } = await serve(envOf(server));
  const path = `${await url()}/v1/projects/serve/jobs`;
  expect(output()).toContain('for this machine alone: HTTP_KEYS_FILE is not set');
  const { version } = JSON.parse(await readFile('package.json', 'utf8')) as { version: string };
  expect(await (await fetch(`${await url()}/openapi.json`)).json()).toMatchObject({ info: { version } });
  const headers = { 'idempotency-key': `k-${Date.now()}`, 'content-type': 'application/json' };
  const started = await fetch(path, { method: 'POST', headers, body: '{"prompt": "x"}' });
  // No worker runs here: the job is started all the same.
  expect([started.status, await started.json()]).toMatchObject([201, { isNew: true, state: null }]);
  const location = started.headers.get('location')!;
  const stream = await fetch(`${await url()}${location}/events`);
  expect(stream.status).toBe(200);
  expect(await end('SIGTERM')).toBe(0);
  expect(await stream.text()).toMatch(/\nretry: \d+\n\n$/);
  const workflowId = Buffer.from(location.split('/').at(-1)!, 'base64url').toString();
  await server.client.workflow.getHandle(workflowId).terminate();
});

test('while Temporal is away it listens and answers 503, says so once and waits, and a Ctrl-C ends it', async () => {
  const { url, output, end } = await serve({ TEMPORAL_ADDRESS: '127.0.0.1:1' });
  const get = async (path: string) => (await fetch(`${await url()}${path}`)).status;
  expect([await get('/healthz'), await get('/readyz'), await get('/v1/projects/p/jobs')]).toEqual([200, 503, 503]);
  expect(output().split('each request tries again')).toHaveLength(2);
  expect(await end('SIGINT')).toBe(0);
});

test('with keys it takes those of the file, and waits for a Temporal server that is about to start', async () => {
  const first = await startPrivateDevServer();
  const { address, namespace } = first;
  const port = Number(address.split(':').at(-1));
  await first.stop();
  const env = {
    ...envOf({ ...server, address, namespace }),
    HTTP_KEYS_FILE: await keysFile(JSON.stringify({ [hashOf('a-key')]: { name: 'one', projects: ['serve'] } })),
  };
  const { url, output, end } = await serve(env);
  const later = await startPrivateDevServer({ preferredPort: port });
  await vi.waitUntil(async () => (await fetch(`${await url()}/readyz`)).ok, { timeout: 60_000, interval: 100 });
  const statusWith = async (key: string) =>
    (await fetch(`${await url()}/v1/projects/serve/jobs`, { headers: { authorization: `Bearer ${key}` } })).status;
  expect([await statusWith('a-key'), await statusWith('another')]).toEqual([200, 401]);
  expect(output()).toContain('with keys');
  expect(output()).not.toContain('a-key');
  expect(await end('SIGINT')).toBe(0);
  await later.stop();
});
