import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { freePort } from '../../src/local/child-process.js';
import { startRefusingServer } from '../support/refusing-temporal.js';
import { connectDevServer, startPrivateDevServer } from '../support/dev-server.js';
import { startWorkerProcess, until } from '../support/worker-process.js';
import type { WorkerProcess } from '../support/worker-process.js';
import { useForFile } from '../support/use.js';
import { newFolder } from '../support/folder.js';

const KEY = 'a-key-that-must-never-show';
const running: WorkerProcess[] = [];
const folder = newFolder();
const server = useForFile(connectDevServer);

afterEach(async () => {
  for (const worker of running.splice(0)) {
    await worker.kill();
    if (worker.output().includes(KEY)) throw new Error('the key shows in what the worker wrote');
  }
});

function start(env: Record<string, string>): WorkerProcess {
  const worker = startWorkerProcess({
    UPSTREAM_BASE_URL: 'http://127.0.0.1:9',
    ADMIN_API_KEY: KEY,
    TEMPORAL_ADDRESS: server.address,
    AGENT_JOBS_TASK_QUEUE: server.taskQueue,
    ...env,
  });
  running.push(worker);
  return worker;
}

async function get(port: number, path: string): Promise<{ status: number; body: string }> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}${path}`);
    return { status: response.status, body: await response.text() };
  } catch {
    return { status: 0, body: '' };
  }
}

const isReady = (port: number) => async () => (await get(port, '/readyz')).status === 200;

describe('a worker process that cannot go on', () => {
  test('reports all wrong settings at once and ends with 1', async () => {
    const worker = start({ UPSTREAM_BASE_URL: '', LOG_LEVEL: 'loud', ADMIN_API_KEY: `${KEY} \u00e9` });
    expect(await worker.ended).toBe(1);
    expect(worker.output()).toContain('The worker cannot start: 3 settings are wrong');
  });

  test.each(['HEALTH_ADDRESS', 'METRICS_ADDRESS'])('names %s where its port is taken', async (variable) => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const worker = start({ [variable]: `127.0.0.1:${(other.address() as AddressInfo).port}` });
    expect(await worker.ended).toBe(1);
    expect(worker.output()).toContain(`${variable} cannot be used`);
    other.close();
  });

  // The worker grants a new namespace some seconds to be seen everywhere.
  test('ends where Temporal does not know the namespace', async () => {
    const worker = start({ TEMPORAL_NAMESPACE: 'nowhere' });
    expect(await worker.ended).toBe(1);
    expect(worker.output()).toContain('namespace nowhere');
  });

  // As the slim images of Debian are.
  test('ends where the machine has no root certificates, and says what to install', async () => {
    const none = { SSL_CERT_FILE: join(folder, 'none'), SSL_CERT_DIR: folder };
    const worker = start({ TEMPORAL_API_KEY: 'an-api-key', ...none });
    expect(await worker.ended).toBe(1);
    expect(worker.output()).toContain('install ca-certificates');
  });
});

const UNAVAILABLE = 14;

describe('a worker process without its server', () => {
  test('waits where the server is not available, serves metrics from the start, and ends on SIGTERM', async () => {
    const away = await startRefusingServer(UNAVAILABLE);
    const metricsPort = await freePort();
    const worker = start({
      TEMPORAL_ADDRESS: `127.0.0.1:${away.port}`,
      METRICS_ADDRESS: `127.0.0.1:${metricsPort}`,
    });
    await worker.wrote('Temporal is not there yet');
    await worker.wrote('"nextTryInMs":1000');
    expect(await get(metricsPort, '/metrics')).toMatchObject({ status: 200 });
    worker.signal('SIGTERM');
    expect(await worker.ended).toBe(0);
    away.close();
  });
});

describe('a worker process and its server', () => {
  test('waits for a server that comes later, loses readiness with it, and gets it back', async () => {
    const temporalPort = await freePort();
    const healthPort = await freePort(undefined, [temporalPort]);
    const options = { preferredPort: temporalPort, databaseFile: join(folder, 'temporal.db') };
    const worker = start({
      TEMPORAL_ADDRESS: `127.0.0.1:${temporalPort}`,
      HEALTH_ADDRESS: `127.0.0.1:${healthPort}`,
    });
    await worker.wrote('Temporal is not there yet');
    expect(await get(healthPort, '/readyz')).toMatchObject({
      status: 503,
      body: expect.stringContaining('waits for Temporal'),
    });
    expect((await get(healthPort, '/healthz')).status).toBe(200);

    const first = await startPrivateDevServer(options);
    await until(isReady(healthPort), 'readiness', worker.output);
    await first.stop();
    await until(async () => (await get(healthPort, '/readyz')).status === 503, 'not ready', worker.output);
    expect((await get(healthPort, '/readyz')).body).toContain('Temporal does not answer');
    expect((await get(healthPort, '/healthz')).status).toBe(200);

    const second = await startPrivateDevServer(options);
    await until(isReady(healthPort), 'readiness again', worker.output);
    await second.stop();
  });

  test('serves the SDK’s metrics and ours, and says in log and /readyz that older writes ask', async () => {
    const healthPort = await freePort();
    const metricsPort = await freePort(undefined, [healthPort]);
    const worker = start({
      HEALTH_ADDRESS: `[::]:${healthPort}`,
      METRICS_ADDRESS: `[::]:${metricsPort}`,
      CONFIRM_WRITES_BEFORE: '2026-01-01T13:00:00+01:00',
    });
    const metrics = async () => (await get(metricsPort, '/metrics')).body;
    await until(isReady(healthPort), 'readiness', worker.output);
    await until(async () => /^agent_jobs_needs_attention \d+$/m.test(await metrics()), 'the count');
    expect(await metrics()).toContain('temporal_num_pollers');
    expect((await get(healthPort, '/else')).status).toBe(404);
    // Clusters have IPv4, IPv6 or both.
    for (const port of [healthPort, metricsPort]) await fetch(`http://[::1]:${port}/`);
    const confirmed = '"confirmWritesBefore":"2026-01-01T12:00:00.000Z"';
    expect(worker.output()).toContain('CONFIRM_WRITES_BEFORE has passed');
    const runs = worker.output().split('\n');
    expect(runs.find((line) => line.includes('The worker runs'))).toContain(confirmed);
    expect((await get(healthPort, '/readyz')).body).toContain(confirmed);
    expect((await fetch(`http://127.0.0.1:${healthPort}/readyz`, { method: 'POST' })).status).toBe(405);
    worker.signal('SIGTERM');
    worker.signal('SIGINT');
    expect(await worker.ended).toBe(0);
  });
});
