import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { AgentJobs } from '../../src/starter.js';
import { startFileTemporal, type KillableTemporal } from '../chaos/temporal-server.js';
import { shared } from '../support/shared.js';

let folder: string;
let temporal: KillableTemporal;
let jobs: AgentJobs;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-test-'));
  temporal = await startFileTemporal((await shared('dev-server-program')).path, folder);
  jobs = await AgentJobs.connect({ address: temporal.address, namespace: temporal.namespace });
  await ensureSearchAttributes(jobs.client.connection, temporal.namespace);
});

afterAll(async () => {
  await jobs?.close();
  await temporal?.close();
  await rm(folder, { recursive: true, force: true });
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
}, 120_000);
