import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, type WorkflowClientInterceptor } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { jobStateQuery } from '../../src/contract.js';
import { openPayloadCodec } from '../../src/starter/codec.js';
import { AgentJobs, type JobHandle } from '../../src/starter.js';
import { ReadFailedError } from '../../src/upstream/errors.js';
import { startJobBench } from '../support/job-bench.js';
import { gate, ObservedUpstream } from '../support/observed-upstream.js';
import { startJobServer, type JobServer } from './job-server.js';

const MINUTE = 60_000;
const SLOWLY = { polling: { min: 1_000, max: 1_000 } } as const;

let server: JobServer;
let folder: string;
beforeAll(async () => {
  [server, folder] = await Promise.all([startJobServer(), mkdtemp(join(tmpdir(), 'agent-jobs-polls-'))]);
});
afterAll(async () => {
  await server?.close();
  await rm(folder, { recursive: true, force: true });
});

/** A job that is active for ever, of a project whose reads fail from the first one on. */
async function startFailing({ jobs, sandbox }: JobServer, status: number): Promise<JobHandle> {
  const projectId = `failing-${randomUUID()}`;
  await sandbox.addScript({ projectId, script: { activeMs: 1e9 } });
  await sandbox.addFault({ kind: 'status', status, operation: 'get', projectId, count: 1_000 });
  return jobs.start({ projectId, key: 'one', prompt: 'Fix it', ...SLOWLY });
}

const waitOf = async (job: Pick<JobHandle, 'state'>) => (await job.state()).waiting;

test.each([
  [503, 'upstream'],
  [401, 'key'],
  [429, 'rateLimit'],
])('the state of a job whose polls meet %i waits for %s', { timeout: 3 * MINUTE }, async (status, what) => {
  const job = await startFailing(server, status);
  await expect
    .poll(() => waitOf(job), { timeout: MINUTE })
    .toMatchObject({ for: what, reason: `upstream answered ${status}` });
  // It says the same of each failure, with the time of the next poll where no poll is under way.
  await expect
    .poll(() => waitOf(job), { timeout: MINUTE })
    .toMatchObject({ for: what, until: expect.stringMatching(/^2.*Z$/) as string });
  await job.cancel();
});

test('a watch tells it when the polls fail, and when they bring something again', { timeout: 3 * MINUTE }, async () => {
  const job = await startFailing(server, 503);
  const told: string[] = [];
  for await (const { waiting } of job.watch()) {
    const what = `${waiting?.for ?? 'poll'} ${waiting?.reason ?? ''}`;
    if (told.at(-1) !== what) told.push(what);
    if (!told.includes('upstream upstream answered 503')) continue;
    // Null while a poll is under way, which is no other state to a watch.
    if ((waiting?.for ?? 'poll') === 'poll') break;
    // Only now: a watch looks now and then, and a short trouble may lie between two looks.
    await server.sandbox.clearFaults();
    await job.pollNow();
  }
  expect(told).toContain('upstream upstream answered 503');
  await job.cancel();
});

test('a watch tells of a poll that failed where the next one is under way', { timeout: 3 * MINUTE }, async () => {
  const upstream = new ObservedUpstream();
  upstream.show = () => ({ status: 'active' });
  upstream.readFaults.push(...Array.from({ length: 1_000 }, () => new ReadFailedError('upstream answered 503', 503)));
  const { opened, open } = gate();
  /** The first state after a failed poll is read while the next one hangs. */
  const query: WorkflowClientInterceptor['query'] = async (input, next) => {
    if (input.queryType !== jobStateQuery.name || upstream.readGate || upstream.reads === 0) return next(input);
    upstream.readGate = opened;
    const { reads } = upstream;
    await expect.poll(() => upstream.reads, { timeout: MINUTE }).toBeGreaterThan(reads);
    // The client asks Temporal about the poll right after this, and looks again after a second.
    setTimeout(open, 500);
    return next(input);
  };
  const { connection, options } = server.client;
  const client = new Client({
    connection,
    namespace: options.namespace,
    interceptors: { workflow: [{ query }] },
  });
  const bench = await startJobBench(server, upstream);
  try {
    const { workflowId } = await bench.start({ projectId: 'p1', jobId: 'failing', ...SLOWLY });
    await expect.poll(() => upstream.reads, { timeout: MINUTE }).toBeGreaterThan(0);
    const job = new AgentJobs({ client, timeoutMs: MINUTE }).handle(workflowId);
    for await (const { waiting } of job.watch()) if (waiting?.for === 'upstream') break;
  } finally {
    open();
    await bench.stop();
  }
});

test.each([true, false])(
  'once a read succeeds the job waits for its next poll, with a poller (%s) or without',
  { timeout: 3 * MINUTE },
  async (hasPoller) => {
    const upstream = new ObservedUpstream();
    upstream.show = () => ({ status: 'active' });
    upstream.readFaults.push(
      ...[1, 2].map(() => new ReadFailedError('no', undefined, undefined, 'connection refused')),
    );
    const bench = await startJobBench(server, upstream, { hasPoller });
    try {
      const { workflowId } = await bench.start({ projectId: 'p1', prompt: 'Fix it', ...SLOWLY });
      const job = server.jobs.handle(workflowId);
      await expect
        .poll(() => waitOf(job), { timeout: MINUTE })
        .toMatchObject({ for: 'upstream', reason: 'connection refused' });
      await expect.poll(() => upstream.reads, { timeout: MINUTE }).toBeGreaterThan(3);
      await expect.poll(async () => (await waitOf(job))?.for, { timeout: MINUTE }).toBe('poll');
    } finally {
      await bench.stop();
    }
  },
);

test('a caller with the payload keys is told, too', { timeout: 3 * MINUTE }, async () => {
  const file = join(folder, 'keys.json');
  await writeFile(file, JSON.stringify({ current: 'one', keys: { one: randomBytes(32).toString('base64') } }));
  const codecs = { payloadCodecs: [openPayloadCodec(file)] };
  const encrypted = await startJobServer(undefined, codecs);
  const { address, namespace, taskQueue } = encrypted;
  await using jobs = await AgentJobs.connect({ address, namespace, taskQueue, dataConverter: codecs });
  try {
    const job = await startFailing({ ...encrypted, jobs }, 503);
    await expect
      .poll(() => waitOf(job), { timeout: MINUTE })
      .toMatchObject({ for: 'upstream', reason: 'upstream answered 503' });
    await job.cancel();
  } finally {
    await encrypted.close();
  }
});
