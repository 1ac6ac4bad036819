import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { SANDBOX_API_KEY } from '../../src/testing.js';
import { call, createJob, sandboxForTest } from './support.js';

const PAGE = await readFile(join(import.meta.dirname, '../../docs/sandbox.md'), 'utf8');
const LINES = [...PAGE.matchAll(/```sh\n([^]*?)```/g)].flatMap(([, block]) => block!.trim().split('\n'));

test('the page’s commands work as they are written, and leave the sandbox with its own key', async () => {
  const sandbox = await sandboxForTest();
  expect(LINES.length).toBeGreaterThan(3);
  for (const line of LINES) {
    const env = { ...process.env, URL: sandbox.url, NO_PROXY: '*' };
    const { stdout } = await promisify(execFile)('sh', ['-c', line], { env });
    expect([line, stdout]).toEqual([line, expect.stringMatching(/^\{"result":/)]);
  }
  expect(PAGE).toContain(`\`${SANDBOX_API_KEY}\``);
  await sandbox.clearFaults();
  expect((await createJob(sandbox)).status).toBe(201);
});

test('the control takes no command that a web page sends, and POST alone: an image on a page is a GET', async () => {
  const sandbox = await sandboxForTest();
  const command = (headers: Record<string, string>, method = 'POST') =>
    call(sandbox, method, '/__sandbox/setKeys', ['stolen'], { headers });
  const hostile: [Record<string, string>, string?][] = [
    [{ origin: 'https://evil.example' }],
    [{ origin: 'null' }],
    [{ origin: 'https://evil.example', 'content-type': 'text/plain' }],
    [{ origin: `http://127.0.0.1:${sandbox.port}` }],
    [{ 'sec-fetch-site': 'cross-site' }],
    [{ 'sec-fetch-site': 'cross-site' }, 'GET'],
    // A domain of the page's own that points here.
    [{ host: `evil.example:${sandbox.port}`, origin: `http://evil.example:${sandbox.port}` }],
  ];
  for (const [headers, method] of hostile) {
    expect((await command(headers, method)).status, JSON.stringify(headers)).toBe(403);
  }
  for (const method of ['GET', 'HEAD', 'PUT', 'OPTIONS']) {
    const { status, headers } = await command({}, method);
    expect([status, headers.allow]).toEqual([405, 'POST']);
  }
  expect((await createJob(sandbox)).status).toBe(201);
});
