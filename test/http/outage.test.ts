/** What callers get while Temporal, every worker or a key is away, and of each error of the client. */
import { randomBytes, randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { agentJobStartOptions } from '../../src/agent-job/start-options.js';
import { openPayloadCodec } from '../../src/starter/codec.js';
import { AgentJobs, AgentJobsError } from '../../src/starter.js';
import { startJobServer } from '../client/job-server.js';
import { connectOwnNamespace, startPrivateDevServer } from '../support/dev-server.js';
import { byId, openRequests, startHttp } from './http-server.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

const server = useForFile(connectOwnNamespace);

test('without a worker what it must answer is 504, and what Temporal itself does is done', async () => {
  const jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
  const bench = await startHttp(jobs, 'p');
  const { args: _, ...options } = agentJobStartOptions({ projectId: 'p', prompt: 'x' }, { key: 'k', ...server });
  await server.client.workflow.start('agentJob', { ...options, args: [{ projectId: 'p', prompt: 'x' }] });
  const path = '/v1/projects/p/jobs/k';
  const followUp = (body: object, headers = {}) => bench.send(`${path}/follow-ups`, { body, headers });
  const known = { prompt: 'x', id: randomUUID() };
  const [state, fate, unnamed, resolved, queued, polled] = await Promise.all([
    untilTemporalAnswers(() => bench.send(path)),
    untilTemporalAnswers(() => followUp(known, { prefer: 'wait=10' })),
    untilTemporalAnswers(() => followUp({ prompt: 'z' }, { prefer: 'wait=10' })),
    untilTemporalAnswers(() => bench.send(`${path}/resolve`, { body: { action: 'retry' } })),
    followUp({ prompt: 'y' }),
    bench.send(`${path}/poll-now`, { method: 'POST' }),
  ]);
  expect([state.status, state.body]).toMatchObject([504, { code: 'NO_WORKER', retryable: true }]);
  expect([fate.status, fate.body]).toMatchObject([504, { code: 'FOLLOW_UP_UNCONFIRMED', retryable: true }]);
  // The same call would send another one.
  expect([unnamed.status, unnamed.body]).toMatchObject([504, { code: 'FOLLOW_UP_UNCONFIRMED', retryable: false }]);
  expect([resolved.status, resolved.body]).toMatchObject([504, { code: 'NO_WORKER', retryable: false }]);
  expect([queued.status, polled.status]).toEqual([202, 202]);
  expect((await bench.send(`${path}/cancel`, { method: 'POST' })).status).toBe(202);
  await server.client.workflow.getHandle('agent-job/p/k').terminate();
  const { status, body } = await bench.send(path, { headers: { prefer: 'wait=5' } });
  expect([status, body]).toMatchObject([409, { code: 'JOB_TERMINATED', retryable: false }]);
  await bench.close();
});

test('a server that is about to end answers a follow-up that waits for its outcome: it is queued', async () => {
  const jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
  const bench = await startHttp(jobs, 'p');
  const { workflowId } = await jobs.start({ projectId: 'p', prompt: 'x', key: randomUUID() });
  const path = `${byId(workflowId)}/follow-ups`;
  const sent = bench.send(path, { body: { prompt: 'more' }, headers: { prefer: 'wait=60' } });
  await expect.poll(() => openRequests(bench)).toBe(1);
  await bench.close();
  const { status, body } = await sent;
  expect([status, body]).toEqual([202, { id: expect.any(String) as string, state: 'queued', checked: false }]);
  const handle = server.client.workflow.getHandle(workflowId);
  const { events } = await handle.fetchHistory();
  expect(events?.filter((event) => event.workflowExecutionSignaledEventAttributes)).toHaveLength(1);
  await handle.terminate();
});

test('while Temporal is away each call is 503 with Retry-After', async () => {
  const program = await startPrivateDevServer();
  const jobs = await AgentJobs.connect({ address: program.address, namespace: program.namespace });
  const bench = await startHttp(jobs, 'p');
  expect((await bench.send('/readyz')).status).toBe(200);
  await program.stop();
  const path = '/v1/projects/p/jobs';
  // The limit of a start is 9 seconds, not the 20 of a follow-up's fate; the rest is for a busy machine.
  const inTime = { signal: AbortSignal.timeout(15_000) };
  const answers = await Promise.all([
    ...[path, `${path}/k`, `${path}/k/events`].map((one) => bench.send(one)),
    ...['cancel', 'poll-now'].map((call) => bench.send(`${path}/k/${call}`, { method: 'POST' })),
    bench.send(path, { body: { prompt: 'x' }, headers: { 'idempotency-key': 'k' }, ...inTime }),
    bench.send(`${path}/k/follow-ups`, { body: { prompt: 'x', id: 'f' }, ...inTime }),
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

test('a server without the key of the payloads says so, and that it is no use to try again', async () => {
  const folder = newFolder();
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
  await encrypted.sandbox.addScript({ script: { activeMs: 3_600_000 } });
  const { key } = await jobs.start({ projectId, key: 'k', prompt: 'x' });
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

/** The codes of the client's errors, by the status of their problem. */
const CODES: Record<number, AgentJobsError['code'][]> = {
  404: ['JOB_NOT_FOUND'],
  409: [
    ...(['CREATE_REJECTED', 'EXPORT_CANCELED', 'EXPORT_FAILED', 'JOB_CANCELED', 'JOB_ENDED', 'JOB_FAILED'] as const),
    ...(['JOB_PAUSED', 'JOB_TERMINATED', 'MESSAGE_REFUSED', 'NO_JOB', 'UNKNOWN_OUTCOME', 'USED_IDS_UNKNOWN'] as const),
  ],
  422: ['FOLLOW_UP_CONFLICT', 'INVALID_INPUT', 'KEY_CONFLICT'],
  502: ['CONFIG', 'PAYLOAD_KEYS', 'SEARCH_ATTRIBUTES_REFUSED', 'TEMPORAL_CALL'],
  503: ['TEMPORAL_UNAVAILABLE'],
  504: ['FOLLOW_UP_UNCONFIRMED', 'NO_WORKER'],
};

test('each error of the client is a problem with its code, and never as a fault of this server', async () => {
  let thrown: unknown;
  const handle = () => ({ pollNow: () => Promise.reject(thrown as Error) });
  const bench = await startHttp({ handle } as unknown as AgentJobs, 'p');
  const all = Object.entries(CODES).flatMap(([status, codes]) => codes.map((code) => [Number(status), code] as const));
  for (const [status, code] of all) {
    const retryable = status === 503;
    const error = Object.create(AgentJobsError.prototype) as Error;
    thrown = Object.assign(error, { code, message: 'why', retryable });
    const answer = await bench.send('/v1/projects/p/jobs/k/poll-now', { method: 'POST' });
    expect([answer.status, answer.body]).toMatchObject([status, { status, code, detail: 'why', retryable }]);
    expect(answer.headers.get('content-type')).toBe('application/problem+json');
    expect(answer.headers.has('retry-after')).toBe(status === 503);
  }
  expect(bench.problems).toEqual([]);
  await bench.close();
});

/** Asks again, as 503 wants it: a busy Temporal server may not say in time that no worker is there. */
async function untilTemporalAnswers<T extends { status: number }>(ask: () => Promise<T>): Promise<T> {
  let answer = await ask();
  for (let tries = 1; tries < 4 && answer.status === 503; tries++) answer = await ask();
  return answer;
}
