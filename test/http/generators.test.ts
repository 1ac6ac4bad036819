/**
 * Clients that generators make of the OpenAPI document, in four languages: each starts a job, and tells a running, a
 * completed and a failed one apart.
 */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { generateSource } from 'oazapfts';
import { beforeAll, expect, test } from 'vitest';
import { QUICK } from '../client/job-server.js';
import { needToolchain } from '../support/toolchains.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';
import { startHttpJobServer } from './http-server.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const programs = join(ROOT, 'test/http/generators');
/** Compilers are fetched, and libraries. */
const PATIENCE_MS = 15 * 60_000;

const server = useForFile(startHttpJobServer);
const folder = newFolder();
const document = join(folder, 'openapi.json');
beforeAll(async () => {
  const { body } = await server.bench.send('/openapi.json');
  await writeFile(document, JSON.stringify(body));
  await server.sandbox.addScript({ promptIncludes: 'endless', script: { activeMs: 3_600_000 } });
  await server.sandbox.addFault({ kind: 'status', status: 400, promptIncludes: 'rejected', count: 1 });
  const start = (key: string, prompt: string) =>
    server.jobs.start({ ...QUICK, projectId: server.projectId, key, prompt });
  const [, ...ending] = await Promise.all([
    start('running', 'endless'),
    start('completed', 'do it'),
    start('failed', 'rejected'),
  ]);
  await Promise.allSettled(ending.map((job) => job.result()));
});

async function run(program: string, args: string[], { cwd = folder, env = {} } = {}): Promise<string> {
  const options = { cwd, env: { ...process.env, ...env }, maxBuffer: 64 * 1024 * 1024 };
  // Compilers say what is wrong on standard output.
  const failed = ({ message, stdout }: Error & { stdout: string }) => Promise.reject(new Error(message + stdout));
  return (await promisify(execFile)(program, args, options).catch(failed)).stdout;
}

/** What the program of a client prints of a job that it starts, and of the three. */
async function told(name: string, program: string, args: string[], options?: { cwd: string; env?: object }) {
  const { own, http } = server.bench;
  return (await run(program, [...args, http.url, own, server.projectId, name], options)).trim().split('\n');
}

const ALL = ['started true', 'running watching', expect.stringMatching(/^completed http/), 'failed CreateRejected'];

const PROGRAM = `
import { ok } from '@oazapfts/runtime';
import { defaults, getJob, startJob } from './api.js';

const [, , url = '', key, project = '', name] = process.argv;
Object.assign(defaults, { baseUrl: url, headers: { authorization: \`Bearer \${key}\` } });
const { isNew } = await ok(startJob(project, \`by-\${name}\`, { prompt: 'do it', settle: '0 s' }));
console.log('started', isNew);
for (const one of ['running', 'completed', 'failed']) {
  const { result, failure, state } = await ok(getJob(project, one));
  if (result) console.log(result.outcome, result.prLink);
  else if (failure) console.log('failed', failure.type);
  else console.log('running', state?.phase);
}`;

test('TypeScript, by oazapfts', async () => {
  const cwd = join(folder, 'typescript');
  await mkdir(cwd);
  await symlink(join(ROOT, 'node_modules'), join(cwd, 'node_modules'));
  await writeFile(join(cwd, 'package.json'), '{"type": "module"}');
  await writeFile(join(cwd, 'api.ts'), await generateSource(document));
  await writeFile(join(cwd, 'program.ts'), PROGRAM);
  const strict = ['--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext', '--types', 'node'];
  await run(join(cwd, 'node_modules/.bin/tsc'), [...strict, 'program.ts'], { cwd });
  expect(await told('typescript', process.execPath, ['--import', 'tsx', 'program.ts'], { cwd })).toEqual(ALL);
});

test('Go, by oapi-codegen', { timeout: PATIENCE_MS }, async (context) => {
  const go = await needToolchain(context, 'go');
  const cwd = join(folder, 'go');
  await mkdir(join(cwd, 'jobs'), { recursive: true });
  const generator = 'github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2';
  const made = await run(go, ['run', generator, '-generate', 'types,client', '-package', 'jobs', document], { cwd });
  await writeFile(join(cwd, 'jobs/jobs.go'), made);
  await copyFile(join(programs, 'program.go'), join(cwd, 'main.go'));
  await run(go, ['mod', 'init', 'example.com/program'], { cwd });
  await run(go, ['mod', 'tidy'], { cwd });
  expect(await told('go', go, ['run', '.'], { cwd })).toEqual(ALL);
});

test('Python, by openapi-generator', { timeout: PATIENCE_MS }, async (context) => {
  const generator = await needToolchain(context, 'openapiGenerator');
  const made = join(folder, 'python');
  await run(generator, ['generate', '-g', 'python', '-i', document, '-o', made]);
  const installed = join(folder, 'python-packages');
  await run('python3', ['-m', 'pip', 'install', '--no-input', '--quiet', '--target', installed, made], {
    env: { PIP_USER: '0' },
  });
  const options = { cwd: folder, env: { PYTHONPATH: installed } };
  expect(await told('python', 'python3', [join(programs, 'program.py')], options)).toEqual(ALL);
});

test.for([
  { library: 'okhttp-gson', setUp: 'client.setBasePath(url).setBearerToken(key);' },
  {
    library: 'native',
    setUp: 'client.updateBaseUri(url); client.setRequestInterceptor(r -> r.header("Authorization", "Bearer " + key));',
  },
])('Java with $library, by openapi-generator', { timeout: PATIENCE_MS }, async ({ library, setUp }, context) => {
  const [generator, maven] = [await needToolchain(context, 'openapiGenerator'), await needToolchain(context, 'maven')];
  const cwd = join(folder, library);
  await run(generator, ['generate', '-g', 'java', '--library', library, '-i', document, '-o', cwd]);
  const goals = ['compile', 'dependency:build-classpath', '-Dmdep.outputFile=classpath'];
  await run(maven, ['-q', '-B', '-Dmaven.test.skip', ...goals], { cwd });
  const program = await readFile(join(programs, 'Program.java'), 'utf8');
  await writeFile(join(cwd, 'Program.java'), program.replace('// SET UP', setUp));
  const classes = `target/classes:${await readFile(join(cwd, 'classpath'), 'utf8')}`;
  expect(await told(library, 'java', ['-cp', classes, 'Program.java'], { cwd })).toEqual(ALL);
});
