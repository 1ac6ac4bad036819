/** The containers of the chart, run as its manifests say as far as that goes without a cluster. */
import { createHash } from 'node:crypto';
import { chown, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { freePort } from '../../src/local/child-process.js';
import { AgentJobs } from '../../src/starter.js';
import { usePrivateSystem } from '../e2e/system.js';
import { until } from '../support/worker-process.js';
import { needContainers, startContainer, type ContainerOptions, type RunningContainer } from './container.js';
import { needToolchain } from '../support/toolchains.js';
import { podsOf, renderedManifests } from './manifests.js';

const LIMIT = { timeout: 240_000 };
const system = usePrivateSystem({ script: { activeMs: 500 } });
const started: RunningContainer[] = [];
let folder: string;
let pods: ReturnType<typeof podsOf>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-containers-'));
});
beforeEach(async (context) => {
  await needContainers(context);
  pods = podsOf(await renderedManifests(await needToolchain(context, 'helm')));
});
afterEach(async () => {
  for (const container of started.splice(0)) {
    container.signal('SIGKILL');
    await container.ended;
  }
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const podOf = (name: string) => pods.find((pod) => pod.name.startsWith(name))!.pod;

async function start(name: string, options: Partial<ContainerOptions> = {}): Promise<RunningContainer> {
  const secrets = { 'agent-jobs-upstream': { admin_api_key: system.sandbox.apiKey } };
  const own = await mkdtemp(join(folder, `${name}-`));
  const container = startContainer({ folder: own, pod: podOf(name), secrets, ...options });
  started.push(container);
  return container;
}

const temporalEnv = () => ({
  TEMPORAL_ADDRESS: system.server.address,
  TEMPORAL_NAMESPACE: system.server.namespace,
});

test('the set-up, then a job and an export on workers of both roles, and an end in order', LIMIT, async () => {
  const setup = await start('agent-jobs-setup', { env: temporalEnv() });
  expect(await setup.ended, setup.output()).toBe(0);

  const snapshots = join(folder, 'snapshots');
  await mkdir(snapshots);
  await chown(snapshots, 10_001, 10_001);
  const worker = async (name: string) => {
    const port = await freePort();
    const env = {
      ...temporalEnv(),
      AGENT_JOBS_TASK_QUEUE: system.server.taskQueue,
      UPSTREAM_BASE_URL: system.sandbox.url,
      // The claim of the chart.
      SNAPSHOTS_URL: 'file:///snapshots',
      HEALTH_ADDRESS: `127.0.0.1:${port}`,
      METRICS_ADDRESS: `127.0.0.1:${await freePort(undefined, [port])}`,
    };
    const container = await start(name, { env, writable: { '/snapshots': snapshots } });
    const { httpGet } = podOf(name).containers[0]!.readinessProbe!;
    const isReady = () =>
      fetch(`http://127.0.0.1:${port}${httpGet.path}`).then(
        ({ ok }) => ok,
        () => false,
      );
    await until(isReady, `${name} to be ready`, container.output);
    return container;
  };
  const workers = [await worker('agent-jobs-jobs'), await worker('agent-jobs-exports')];
  const jobs = new AgentJobs({ client: system.server.client, taskQueue: system.server.taskQueue });
  const job = await jobs.start({ key: 'a', projectId: 'acme', prompt: 'Say hello', polling: { min: 500, max: 500 } });
  expect(await job.result()).toMatchObject({ outcome: 'completed' });
  const range = { projectId: 'acme', dateFrom: '2026-01-01', dateTo: '2026-01-02' };
  expect(await (await jobs.exportVisitors(range)).result()).toMatchObject({ snapshots: [{ consistent: true }] });
  for (const each of workers) each.signal('SIGTERM');
  expect(await Promise.all(workers.map(({ ended }) => ended))).toEqual([0, 0]);
});

test('HTTP answers whoever has a key of its Secret, and ends in order', LIMIT, async () => {
  const key = 'a-key-of-a-caller';
  const keys = { [createHash('sha256').update(key).digest('hex')]: { name: 'caller', projects: '*' } };
  const address = `127.0.0.1:${await freePort()}`;
  const http = await start('agent-jobs-http', {
    env: { ...temporalEnv(), HTTP_ADDRESS: address },
    secrets: { 'agent-jobs-http': { http_keys: JSON.stringify(keys) } },
  });
  const statusOf = async (path: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`http://${address}${path}`, { headers }).catch(() => null);
    return response?.status;
  };
  const { httpGet } = podOf('agent-jobs-http').containers[0]!.readinessProbe!;
  await until(async () => (await statusOf(httpGet.path)) === 200, 'HTTP to be ready', http.output);
  expect(await statusOf('/v1/projects/acme/jobs')).toBe(401);
  expect(await statusOf('/v1/projects/acme/jobs', { authorization: `Bearer ${key}` })).toBe(200);
  http.signal('SIGTERM');
  expect(await http.ended, http.output()).toBe(0);
});

/** Run inside: who it is, and where it can write. */
const LOOK = `
const fs = require('node:fs');
const lines = fs.readFileSync('/proc/self/status', 'utf8').split('\\n');
const status = Object.fromEntries(lines.map((line) => line.split(':\\t')));
const tried = ['/', '/app', '/app/dist', '/etc', '/usr', '/run/secrets/upstream', '/tmp'];
const writable = tried.filter((folder) => {
  try { fs.writeFileSync(folder + '/written-by-a-test', ''); return true; } catch { return false; }
});
const key = fs.readFileSync('/run/secrets/upstream/admin_api_key', 'utf8');
const capabilities = status.CapEff + status.CapBnd;
console.log(JSON.stringify({ uid: process.getuid(), capabilities, isLocked: status.NoNewPrivs, writable, key }));
`;

test('inside it is user 10001 without capabilities, who can write to /tmp alone and read the key', LIMIT, async () => {
  const look = await start('agent-jobs-jobs', { args: ['-e', LOOK] });
  expect(await look.ended, look.output()).toBe(0);
  expect(JSON.parse(look.output())).toEqual({
    uid: 10_001,
    capabilities: '0'.repeat(32),
    isLocked: '1',
    writable: ['/tmp'],
    key: system.sandbox.apiKey,
  });
});
