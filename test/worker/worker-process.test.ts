import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../../src/local/child-process.js';
import { LOCALHOST, startRefusingServer } from '../support/refusing-temporal.js';
import { connectDevServer, startPrivateDevServer } from '../support/dev-server.js';
import type { TestServer } from '../support/dev-server.js';
import { startWorkerProcess, until } from '../support/worker-process.js';
import type { WorkerProcess } from '../support/worker-process.js';

const KEY = 'a-key-that-must-never-show';
const running: WorkerProcess[] = [];
let folder: string;
let server: TestServer;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'worker-process-'));
  server = await connectDevServer();
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await server.close();
});
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
  test('ends where Temporal does not know the namespace', { timeout: 120_000 }, async () => {
    const worker = start({ TEMPORAL_NAMESPACE: 'nowhere' });
    expect(await worker.ended).toBe(1);
    expect(worker.output()).toContain('namespace nowhere');
  });

  test('ends where a certificate is none', async () => {
    const worker = start({ TEMPORAL_TLS_SERVER_CA_CERT_DATA: 'garbage' });
    expect(await worker.ended).toBe(1);
    expect(worker.output()).toContain('TEMPORAL_TLS');
  });
});

const UNAUTHENTICATED = 16;
const PERMISSION_DENIED = 7;

describe('a worker process that Temporal refuses', () => {
  test.each([
    { status: UNAUTHENTICATED, says: 'check TEMPORAL_API_KEY or the client certificate' },
    { status: PERMISSION_DENIED, says: 'check TEMPORAL_NAMESPACE' },
  ])('ends and says what to check where its credentials are answered with status $status', async ({ status, says }) => {
    const refusing = await startRefusingServer(status);
    const worker = start({
      TEMPORAL_ADDRESS: `127.0.0.1:${refusing.port}`,
      TEMPORAL_API_KEY: 'a-wrong-key',
      TEMPORAL_TLS: 'false',
    });
    expect(await worker.ended).toBe(1);
    expect(worker.output()).toContain(says);
    expect(worker.output()).not.toContain('a-wrong-key');
    expect(refusing.calls()).toBe(1);
    refusing.close();
  });

  test('ends and names the client certificate where the server wants another', async () => {
    const refusing = await startRefusingServer(0, LOCALHOST);
    const worker = start({
      TEMPORAL_ADDRESS: `localhost:${refusing.port}`,
      TEMPORAL_TLS_SERVER_CA_CERT_DATA: LOCALHOST.ca,
    });
    expect(await worker.ended).toBe(1);
    expect(worker.output()).toContain('TEMPORAL_TLS_CLIENT_CERT_');
    refusing.close();
  });

  test('ends and names the authority where it does not trust the server', async () => {
    const refusing = await startRefusingServer(0, LOCALHOST);
    const worker = start({ TEMPORAL_ADDRESS: `localhost:${refusing.port}`, TEMPORAL_TLS: 'true' });
    expect(await worker.ended).toBe(1);
    expect(worker.output()).toContain('TEMPORAL_TLS_SERVER_CA_CERT_');
    refusing.close();
  });

  test('waits where the server is only not available', async () => {
    const UNAVAILABLE = 14;
    const away = await startRefusingServer(UNAVAILABLE);
    const worker = start({ TEMPORAL_ADDRESS: `127.0.0.1:${away.port}` });
    await worker.wrote('Temporal is not there yet');
    worker.signal('SIGTERM');
    expect(await worker.ended).toBe(0);
    away.close();
  });
});

describe('a worker process and its server', () => {
  test(
    'waits for a server that comes later, loses readiness with it, and gets it back',
    { timeout: 240_000 },
    async () => {
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
    },
  );

  test('says from the start that writes of before a restore ask, in its log and under /readyz', async () => {
    const healthPort = await freePort();
    const CONFIRM_WRITES_BEFORE = '2026-01-01T13:00:00+01:00';
    const worker = start({ CONFIRM_WRITES_BEFORE, HEALTH_ADDRESS: `127.0.0.1:${healthPort}` });
    await worker.wrote('CONFIRM_WRITES_BEFORE has passed');
    await worker.wrote('The worker runs');
    expect(
      worker
        .output()
        .split('\n')
        .find((line) => line.includes('The worker runs')),
    ).toContain('"confirmWritesBefore":"2026-01-01T12:00:00.000Z"');
    expect((await get(healthPort, '/readyz')).body).toContain('"confirmWritesBefore":"2026-01-01T12:00:00.000Z"');
  });

  test('serves its figures from the start, while it waits for the server', async () => {
    const temporalPort = await freePort();
    const metricsPort = await freePort(undefined, [temporalPort]);
    const worker = start({
      TEMPORAL_ADDRESS: `127.0.0.1:${temporalPort}`,
      METRICS_ADDRESS: `127.0.0.1:${metricsPort}`,
    });
    await worker.wrote('"nextTryInMs":1000');
    expect(await get(metricsPort, '/metrics')).toMatchObject({ status: 200 });
  });

  test('ends at once on SIGTERM while it waits for the server', async () => {
    const worker = start({ TEMPORAL_ADDRESS: `127.0.0.1:${await freePort()}` });
    await worker.wrote('Temporal is not there yet');
    worker.signal('SIGTERM');
    expect(await worker.ended).toBe(0);
  });

  test(
    'serves the SDK figures and ours at one address, and answers nothing but what it has',
    { timeout: 120_000 },
    async () => {
      const healthPort = await freePort();
      const metricsPort = await freePort(undefined, [healthPort]);
      const worker = start({
        HEALTH_ADDRESS: `127.0.0.1:${healthPort}`,
        METRICS_ADDRESS: `localhost:${metricsPort}`,
      });
      const metrics = async () => (await get(metricsPort, '/metrics')).body;
      await until(isReady(healthPort), 'readiness', worker.output);
      await until(async () => /^agent_jobs_needs_attention \d+$/m.test(await metrics()), 'the count');
      expect(await metrics()).toContain('temporal_num_pollers');
      expect((await get(healthPort, '/else')).status).toBe(404);
      expect((await fetch(`http://127.0.0.1:${healthPort}/readyz`, { method: 'POST' })).status).toBe(405);
      worker.signal('SIGTERM');
      worker.signal('SIGINT');
      expect(await worker.ended).toBe(0);
    },
  );
});
