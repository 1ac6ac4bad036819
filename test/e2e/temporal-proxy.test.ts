/** Workers, callers and the command line that reach Temporal through a proxy alone. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { jsonLines, runCli } from '../cli/run-cli.js';
import { Authority } from '../support/certificates.js';
import { type ConnectProxy, startConnectProxy } from '../support/connect-proxy.js';
import { TlsFront } from '../support/tls-front.js';
import { useSystem } from './system.js';
import { newFolder } from '../support/folder.js';

const system = useSystem({ script: { activeMs: 200 } });
let proxy: ConnectProxy;
afterEach(() => proxy.close());

/** A job on a worker that has these settings, started and awaited by the command line with the same. */
async function runJob(settings: Record<string, string>, projectId: string) {
  const env = { ...system.clientEnv(), ...settings };
  const worker = system.startWorker(settings);
  const run = await runCli(['start', '--project', projectId, 'Say hello', '--wait', '--json'], { env });
  return { outcome: jsonLines(run.stdout).at(-1), output: run.stderr + worker.output(), ...run };
}

test('a job runs where worker and command line reach Temporal through TEMPORAL_PROXY alone', async () => {
  proxy = await startConnectProxy(system.server.address);
  const { outcome, output } = await runJob(
    { TEMPORAL_ADDRESS: 'temporal.invalid', TEMPORAL_PROXY: `http://me:p%40ss%3Aword@127.0.0.1:${proxy.port}` },
    'proxied',
  );
  expect(outcome, output).toMatchObject({ outcome: 'completed' });
  expect(proxy.asked.length).toBeGreaterThanOrEqual(2);
  for (const each of proxy.asked)
    expect(each).toEqual({ target: 'temporal.invalid:7233', credentials: 'me:p@ss:word' });
  expect(output).toContain('temporal.invalid');
  expect(output).not.toMatch(/p(@|%40)ss/);
});

test('TLS goes through it, to Temporal itself', async () => {
  const [servers, folder] = [new Authority('servers'), newFolder()];
  await writeFile(join(folder, 'ca.pem'), servers.cert);
  const front = await TlsFront.start({
    address: system.server.address,
    identity: servers.issue('localhost'),
    trusted: [],
  });
  proxy = await startConnectProxy(`127.0.0.1:${front.port}`);
  const { outcome, output } = await runJob(
    {
      TEMPORAL_ADDRESS: 'localhost:9',
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: join(folder, 'ca.pem'),
      TEMPORAL_PROXY: `127.0.0.1:${proxy.port}`,
    },
    'proxied-tls',
  );
  expect(outcome, output).toMatchObject({ outcome: 'completed' });
  for (const each of proxy.asked) expect(each).toEqual({ target: 'localhost:9', credentials: null });
  await front.close();
});
