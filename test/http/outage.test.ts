/** What callers are told while Temporal, or every worker, is away. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { agentJobStartOptions } from '../../src/agent-job/start-options.js';
import { AgentJobs } from '../../src/starter.js';
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
  const answers = await Promise.all([
    ...[path, `${path}/k`, `${path}/k/events`].map((one) => bench.send(one)),
    ...['cancel', 'poll-now'].map((call) => bench.send(`${path}/k/${call}`, { method: 'POST' })),
    bench.send(path, { body: { prompt: 'x' }, headers: { 'idempotency-key': 'k' } }),
  ]);
  for (const { status, headers, body } of answers) {
    expect([status, body]).toMatchObject([503, { code: 'TEMPORAL_UNAVAILABLE', retryable: true }]);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  }
  expect((await bench.send('/healthz')).status).toBe(200);
  expect((await bench.send('/readyz')).status).toBe(503);
  expect(bench.problems).toEqual([]);
  await bench.close();
  await jobs.close();
});
