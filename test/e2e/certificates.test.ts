/** Workers that reach Temporal with a client certificate or an API key. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { Authority, type Identity } from '../support/certificates.js';
import { failedTasks } from '../support/failed-tasks.js';
import { TlsFront } from '../support/tls-front.js';
import { until, type WorkerProcess } from '../support/worker-process.js';
import { useSystem } from './system.js';
import { newFolder } from '../support/folder.js';

const system = useSystem({ script: { activeMs: 3_600_000 } });
const servers = new Authority('servers');
const folder = newFolder();
let front: TlsFront;
afterEach(() => front.close());

const path = (name: string) => join(folder, name);

async function useIdentity({ key, cert }: Identity): Promise<void> {
  await writeFile(path('client.key'), key);
  await writeFile(path('client.pem'), cert);
}

async function startFront(trusted: string[]): Promise<Record<string, string>> {
  front = await TlsFront.start({ address: system.server.address, identity: servers.issue('localhost'), trusted });
  await writeFile(path('ca.pem'), servers.cert);
  return { TEMPORAL_ADDRESS: `localhost:${front.port}`, TEMPORAL_TLS_SERVER_CA_CERT_PATH: path('ca.pem') };
}

/** A job that the worker has created, and what completes it upstream. */
async function startJob(projectId: string, worker: WorkerProcess) {
  const jobs = new AgentJobs({ client: system.server.client, taskQueue: system.server.taskQueue });
  const job = await jobs.start({ key: 'k', projectId, prompt: 'Wait', polling: { min: 500, max: 500 } });
  let id: string | null = null;
  await until(async () => ({ jobId: id } = await job.state()).jobId !== null, 'the job to be created', worker.output);
  const complete = async () => {
    await system.sandbox.setJob({ id: id!, status: 'completed', prLink: true });
    expect(await job.result()).toMatchObject({ outcome: 'completed' });
  };
  return { job, complete };
}

test('a worker that is restarted with a client certificate of another authority goes on with its jobs', async () => {
  const [before, after] = [new Authority('before'), new Authority('after')];
  await useIdentity(before.issue('worker'));
  const settings = {
    ...(await startFront([before.cert])),
    TEMPORAL_TLS_CLIENT_CERT_PATH: path('client.pem'),
    TEMPORAL_TLS_CLIENT_KEY_PATH: path('client.key'),
  };
  const worker = system.startWorker(settings);
  const { job, complete } = await startJob('certificates', worker);

  front.trust([before.cert, after.cert]);
  await useIdentity(after.issue('worker'));
  worker.signal('SIGTERM');
  expect(await worker.ended).toBe(0);
  front.trust([after.cert]);
  system.startWorker(settings);
  await complete();
  const { events } = await system.server.client.workflow.getHandle(job.workflowId).fetchHistory();
  expect(failedTasks(events)).toEqual([]);
});

test('a worker with the API key of a file runs a job, and its output has no key', async () => {
  await writeFile(path('api-key'), 'the-key\n');
  const worker = system.startWorker({ ...(await startFront([])), TEMPORAL_API_KEY_FILE: path('api-key') });
  front.wantApiKey('the-key');
  const { complete } = await startJob('api-keys', worker);
  await complete();
  expect(worker.output()).not.toContain('the-key');
});
