import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { SANDBOX_API_KEY } from '../../src/testing.js';
import { call, createJob, getJob, sandboxForTest } from './support.js';

const PAGE = await readFile(join(import.meta.dirname, '../../docs/sandbox.md'), 'utf8');
const LINES = [...PAGE.matchAll(/```sh\n([^]*?)```/g)].flatMap(([, block]) => block!.trim().split('\n'));

test('the page’s commands work as they are written, and leave the sandbox with its own key', async () => {
  const sandbox = await sandboxForTest();
  expect(LINES.length).toBeGreaterThan(4);
  for (const line of LINES) {
    const env = { ...process.env, URL: sandbox.url, NO_PROXY: '*' };
    const { stdout } = await promisify(execFile)('sh', ['-c', line], { env });
    expect([line, stdout]).toEqual([line, expect.stringMatching(/^\{"result":/)]);
  }
  expect(PAGE).toContain(`\`${SANDBOX_API_KEY}\``);
  await sandbox.clearFaults();
  expect((await createJob(sandbox)).status).toBe(201);
});

test('a command takes the argument of its method over HTTP, and the same by its name', async () => {
  const sandbox = await sandboxForTest();
  const { id } = (await createJob(sandbox)).json as { id: string };
  const send = async (name: string, argument: unknown) =>
    (await call(sandbox, 'POST', `/__sandbox/${name}`, argument)).json as { result?: unknown; error?: string };
  const job = await sandbox.job(id);
  for (const argument of [id, { id }]) expect(await send('job', argument)).toEqual({ result: job });
  for (const argument of [1_000, { ms: 1_000 }]) {
    expect(await send('advance', argument)).toEqual({ result: expect.any(String) });
  }
  const keys = ['first', { key: 'second', scopes: ['read'] }];
  for (const argument of [keys, { keys }]) {
    await sandbox.setKeys([sandbox.apiKey]);
    expect(await send('setKeys', argument)).toEqual({ result: null });
    expect([(await getJob(sandbox, id)).status, (await getJob(sandbox, id, { key: 'second' })).status]).toEqual([
      401, 200,
    ]);
  }
  expect(await send('removeJob', id)).toEqual({ result: null });
  expect(await send('removeJob', { id: 'none' })).toEqual({ error: expect.stringContaining('no job none') });
});

test('a wrong argument is told in its own words', async () => {
  const sandbox = await sandboxForTest();
  const errorOf = async (name: string, argument: unknown) =>
    ((await call(sandbox, 'POST', `/__sandbox/${name}`, argument)).json as { error: string }).error;
  expect(await errorOf('setKeys', { key: 'k' })).toContain('"key"');
  expect(await errorOf('setKeys', [7])).toContain('keys[0]');
  expect(await errorOf('advance', -1)).toContain('ms');
  expect(await errorOf('removeJob', null)).toContain('id');
});
