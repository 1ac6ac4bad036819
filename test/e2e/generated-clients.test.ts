/** Clients that generators make of the OpenAPI document start a job, and read its result. */
import { execFile } from 'node:child_process';
import { mkdtemp, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type HttpJobServer, startHttpJobServer } from '../http/http-server.js';
import { fetchNpmPackages } from '../support/npm-packages.js';
import { fetchPythonPackage } from '../support/python-packages.js';

const run = promisify(execFile);
const LIMIT_MS = 120_000;
const TSC = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url));

let server: HttpJobServer;
let folder: string;
let env: NodeJS.ProcessEnv;
beforeAll(async () => {
  server = await startHttpJobServer();
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-generated-'));
  const { body } = await server.bench.send('/openapi.json');
  await writeFile(join(folder, 'openapi.json'), JSON.stringify(body));
  env = { PATH: process.env['PATH'], HOME: folder, URL: server.bench.http.url, KEY: server.bench.own, no_proxy: '*' };
});
afterAll(() => server.close());

const TYPESCRIPT = `
import createClient from 'openapi-fetch';
import type { paths } from './schema.js';

const { URL: baseUrl, KEY, PROJECT = '' } = process.env as Record<string, string>;
const jobs = createClient<paths>({ baseUrl: baseUrl!, headers: { authorization: \`Bearer \${KEY}\` } });
const path = { projectId: PROJECT };
const started = await jobs.POST('/v1/projects/{projectId}/jobs', {
  params: { path, header: { 'Idempotency-Key': 'of typescript' } },
  body: { prompt: 'from TypeScript', polling: { min: '1 second', max: '1 second' }, tags: ['generated'] },
});
const key: string = started.data!.key;
const ended = await jobs.GET('/v1/projects/{projectId}/jobs/{key}', {
  params: { path: { ...path, key }, header: { Prefer: 'wait=40' } },
});
const refused = await jobs.GET('/v1/projects/{projectId}/jobs/{key}', { params: { path: { ...path, key: 'none' } } });
const result = ended.data!.result!;
console.log(JSON.stringify(['outcome' in result ? result.outcome : 'failed', refused.error!.code]));
`;

test('the types of openapi-typescript, with openapi-fetch', { timeout: LIMIT_MS + 300_000 }, async () => {
  const packages = await fetchNpmPackages('openapi-typescript', [
    'openapi-typescript@7.13.0',
    'openapi-fetch@0.17.0',
    'typescript@5.9.3',
  ]);
  await symlink(packages, join(folder, 'node_modules'));
  const options = { cwd: folder, env: { ...env, PROJECT: server.projectId }, timeout: LIMIT_MS };
  await run(
    process.execPath,
    [join(packages, 'openapi-typescript/bin/cli.js'), ...['openapi.json', '--output', 'schema.d.ts']],
    options,
  );
  await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
  await writeFile(join(folder, 'process.d.ts'), 'declare const process: { env: unknown };');
  await writeFile(join(folder, 'caller.ts'), TYPESCRIPT);
  const flags = ['--strict', '--module', 'nodenext', '--target', 'es2023', '--lib', 'es2023,dom'];
  await run(process.execPath, [TSC, ...flags, '--types', '', 'caller.ts', 'process.d.ts'], options);
  const { stdout } = await run(process.execPath, ['caller.js'], options);
  expect(JSON.parse(stdout)).toEqual(['completed', 'JOB_NOT_FOUND']);
});

const PYTHON = `
import json, os
from agent_jobs_client import AuthenticatedClient
from agent_jobs_client.api.jobs import get_job, start_job
from agent_jobs_client.models import StartJobRequest, StartJobRequestPolling

project = os.environ["PROJECT"]
polling = StartJobRequestPolling(min_="1 second", max_="1 second")
with AuthenticatedClient(base_url=os.environ["URL"], token=os.environ["KEY"], timeout=60) as client:
    request = StartJobRequest(prompt="from Python", polling=polling, tags=["generated"])
    started = start_job.sync(project, client=client, body=request, idempotency_key="of python")
    ended = get_job.sync(project, started.key, client=client, prefer="wait=40")
    missing = get_job.sync(project, "none", client=client)
print(json.dumps([ended.result.outcome, missing.code]))
`;

test('the client of openapi-python-client', { timeout: LIMIT_MS + 600_000 }, async () => {
  const packages = await fetchPythonPackage('openapi-python-client==0.29.1');
  const options = {
    cwd: folder,
    env: { ...env, PROJECT: server.projectId, PYTHONPATH: `${packages}:${join(folder, 'python')}` },
    timeout: LIMIT_MS,
  };
  await writeFile(join(folder, 'config.yml'), 'post_hooks: []\n');
  const generate = ['generate', '--path', 'openapi.json', '--output-path', 'python', '--config', 'config.yml'];
  const { stdout: warnings } = await run('python3', ['-m', 'openapi_python_client', ...generate], options);
  expect(warnings).not.toMatch(/warning|unable/i);
  await writeFile(join(folder, 'caller.py'), PYTHON);
  const { stdout } = await run('python3', ['caller.py'], options);
  expect(JSON.parse(stdout)).toEqual(['completed', 'JOB_NOT_FOUND']);
});
