import { expect, test } from 'vitest';
import type { FaultRule, Sandbox } from '../../src/testing.js';
import { createJob, getJob, getVisitors, sandboxForTest, sendMessage } from './support.js';

/** The error code that a create ends in. */
async function createError(sandbox: Sandbox, timeoutMs?: number): Promise<string> {
  const error = await createJob(sandbox, 'Add a page', timeoutMs === undefined ? {} : { timeoutMs }).then(
    (reply) => new Error(`answered ${reply.status}`),
    (reason: Error & { code?: string }) => reason,
  );
  return (error as { code?: string }).code ?? error.message;
}

test('a write that is delayed before its effect takes effect although its caller has gone', async () => {
  const sandbox = await sandboxForTest();
  await sandbox.addFault({ kind: 'delay', delayMs: 12_000, effect: 'before' });
  expect(await createError(sandbox, 3_000)).toBe('ABORT_ERR');
  expect(await sandbox.creates()).toEqual([]);
  await expect.poll(() => sandbox.creates()).toHaveLength(1);
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

test('a success that is injected after the effect does not hide that a write was refused', async () => {
  const sandbox = await sandboxForTest({ rateLimits: { create: 0 } });
  await sandbox.addFault({ kind: 'status', status: 201, effect: 'after' });
  expect((await createJob(sandbox)).status).toBe(429);
  expect(await sandbox.creates()).toEqual([]);
});

test('a rule strikes only what it matches, from the nth on, as often as it says', async () => {
  const sandbox = await sandboxForTest();
  const { id } = (await createJob(sandbox)).json;
  await sandbox.addFault({ kind: 'status', status: 500, operation: 'get', nth: 2, count: 2 });
  await sandbox.addFault({ kind: 'status', status: 501, promptIncludes: 'footer' });
  const statuses = [];
  for (let i = 0; i < 5; i++) statuses.push((await getJob(sandbox, id)).status);
  expect(statuses).toEqual([200, 500, 500, 200, 200]);
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

test('a rule with a word that no rule has is refused', async () => {
  const sandbox = await sandboxForTest();
  await expect(sandbox.addFault({ kind: 'hang', kount: 3 } as FaultRule)).rejects.toThrow(/kount/);
  expect(await sandbox.faults()).toEqual([]);
});
