import { Agent } from 'node:http';
import { expect, test } from 'vitest';
import type { FaultRule, Sandbox } from '../../src/testing.js';
import { CHAOS_KINDS } from '../../src/testing.js';
import { createJob, getJob, getVisitors, sandboxForTest, sendMessage } from './support.js';

/** The error code that a create ends in. */
async function createError(sandbox: Sandbox, timeoutMs?: number): Promise<string> {
  const error = await createJob(sandbox, 'Add a page', timeoutMs === undefined ? {} : { timeoutMs }).then(
    (reply) => new Error(`answered ${reply.status}`),
    (reason: Error & { code?: string }) => reason,
  );
  return (error as { code?: string }).code ?? error.message;
}

test('a slow answer comes in whole', async () => {
  const sandbox = await sandboxForTest();
  await sandbox.addFault({ kind: 'slow', chunkBytes: 20, chunkDelayMs: 1 });
  const reply = await createJob(sandbox);
  expect(reply.status).toBe(201);
  expect(reply.json.id).toMatch(/^job_/);
});

test('a write that is delayed before its effect takes effect although its caller has gone', async () => {
  const sandbox = await sandboxForTest();
  await sandbox.addFault({ kind: 'delay', delayMs: 12_000, effect: 'before' });
  expect(await createError(sandbox, 3_000)).toBe('ABORT_ERR');
  expect((await sandbox.counts()).jobs).toBe(0);
  await expect.poll(async () => (await sandbox.counts()).jobs).toBe(1);
});

test('a write that is delayed after its effect has taken effect when its caller goes', async () => {
  const sandbox = await sandboxForTest();
  await sandbox.addFault({ kind: 'delay', delayMs: 12_000, effect: 'after' });
  expect(await createError(sandbox, 3_000)).toBe('ABORT_ERR');
  expect((await sandbox.counts()).jobs).toBe(1);
});

test('a status carries any body, headers and Retry-After', async () => {
  const sandbox = await sandboxForTest();
  await sandbox.addFault({ kind: 'status', status: 429, retryAfter: 7 });
  await sandbox.addFault({ kind: 'status', status: 429, retryAfter: 'soon' });
  await sandbox.addFault({ kind: 'status', status: 429, retryAfterDateMs: 60_000 });
  await sandbox.addFault({ kind: 'status', status: 418, body: 'short and stout', headers: { 'x-pot': 'tea' } });
  expect((await createJob(sandbox)).headers['retry-after']).toBe('7');
  expect((await createJob(sandbox)).headers['retry-after']).toBe('soon');
  const date = Date.parse((await createJob(sandbox)).headers['retry-after'] ?? '');
  expect(date).toBeGreaterThan(Date.now());
  const last = await createJob(sandbox);
  expect([last.status, last.text, last.headers['x-pot']]).toEqual([418, 'short and stout', 'tea']);
});

test('errors of the analytics operation carry details, those of the agent operations do not', async () => {
  const sandbox = await sandboxForTest();
  await sandbox.addFault({ kind: 'status', status: 500, count: 2 });
  expect((await createJob(sandbox)).json).toEqual({ error: 'Injected 500' });
  expect((await getVisitors(sandbox)).json).toEqual({
    error: 'Injected 500',
    details: [{ message: 'Injected 500' }],
  });
});

test('a redirect leads by default to a target that counts its visits', async () => {
  const sandbox = await sandboxForTest();
  await sandbox.addFault({ kind: 'redirect', operation: 'create' });
  const reply = await createJob(sandbox, 'secret plan');
  expect(reply.status).toBe(307);
  expect((await sandbox.counts()).redirectTargetVisits).toBe(0);
  await fetch(String(reply.headers.location), { method: 'POST', body: 'secret plan' });
  expect((await sandbox.counts()).redirectTargetVisits).toBe(1);
  await sandbox.addFault({ kind: 'redirect', status: 302, location: 'http://localhost:9/elsewhere' });
  expect((await createJob(sandbox)).headers.location).toBe('http://localhost:9/elsewhere');
});

test('a connection is closed after a whole answer, unannounced', async () => {
  const sandbox = await sandboxForTest();
  await sandbox.addFault({ kind: 'closeAfter' });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const reply = await createJob(sandbox, 'x', { agent });
  expect([reply.status, reply.headers.connection]).toEqual([201, 'keep-alive']);
  await expect.poll(async () => (await sandbox.counts()).connections.open, { timeout: 5_000 }).toBe(0);
  agent.destroy();
});

test('a rule strikes only what it matches, from the nth on, as often as it says', async () => {
  const sandbox = await sandboxForTest();
  const { id } = (await createJob(sandbox)).json;
  await sandbox.addFault({ kind: 'status', status: 500, operation: 'get', jobId: id, nth: 2, count: 2 });
  await sandbox.addFault({ kind: 'status', status: 501, promptIncludes: 'footer' });
  const statuses = [];
  for (let i = 0; i < 5; i++) statuses.push((await getJob(sandbox, id)).status);
  expect(statuses).toEqual([200, 500, 500, 200, 200]);
  expect((await getJob(sandbox, 'other')).status).toBe(404);
  expect((await sendMessage(sandbox, id, 'a header')).status).toBe(200);
  expect((await sendMessage(sandbox, id, 'a footer')).status).toBe(501);
  expect((await sandbox.faults()).map(({ matched, injected }) => [matched, injected])).toEqual([
    [5, 2],
    [1, 1],
  ]);
  expect(await sandbox.messages()).toHaveLength(1);
});

test('the same seed strikes the same requests', async () => {
  const run = async () => {
    const sandbox = await sandboxForTest();
    await sandbox.addFault({ kind: 'status', status: 500, probability: 0.3, seed: 7 });
    const statuses: number[] = [];
    for (let i = 0; i < 40; i++) statuses.push((await getVisitors(sandbox, '?limit=1')).status);
    return statuses;
  };
  const first = await run();
  expect(new Set(first)).toEqual(new Set([200, 500]));
  expect(await run()).toEqual(first);
});

test('chaos strikes with every kind it is asked for', async () => {
  const sandbox = await sandboxForTest({ script: { activeMs: 0 } });
  const { id } = (await createJob(sandbox)).json;
  const kinds = CHAOS_KINDS.filter((kind) => !['hang', 'stallBody', 'oversized', 'connect'].includes(kind));
  await sandbox.chaos({ seed: 3, percent: 6, kinds, delayMs: 1 });
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  await Promise.all(
    Array.from({ length: 400 }, (_, i) =>
      (i % 2 ? getJob(sandbox, id, { agent }) : createJob(sandbox)).catch(() => {}),
    ),
  );
  agent.destroy();
  const { faults } = await sandbox.counts();
  const injected = new Set(kinds.map((kind) => (kind === 'rateLimit' ? 'status' : kind)));
  expect(new Set(Object.keys(faults))).toEqual(injected);
  await sandbox.clearFaults();
  expect((await getJob(sandbox, id)).status).toBe(200);
  await expect(sandbox.chaos({ seed: 1, percent: 1, kinds: ['flood'] })).rejects.toThrow('no chaos of kind "flood"');
});

test.each([
  [{ kind: 'reset', at: 'headers', effect: 'after' }, /can't be "after"/],
  [{ kind: 'reset', at: 'body', promptIncludes: 'x' }, /matched by prompt/],
  [{ kind: 'reset', at: 'connect', operation: 'create' }, /at connect/],
  [{ kind: 'hang', kount: 3 }, /kount/],
])('a rule that could never strike as it says is refused: %j', async (rule, words) => {
  const sandbox = await sandboxForTest();
  await expect(sandbox.addFault(rule as FaultRule)).rejects.toThrow(words);
  expect(await sandbox.faults()).toEqual([]);
});
