import { setTimeout as delay } from 'node:timers/promises';
import { ServiceError, type Client } from '@temporalio/client';
import { expect, test } from 'vitest';
import { TemporalCallError } from '../../src/client/errors.js';
import { longWait } from '../../src/client/long-wait.js';
import { waitForResult } from '../../src/client/agent-job/outcome.js';

/** A client whose server answers the first request for a result with an error. */
function failingOnce(code: number): Client {
  const grpc = Object.assign(new Error(`${code}`), { code, details: 'no usable database connection', metadata: {} });
  const answers = [() => Promise.reject(new ServiceError('no result', { cause: grpc }))];
  return {
    options: { namespace: 'default' },
    withAbortSignal: (_: AbortSignal, call: () => Promise<unknown>) => call(),
    withDeadline: (_: number, call: () => Promise<unknown>) => call(),
    workflow: { result: () => (answers.shift() ?? (() => Promise.resolve({ outcome: 'completed' })))() },
  } as unknown as Client;
}

test.concurrent.each([
  ['CANCELLED', 1],
  ['UNKNOWN', 2],
  ['DEADLINE_EXCEEDED', 4],
  ['RESOURCE_EXHAUSTED', 8],
  ['ABORTED', 10],
  ['INTERNAL', 13],
  ['UNAVAILABLE', 14],
])('a wait goes on where Temporal answers %s', async (_, code) => {
  await expect(waitForResult(failingOnce(code), 'w')).resolves.toMatchObject({ outcome: 'completed' });
});

test('once the server has taken a wait, nothing that it says while it comes back ends it', async () => {
  const notFound = Object.assign(new Error('5'), { code: 5, details: 'Namespace default is not found.', metadata: {} });
  const answers = [
    () => delay(50).then(() => Promise.reject(notFound)),
    () => Promise.reject(notFound),
    () => Promise.resolve('completed'),
  ];
  const client = failingOnce(5);
  expect(await longWait(client, undefined, () => answers.shift()!(), 20)).toBe('completed');
  expect(answers).toEqual([]);
});

test('a wait whose signal was aborted before asks nothing, and ends with its reason', async () => {
  const reason = new Error('enough');
  const call = () => Promise.reject(new Error('was called'));
  await expect(longWait(failingOnce(14), AbortSignal.abort(reason), call)).rejects.toBe(reason);
});

test('a wait ends where Temporal answers PERMISSION_DENIED', async () => {
  await expect(waitForResult(failingOnce(7), 'w')).rejects.toThrow(TemporalCallError);
});
