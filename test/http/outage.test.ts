/** What callers are told while Temporal, every worker or a key is away, and of each error of the client. */
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { agentJobStartOptions } from '../../src/agent-job/start-options.js';
import { openPayloadCodec } from '../../src/starter/codec.js';
import * as client from '../../src/starter.js';
import { AgentJobs, type AgentJobsError } from '../../src/starter.js';
import { startJobServer } from '../client/job-server.js';
import { connectOwnNamespace, startPrivateDevServer, type TestServer } from '../support/dev-server.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { startHttp } from './http-server.js';

const LONG = { timeout: 180_000 };

let server: TestServer;
beforeAll(async () => {
  server = await connectOwnNamespace();
  await ensureSearchAttributes(server.client.connection, server.namespace);
});
afterAll(() => server.close());

test('without a worker what it must tell is 504, and what Temporal itself does is done', LONG, async () => {
  const jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
  const bench = await startHttp(jobs, 'p');
  const { args: _, ...options } = agentJobStartOptions({ projectId: 'p', prompt: 'x' }, { key: 'k', ...server });
  await server.client.workflow.start('agentJob', { ...options, args: [{ projectId: 'p', prompt: 'x' }] });
  const path = '/v1/projects/p/jobs/k';
  const followUp = (body: object, headers = {}) => bench.send(`${path}/follow-ups`, { body, headers });
  const [state, fate, resolved, queued, polled] = await Promise.all([
    bench.send(path),
    followUp({ prompt: 'x', id: randomUUID() }, { prefer: 'wait=2' }),
    bench.send(`${path}/resolve`, { body: { action: 'retry' } }),
    followUp({ prompt: 'y' }),
    bench.send(`${path}/poll-now`, { method: 'POST' }),
  ]);
  expect([state.status, state.body]).toMatchObject([504, { code: 'NO_WORKER', retryable: true }]);
  expect([fate.status, fate.body]).toMatchObject([504, { code: 'FOLLOW_UP_UNCONFIRMED', retryable: true }]);
  expect([resolved.status, resolved.body]).toMatchObject([504, { code: 'NO_WORKER', retryable: false }]);
  expect([queued.status, polled.status]).toEqual([202, 202]);
  expect((await bench.send(`${path}/cancel`, { method: 'POST' })).status).toBe(202);
  await server.client.workflow.getHandle('agent-job/p/k').terminate();
  const { status, body } = await bench.send(path, { headers: { prefer: 'wait=5' } });
  expect([status, body]).toMatchObject([200, { state: null, result: { failure: { type: 'Terminated' } } }]);
  await bench.close();
});

test('while Temporal is away each call is 503 with Retry-After', LONG, async () => {
  const program = await startPrivateDevServer();
  const jobs = await AgentJobs.connect({ address: program.address, namespace: program.namespace });
  const bench = await startHttp(jobs, 'p');
  expect((await bench.send('/readyz')).status).toBe(200);
  await program.stop();
  const path = '/v1/projects/p/jobs';
  const within10Seconds = { signal: AbortSignal.timeout(10_000) };
  const answers = await Promise.all([
    ...[path, `${path}/k`, `${path}/k/events`].map((one) => bench.send(one)),
    ...['cancel', 'poll-now'].map((call) => bench.send(`${path}/k/${call}`, { method: 'POST' })),
    bench.send(path, { body: { prompt: 'x' }, headers: { 'idempotency-key': 'k' }, ...within10Seconds }),
    bench.send(`${path}/k/follow-ups`, { body: { prompt: 'x', id: 'f' }, ...within10Seconds }),
  ]);
  for (const { status, headers, body } of answers) {
    expect([status, body]).toMatchObject([
      503,
      { code: expect.stringMatching(/^(TEMPORAL_UNAVAILABLE|FOLLOW_UP_UNCONFIRMED)$/), retryable: true },
    ]);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  }
  expect((await bench.send('/healthz')).status).toBe(200);
  expect((await bench.send('/readyz')).status).toBe(503);
  expect(bench.problems).toEqual([]);
  await bench.close();
  await jobs.close();
});

test('a server without the key of the payloads says so, and that it is no use to try again', LONG, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-http-keys-'));
  const [workers, others] = await Promise.all(
    ['workers', 'others'].map(async (id) => {
      const path = join(folder, `${id}.json`);
      await writeFile(path, JSON.stringify({ current: id, keys: { [id]: randomBytes(32).toString('base64') } }));
      return { payloadCodecs: [openPayloadCodec(path)] };
    }),
  );
  const encrypted = await startJobServer(await connectOwnNamespace(), workers);
  const { address, namespace, taskQueue, projectId } = encrypted;
  const jobs = await AgentJobs.connect({ address, namespace, taskQueue, dataConverter: workers });
  const { key } = await jobs.start({ projectId, key: 'k', prompt: 'x', linger: '1 hour' });
  for (const dataConverter of [undefined, others]) {
    const blind = await AgentJobs.connect({ address, namespace, taskQueue, dataConverter });
    const bench = await startHttp(blind, projectId);
    const path = `/v1/projects/${projectId}/jobs/${key}`;
    const followUp = { body: { prompt: 'x', id: 'a' }, headers: { prefer: 'wait=20' } };
    for (const answer of [await bench.send(path), await bench.send(`${path}/follow-ups`, followUp)]) {
      expect([answer.status, answer.body]).toMatchObject([502, { code: 'PAYLOAD_KEYS', retryable: false }]);
      expect(answer.body.detail).toMatch(dataConverter ? /has no key "workers": add it/ : /set PAYLOAD_KEYS_FILE/);
      expect(answer.headers.get('content-type')).toBe('application/problem+json');
    }
    expect(bench.problems).toEqual([]);
    await bench.close();
    await blind.close();
  }
  await jobs.handle({ projectId, key: 'k' }).cancel();
  await jobs.close();
  await encrypted.close();
});

/** An error of each code, and the status that it is told with. */
const ERRORS: Record<AgentJobsError['code'], [status: number, error: AgentJobsError]> = {
  CONFIG: [502, new client.ConfigError([])],
  CREATE_REJECTED: [409, new client.CreateRejectedError('w', { status: 400, error: 'no' })],
  EXPORT_CANCELED: [409, new client.ExportCanceledError('w')],
  EXPORT_FAILED: [409, new client.ExportFailedError('w', 'ExportRejected', 'no')],
  FOLLOW_UP_CONFLICT: [422, new client.FollowUpConflictError('w', 'id')],
  FOLLOW_UP_UNCONFIRMED: [504, new client.FollowUpUnconfirmedError('w', 'id', 'no')],
  INVALID_INPUT: [422, new client.InvalidInputError('field', 'is wrong')],
  JOB_CANCELED: [409, new client.JobCanceledError('w', null)],
  JOB_ENDED: [409, new client.JobEndedError('w', 'COMPLETED')],
  JOB_FAILED: [409, new client.JobFailedError('w', 'no')],
  JOB_NOT_FOUND: [404, new client.JobNotFoundError('w', 'no')],
  JOB_PAUSED: [409, new client.JobPausedError('w', 'no')],
  JOB_TERMINATED: [409, new client.JobTerminatedError('w', 'no', null)],
  KEY_CONFLICT: [422, new client.KeyConflictError('w', 'no')],
  MESSAGE_REFUSED: [409, new client.MessageRefusedError('w', 'no')],
  NO_JOB: [409, new client.NoJobError('w', 'no')],
  NO_WORKER: [504, new client.NoWorkerError('w', 'no')],
  PAYLOAD_KEYS: [502, new client.PayloadKeysError('no')],
  SEARCH_ATTRIBUTES_REFUSED: [502, new client.SearchAttributesRefusedError('n', null)],
  TEMPORAL_CALL: [502, new client.TemporalCallError('no')],
  TEMPORAL_UNAVAILABLE: [503, new client.TemporalUnavailableError('no')],
  UNKNOWN_OUTCOME: [
    409,
    new client.UnknownOutcomeError('w', { kind: 'create', jobId: null, followUpId: null, reason: 'no' }),
  ],
  USED_IDS_UNKNOWN: [409, new client.UsedIdsUnknownError('w', 'no')],
};

test('each error of the client is told as a problem with its code, and never as a fault of this server', async () => {
  let thrown: AgentJobsError;
  const handle = () => ({ pollNow: () => Promise.reject(thrown) });
  const bench = await startHttp({ handle } as unknown as AgentJobs, 'p');
  for (const [code, [status, error]] of Object.entries(ERRORS)) {
    thrown = error;
    const answer = await bench.send('/v1/projects/p/jobs/k/poll-now', { method: 'POST' });
    const { message: detail, retryable } = error;
    expect([answer.status, answer.body]).toMatchObject([status, { status, code, detail, retryable }]);
    expect(answer.headers.get('content-type')).toBe('application/problem+json');
    expect(answer.headers.has('retry-after')).toBe(status === 503);
  }
  expect(bench.problems).toEqual([]);
  await bench.close();
});
