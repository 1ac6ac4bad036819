import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { NativeConnection } from '@temporalio/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { AgentJobs, type JobState } from '../../src/starter.js';
import { startFileTemporal, type KillableTemporal } from '../chaos/temporal-server.js';
import { shared } from '../support/shared.js';
import { createTestWorker } from '../support/worker.js';
import { newFolder } from '../support/folder.js';

const folder = newFolder();
let temporal: KillableTemporal;
let jobs: AgentJobs;

beforeAll(async () => {
  temporal = await startFileTemporal((await shared('dev-server-program')).path, folder);
  jobs = await AgentJobs.connect({ address: temporal.address, namespace: temporal.namespace });
  await ensureSearchAttributes(jobs.client.connection, temporal.namespace);
});

afterAll(async () => {
  await jobs?.close();
  await temporal?.close();
});

test('a wait that has outlived an outage of Temporal still ends with its signal', async () => {
  const job = await jobs.start({ projectId: 'p1', key: randomUUID(), prompt: 'nobody works on it' });
  const stop = new AbortController();
  const waits = [job.result({ signal: stop.signal }), job.sendFollowUp('more', { signal: stop.signal })];
  const ends = Promise.allSettled(waits);
  await temporal.restart(500);
  await expect.poll(() => job.pollNow().then(() => true)).toBe(true);
  // Longer than the SDK waits before it sends a request again.
  await pause(6_000);
  const reason = new Error('enough');
  stop.abort(reason);
  expect(await ends).toEqual(waits.map(() => ({ status: 'rejected', reason })));
  // The requests that can't be cancelled end with the job.
  await jobs.client.workflow.getHandle(job.workflowId).terminate();
});

test('a watch outlives an outage of Temporal, warns its logger, and goes on with what changed', async () => {
  const connection = await NativeConnection.connect({ address: temporal.address });
  const taskQueue = `watched-${randomUUID()}`;
  const workflowsPath = fileURLToPath(new URL('./workflows/index.ts', import.meta.url));
  const worker = await createTestWorker({
    connection,
    namespace: temporal.namespace,
    taskQueue,
    workflowsPath,
    activities: {},
  });
  const running = worker.run();
  const told: string[] = [];
  const note = (message: string) => void told.push(message);
  const logger = { warn: note };
  const watched = new AgentJobs({ client: jobs.client, taskQueue, logger, timeoutMs: 4_000 });
  const job = await watched.start({ projectId: 'p1', key: randomUUID(), prompt: 'stay' });
  const followUp = () =>
    job.followUp('more', { id: 'f1' }).then(
      () => true,
      () => false,
    );
  const seen: JobState[] = [];
  let outage = Promise.resolve();
  for await (const state of job.watch()) {
    seen.push(state);
    if (seen.length > 1) break;
    // Meanwhile the watch goes on.
    outage = temporal.restart(8_000).then(() => expect.poll(followUp).toBe(true));
  }
  await outage;
  expect(new Set(told)).toEqual(new Set(['no answer; the wait goes on']));
  expect(seen.map(({ followUps }) => followUps)).toEqual([[], [{ id: 'f1', state: 'sent' }]]);
  await jobs.client.workflow.getHandle(job.workflowId).terminate();
  worker.shutdown();
  await running;
  await connection.close();
});
