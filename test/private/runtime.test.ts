import { NativeConnection, Runtime } from '@temporalio/worker';
import { expect, test } from 'vitest';
import { freePort } from '../../src/local/child-process.js';
import { keepRuntime } from '../../src/temporal/private/keep-runtime.js';

async function failToConnect(): Promise<void> {
  await expect(NativeConnection.connect({ address: `127.0.0.1:${await freePort()}` })).rejects.toThrow();
}

test('a runtime ends with a try to connect that fails, unless it is kept', async () => {
  const first = Runtime.install({});
  await failToConnect();
  // It has ended: else another could not be installed.
  const second = Runtime.install({});
  expect(second).not.toBe(first);
  keepRuntime(second);
  await failToConnect();
  expect(Runtime.instance()).toBe(second);
});
