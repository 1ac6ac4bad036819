import { expect, test } from 'vitest';
import { SandboxControl } from '../../src/testing.js';
import { call, createJob, sandboxForTest } from './support.js';

const command = (
  sandbox: Awaited<ReturnType<typeof sandboxForTest>>,
  headers: Record<string, string>,
  method = 'POST',
) => call(sandbox, method, '/__sandbox/setKeys', { keys: ['stolen'] }, { headers });

test('the control takes no command that a web page sends, whatever the page claims to be', async () => {
  const sandbox = await sandboxForTest();
  const own = `127.0.0.1:${sandbox.port}`;
  const hostile: [Record<string, string>, string?][] = [
    [{ origin: 'https://evil.example' }],
    [{ origin: 'null' }],
    [{ origin: 'https://evil.example', 'content-type': 'text/plain' }],
    [{ origin: `http://${own}` }],
    [{ 'sec-fetch-site': 'cross-site' }],
    [{ 'sec-fetch-site': 'cross-site' }, 'GET'],
    // A domain of the page's own that points here.
    [{ host: `evil.example:${sandbox.port}` }],
    [{ host: `127.0.0.1.evil.example:${sandbox.port}` }],
    [{ host: `evil.example:${sandbox.port}`, origin: `http://evil.example:${sandbox.port}` }],
    [{ host: `not a host` }],
  ];
  for (const [headers, method] of hostile) {
    expect((await command(sandbox, headers, method)).status, JSON.stringify(headers)).toBe(403);
  }
  expect((await createJob(sandbox)).status).toBe(201);
});

test('the control takes POST alone: an image on a page is a GET', async () => {
  const sandbox = await sandboxForTest();
  for (const method of ['GET', 'HEAD', 'PUT', 'OPTIONS']) {
    const { status, headers } = await command(sandbox, {}, method);
    expect([status, headers.allow]).toEqual([405, 'POST']);
  }
  expect((await createJob(sandbox)).status).toBe(201);
});

test('programs reach the control by address, localhost, a container’s name and a name that is allowed', async () => {
  const sandbox = await sandboxForTest({ allowedHosts: ['Sandbox.ci.internal'] });
  for (const name of ['127.0.0.1', '[::1]', 'localhost', 'LOCALHOST', 'sandbox', 'sandbox.ci.internal']) {
    expect((await command(sandbox, { host: `${name}:${sandbox.port}` })).status, name).toBe(200);
  }
  expect(await new SandboxControl(sandbox.url).counts()).toMatchObject({ jobs: 0 });
});
