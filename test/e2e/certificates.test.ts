/** Client certificates and API keys towards Temporal change while jobs run. */
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { freePort } from '../../src/local/free-ports.js';
import { Authority, type Identity } from '../support/certificates.js';
import { failedTasks } from '../support/failed-tasks.js';
import { TlsFront } from '../support/tls-front.js';
import { until } from '../support/worker-process.js';
import { useSystem } from './system.js';

const LIMIT = { timeout: 240_000 };
const TAKEN = 'New credentials towards Temporal are in use';
const NOT_TAKEN = 'New credentials towards Temporal are not taken';

const system = useSystem({ script: { activeMs: 1_000 } });
const servers = new Authority('servers');
let folder: string;
let front: TlsFront;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-certificates-'));
});
afterEach(() => front.close());
afterAll(() => rm(folder, { recursive: true, force: true }));

const path = (name: string) => join(folder, name);

async function replaceFile(name: string, text: string): Promise<void> {
  await writeFile(path(`${name}.new`), text);
  await rename(path(`${name}.new`), path(name));
}

async function useIdentity({ key, cert }: Identity): Promise<void> {
  await replaceFile('client.key', key);
  await replaceFile('client.pem', cert);
}

async function startFront(trusted: string[]): Promise<Record<string, string>> {
  front = await TlsFront.start({ address: system.server.address, identity: servers.issue('localhost'), trusted });
  await replaceFile('ca.pem', servers.cert);
  return { TEMPORAL_ADDRESS: `localhost:${front.port}`, TEMPORAL_TLS_SERVER_CA_CERT_PATH: path('ca.pem') };
}

/** Starts jobs one after the other until it is told to stop, but so many; resolves to their outcomes. */
function load(jobs: AgentJobs, projectId: string, least = 0) {
  let isOver = false;
  const run = async () => {
    const ends: Promise<string>[] = [];
    for (let n = 0; !isOver || n < least; n++) {
      const polling = { min: 500, max: 500 };
      const job = await jobs.start({ key: `job-${n}`, projectId, prompt: 'Say hello', polling });
      ends.push(job.result().then(({ outcome }) => outcome));
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return Promise.all(ends);
  };
  const outcomes = run();
  return {
    stop(): Promise<string[]> {
      isOver = true;
      return outcomes;
    },
  };
}

async function lastAttempt(jobs: AgentJobs, workflowId: string): Promise<number | undefined> {
  const { events } = await jobs.client.workflow.getHandle(workflowId).fetchHistory();
  return events?.findLast((event) => event.activityTaskStartedEventAttributes)?.activityTaskStartedEventAttributes
    ?.attempt as number | undefined;
}

async function failuresOf(jobs: AgentJobs, projectId: string): Promise<string[]> {
  const failed: string[] = [];
  for await (const { workflowId } of jobs.client.workflow.list({ query: `AgentJobProject = '${projectId}'` })) {
    const { events } = await jobs.client.workflow.getHandle(workflowId).fetchHistory();
    const activities = (events ?? []).filter((event) => event.activityTaskFailedEventAttributes);
    failed.push(...[...activities, ...failedTasks(events)].map((event) => `${workflowId} ${JSON.stringify(event)}`));
  }
  return failed;
}

test(
  'a client certificate of another authority replaces the first one under load, and no task fails',
  LIMIT,
  async () => {
    const [before, after] = [new Authority('before'), new Authority('after')];
    const [first, second] = [before.issue('worker'), after.issue('worker')];
    await useIdentity(first);
    const metricsPort = await freePort();
    const worker = system.startWorker({
      ...(await startFront([before.cert])),
      TEMPORAL_TLS_CLIENT_CERT_PATH: path('client.pem'),
      TEMPORAL_TLS_CLIENT_KEY_PATH: path('client.key'),
      METRICS_ADDRESS: `127.0.0.1:${metricsPort}`,
      WORKER_ROLES: 'jobs,exports',
      SNAPSHOTS_URL: `file://${path('snapshots')}`,
    });
    const figure = async (name: string) => {
      const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
      return Number(
        new RegExp(`^agent_jobs_temporal_${name}(?:\\{[^}]*certificate="client"[^}]*\\})? (\\S+)$`, 'm').exec(
          text,
        )?.[1],
      );
    };
    const jobs = new AgentJobs({ client: system.server.client, taskQueue: system.server.taskQueue });
    // Its poll is held by the worker over the whole rotation.
    await system.sandbox.setScript({ activeMs: 3_600_000 });
    const held = await jobs.start({
      key: 'held',
      projectId: 'certificates',
      prompt: 'Wait',
      polling: { min: 500, max: 500 },
    });
    await until(async () => (await held.state()).jobId !== null, 'the held job to be created', worker.output);
    await system.sandbox.setScript({ activeMs: 1_000 });
    const running = load(jobs, 'certificates', 21);

    // The key comes before its certificate: for a moment they don't fit.
    front.trust([before.cert, after.cert]);
    await useIdentity(second);
    await worker.wrote(TAKEN);
    front.trust([after.cert]);
    expect(front.drop(first)).toBeGreaterThan(0);
    const callsBefore = front.callsWith(first);
    expect(await front.takes(first)).toBe(false);
    expect(await front.takes(second)).toBe(true);

    // One that the server does not take changes nothing.
    await useIdentity(before.issue('worker'));
    await worker.wrote(NOT_TAKEN);
    await expect.poll(() => figure('credentials_pending')).toBe(1);
    await useIdentity(second);
    await expect.poll(() => figure('credentials_pending'), { timeout: 60_000 }).toBe(0);

    const { jobId } = await held.state();
    await system.sandbox.setJob({ id: jobId!, status: 'completed' });
    expect(await held.result()).toMatchObject({ outcome: 'completed' });
    // The activity that held the poll knew the first connection alone: another attempt would mean that it was lost.
    expect(await lastAttempt(jobs, held.workflowId)).toBe(1);
    const outcomes = await running.stop();
    expect(outcomes.length).toBeGreaterThan(20);
    expect(new Set(outcomes)).toEqual(new Set(['completed']));
    expect(await failuresOf(jobs, 'certificates')).toEqual([]);
    expect(front.callsWith(first)).toBe(callsBefore);
    expect(await figure('certificate_expiry_timestamp_seconds')).toBe(second.validity.to);
    worker.signal('SIGTERM');
    expect(await worker.ended).toBe(0);
  },
);

test('a new API key replaces the first one, and no task fails', LIMIT, async () => {
  await replaceFile('api-key', 'the-first-key\n');
  const worker = system.startWorker({ ...(await startFront([])), TEMPORAL_API_KEY_FILE: path('api-key') });
  front.wantApiKey('the-first-key');
  await worker.wrote('The worker runs');
  const jobs = new AgentJobs({ client: system.server.client, taskQueue: system.server.taskQueue });
  const running = load(jobs, 'api-keys');
  await replaceFile('api-key', 'a-key-that-nobody-knows');
  await worker.wrote(NOT_TAKEN);
  await replaceFile('api-key', 'the-second-key');
  // The server takes both for a while.
  front.wantApiKey('the-first-key', 'the-second-key');
  await worker.wrote(TAKEN);
  front.wantApiKey('the-second-key');
  const job = await jobs.start({ key: 'last', projectId: 'api-keys', prompt: 'Say hello' });
  expect(await job.result()).toMatchObject({ outcome: 'completed' });
  expect(new Set(await running.stop())).toEqual(new Set(['completed']));
  expect(await failuresOf(jobs, 'api-keys')).toEqual([]);
  expect(worker.output()).not.toContain('-key-that');
  expect(worker.output()).not.toMatch(/the-(first|second)-key/);
});
