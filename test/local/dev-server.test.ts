import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startDevServer, type DevServer, type DevServerOptions } from '../../src/local/dev-server.js';
import { freePort } from '../../src/local/child-process.js';
import { shared } from '../support/shared.js';
import { newFolder } from '../support/folder.js';

// A busy machine takes its time to start three servers.
vi.setConfig({ testTimeout: 240_000 });
const WRITE_AHEAD_LOG = 2;

let folder: string;
let servers: DevServer[] = [];
beforeEach(() => void (folder = newFolder()));
afterEach(async () => {
  await Promise.all(servers.map((server) => server.stop()));
  servers = [];
});

async function start(name: string, options: Partial<DevServerOptions> = {}): Promise<DevServer> {
  const { path: program } = await shared('dev-server-program');
  const file = (ending: string) => join(folder, `${name}.${ending}`);
  const server = await startDevServer({ program, databaseFile: file('db'), logFile: file('log'), ...options });
  servers.push(server);
  return server;
}

type Place = Pick<DevServer, 'address' | 'namespace'>;

async function withClient<T>({ address, namespace }: Place, use: (client: Client) => Promise<T>): Promise<T> {
  const connection = await Connection.connect({ address });
  try {
    return await use(new Client({ connection, namespace }));
  } finally {
    await connection.close();
  }
}

const workflowsOf = (server: DevServer) => withClient(server, async (client) => (await client.workflow.count()).count);

const startWorkflow = (server: Place, workflowId: string) =>
  withClient(server, (client) =>
    client.connection.withDeadline(Date.now() + 20_000, () =>
      client.workflow.start('anything', { workflowId, taskQueue: 'nobody', args: [] }),
    ),
  );

/** The versions in the file's header that a reader and a writer need. */
async function formatOf(file: string): Promise<number[]> {
  const handle = await open(file);
  try {
    const { buffer } = await handle.read(Buffer.alloc(2), 0, 2, 18);
    return [...buffer];
  } finally {
    await handle.close();
  }
}

for (const afterMs of [0, 500]) {
  test(`starts ${afterMs} ms apart that prefer the same ports never share a server`, async () => {
    const preferredPort = await freePort();
    const preferredUiPort = await freePort(undefined, [preferredPort]);
    const options = { ui: true, preferredPort, preferredUiPort };
    const first = start('first', options);
    await new Promise((resolve) => setTimeout(resolve, afterMs));
    const started = await Promise.all([first, start('second', options), start('third', options)]);
    expect(new Set(started.map(({ address }) => address)).size).toBe(3);
    expect(new Set(started.map(({ uiUrl }) => uiUrl)).size).toBe(3);
    const [one, ...others] = started;
    await startWorkflow(one!, 'of-the-first');
    await expect.poll(() => workflowsOf(one!)).toBe(1);
    for (const other of others) expect(await workflowsOf(other)).toBe(0);
    for (const { uiUrl } of started) {
      expect((await fetch(uiUrl!, { headers: { connection: 'close' } })).status).toBe(200);
    }
  });
}

test('the database has a write-ahead log', async () => {
  await start('logged');
  expect(await formatOf(join(folder, 'logged.db'))).toEqual([WRITE_AHEAD_LOG, WRITE_AHEAD_LOG]);
  expect(await readdir(folder)).toContain('logged.db-wal');
});

test('a server that was killed has every workflow whose start it confirmed', async () => {
  const server = await start('killed');
  const ids = Array.from({ length: 20 }, (_, i) => `confirmed-${i}`);
  await Promise.all(ids.map((id) => startWorkflow(server, id)));
  process.kill(server.pid, 'SIGKILL');
  await server.ended;
  const again = await start('killed');
  await withClient(again, async (client) => {
    for (const id of ids) expect((await client.workflow.getHandle(id).describe()).status.name).toBe('RUNNING');
  });
});
