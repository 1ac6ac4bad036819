import { getEventListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { ServiceError, type Client } from '@temporalio/client';
import { expect, test } from 'vitest';
import { TemporalCallError } from '../../src/client/errors.js';
import { longWait } from '../../src/client/temporal-call.js';
import { waitForResult } from '../../src/client/agent-job/wait.js';

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
  expect(await longWait(client, undefined, () => answers.shift()!(), { acceptedAfterMs: 20 })).toBe('completed');
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

test('a hundred waits on one signal make Node warn of no leak, and leave nothing on it', async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => void warnings.push(warning);
  process.on('warning', onWarning);
  const stop = new AbortController();
  const never = () => new Promise<never>(() => {});
  const waits = Array.from({ length: 100 }, () => longWait(failingOnce(14), stop.signal, never));
  await expect(longWait(failingOnce(14), stop.signal, () => Promise.resolve('ended'))).resolves.toBe('ended');
  const reason = new Error('enough');
  stop.abort(reason);
  const ends = await Promise.allSettled(waits);
  // Warnings are emitted on a later tick.
  await delay(0);
  process.off('warning', onWarning);
  expect(ends).toEqual(waits.map(() => ({ status: 'rejected', reason })));
  expect(warnings).toEqual([]);
  expect(getEventListeners(stop.signal, 'abort')).toEqual([]);
});
