import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { shared } from '../support/shared.js';
import { compile, compilerOf, pack, PROJECT_FOLDER, runProgram, unpackedConsumer } from './consumer.js';

const LIMIT_MS = 300_000; // a compiler and a program, each of which may take two minutes
const MAX_LINES = 10;

let consumer: string;
let home: string;
let env: Record<string, string>;
beforeAll(async () => {
  const names = ['agent-jobs', 'agent-jobs-client'] as const;
  const tarballs = await Promise.all(names.map(async (name) => [name, await pack(name)] as const));
  consumer = await unpackedConsumer(Object.fromEntries(tarballs));
  await writeFile(join(consumer, 'package.json'), '{"type": "module", "private": true}');
  home = await mkdtemp(join(tmpdir(), 'agent-jobs-home-'));
  const { path } = await shared('dev-server-program');
  // Nothing else leads to the server's program, and no network: `PATH` has Node alone.
  env = { HOME: home, TEMPORAL_CLI_PATH: path, PATH: join(process.execPath, '..'), TMPDIR: home };
});
afterAll(() => rm(home, { recursive: true, force: true }));

/** The examples of the page, in order. */
async function examples(): Promise<string[]> {
  const page = await readFile(join(PROJECT_FOLDER, 'docs/testing.md'), 'utf8');
  return [...page.matchAll(/```ts\n([^]*?)```/g)].map(([, code]) => code!);
}

/** The processes whose command line or environment names the home folder, which all of a system's do. */
async function left(): Promise<string[]> {
  const { stdout } = await promisify(execFile)('ps', ['axeww', '-o', 'pid=,args='], { maxBuffer: 2 ** 26 });
  return stdout.split('\n').filter((line) => line.includes(home) && !line.includes(' axeww '));
}

test(
  "a strict project's first test is green with at most ten lines, offline, and leaves no process",
  { timeout: LIMIT_MS },
  async () => {
    const [first = ''] = await examples();
    expect(first.trim().split('\n').filter(Boolean).length).toBeLessThanOrEqual(MAX_LINES);
    await writeFile(join(consumer, 'first.test.ts'), first);
    const options = { module: 'nodenext', target: 'es2023', types: ['node'], outDir: 'out' };
    expect(await compile(consumer, await compilerOf(null), options)).toEqual([]);
    expect(await runProgram(consumer, 'out/first.test.js', env)).toMatch(/# pass 1\n/);
    await expect.poll(left).toEqual([]);
  },
);

test('a job of hours ends in a moment', { timeout: LIMIT_MS }, async () => {
  const [, hours = ''] = await examples();
  const program = `import { startTestSystem } from 'agent-jobs/testing';
${hours}
await system.close();
await system.close();`;
  await writeFile(join(consumer, 'hours.js'), program);
  expect(await runProgram(consumer, 'hours.js', env)).toBe('completed\n');
  await expect.poll(left).toEqual([]);
});

test('a deadline of a day is met in seconds', { timeout: LIMIT_MS }, async () => {
  const [, , days = ''] = await examples();
  expect(days.trim().split('\n').length + 1).toBeLessThanOrEqual(MAX_LINES);
  const program = `import { startTestSystem } from 'agent-jobs/testing';
${days}
await system.close();`;
  await writeFile(join(consumer, 'days.js'), program);
  expect(await runProgram(consumer, 'days.js', env)).toBe('timedOut\n');
  await expect.poll(left).toEqual([]);
});

test('the example of the fake runs without any process', { timeout: LIMIT_MS }, async () => {
  const [, , , fake = ''] = await examples();
  await writeFile(join(consumer, 'fake.ts'), fake);
  const options = { module: 'nodenext', target: 'es2023', types: ['node'], outDir: 'out' };
  expect(await compile(consumer, await compilerOf(null), options)).toEqual([]);
  expect(await runProgram(consumer, 'out/fake.js', { PATH: env['PATH'] })).toBe('completed\n');
});

test('a test process that is killed leaves no process behind', { timeout: LIMIT_MS }, async () => {
  const program = `import { startTestSystem } from 'agent-jobs/testing';
await startTestSystem();
console.log('up');`;
  await writeFile(join(consumer, 'killed.js'), program);
  const child = spawn(process.execPath, ['killed.js'], { cwd: consumer, env, stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  // The program and its worker, at least.
  expect((await left()).length).toBeGreaterThanOrEqual(2);
  child.kill('SIGKILL');
  await expect.poll(left).toEqual([]);
});

test('a system that can’t start says why, and leaves no process', { timeout: LIMIT_MS }, async () => {
  const program = `import { startTestSystem } from 'agent-jobs/testing';
const why = (error) => console.log(error.message.split('\\n').slice(0, 2).join(' '));
await startTestSystem({ worker: { LOG_LEVEL: 'loud' } }).catch(why);
process.env.TEMPORAL_CLI_PATH = '/nowhere';
await startTestSystem().catch(why);`;
  await writeFile(join(consumer, 'wrong.js'), program);
  const [worker, server] = (await runProgram(consumer, 'wrong.js', env)).split('\n');
  expect(worker).toMatch(/^The worker ended with exit code \d+; its last words .*/);
  expect(server).toContain('tried TEMPORAL_CLI_PATH: /nowhere does not run (ENOENT)');
  await expect.poll(left).toEqual([]);
});
