/** The packages as they are packed: what a service has of them, by the programs of README and docs. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { transform } from 'esbuild';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  expectedSteps,
  expectedTraces,
  prepareStory,
  pageProgram,
  readSteps,
  readTraces,
} from '../e2e/language-story.js';
import { usePrivateSystem } from '../e2e/system.js';
import { newFolder } from '../support/folder.js';
import { shared } from '../support/shared.js';
import {
  CLIENT_PROGRAMS,
  compile,
  compilerOf,
  ownErrors,
  pack,
  PROJECT_FOLDER,
  runProgram,
  unpackedConsumer,
} from './consumer.js';

const MAX_LINES = 10;
// Its examples name their key: on a server of its own, no other test's job has it.
const system = usePrivateSystem({ script: { activeMs: 5_000 } });
let consumer: string;
let tarballs: Record<string, string>;

beforeAll(async () => {
  const names = ['agent-jobs', 'agent-jobs-client'] as const;
  tarballs = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await pack(name)] as const)));
  consumer = await unpackedConsumer(tarballs);
  await writeFile(join(consumer, 'package.json'), '{"type": "module", "private": true}');
});

async function page(path: string): Promise<string> {
  return readFile(join(PROJECT_FOLDER, path), 'utf8');
}

/** The one example of a page in TypeScript that has this text. */
async function example(path: string, text: string): Promise<string> {
  const blocks = [...(await page(path)).matchAll(/```ts\n([^]*?)```/g)].map(([, code]) => code!);
  const [found, ...others] = blocks.filter((code) => code.includes(text));
  if (found === undefined || others.length > 0) throw new Error(`not one example of ${path} has "${text}"`);
  return found;
}

const FIRST_TEST = "import test from 'node:test'";

const ENTRIES = `
import { AgentJobs, type JobHandle } from 'agent-jobs';
import {
  agentJobWorkflowId, DEFAULT_TASK_QUEUE, jobStateQuery, type AgentJobResult, type JobState,
} from 'agent-jobs/contract';
import { agentJobStartOptions } from 'agent-jobs/start-options';
import { openPayloadCodec, PayloadKeysError } from 'agent-jobs/codec';
import { startSandbox, type Sandbox } from 'agent-jobs/testing';

const sandbox = await startSandbox();
try {
  openPayloadCodec('none');
} catch (error) {
  console.log(error instanceof PayloadKeysError);
}
console.log(typeof AgentJobs.connect, agentJobWorkflowId('a/b', 'k'), DEFAULT_TASK_QUEUE, jobStateQuery.name);
console.log(
  agentJobStartOptions({ projectId: 'a', prompt: 'b' }, { key: 'k' }).workflowId,
  sandbox.url.startsWith('http'),
);
await sandbox.close();
type Promised = [JobHandle, AgentJobResult['outcome'], JobState['phase'], Sandbox];
`;

/** All programs of this file by their names, which one run of a strict compiler checks. */
async function programs(): Promise<Record<string, string>> {
  const readme = await example('README.md', 'AgentJobs.connect()');
  const encryption = await example('docs/operations.md', 'openPayloadCodec');
  const recurring = await example('docs/recipes.md', 'agentJobSchedule');
  const first = await example('docs/client.md', FIRST_TEST);
  const fake = await example('docs/client.md', 'FakeAgentJobs');
  const own = await pageProgram(system, 'ts', 'new Client(');
  return {
    'story.ts': await page('examples/typescript/story.ts'),
    'readme.ts': readme,
    'own.ts': own.replace('{ client: ', `{ taskQueue: '${system.server.taskQueue}', client: `),
    'entries.ts': ENTRIES,
    'encryption.ts': encryption,
    'recurring.ts': recurring,
    'first.test.ts': first,
    'fake.ts': fake,
    ...Object.fromEntries(
      Object.entries(CLIENT_PROGRAMS).flatMap(([name, text]) =>
        ['mts', 'cts'].map((ending) => [`client-${name}.${ending}`, text]),
      ),
    ),
  };
}

async function compileAll(): Promise<string[]> {
  for (const [name, text] of Object.entries(await programs())) await writeFile(join(consumer, name), text);
  const options = { module: 'nodenext', target: 'es2023', noEmit: true, types: ['node'], skipLibCheck: false };
  return ownErrors(await compile(consumer, await compilerOf(null), options));
}

let errors: Promise<string[]> | undefined;

/** Once the types of all programs are right, makes one JavaScript; answers with its name. */
async function compiled(name: string): Promise<string> {
  expect(await (errors ??= compileAll())).toEqual([]);
  const text = await readFile(join(consumer, `${name}.ts`), 'utf8');
  const { code } = await transform(text, { loader: 'ts', format: 'esm', target: 'es2023' });
  await writeFile(join(consumer, `${name}.js`), code);
  return `${name}.js`;
}

function execute(name: string, args: string[] = []): Promise<string> {
  return runProgram(consumer, name, system.clientEnv(), args);
}

test('a TypeScript program tells the whole story of the contract', async () => {
  await system.haveWorker();
  const projectId = 'story-typescript';
  await prepareStory(system, projectId);
  const printed = await execute(await compiled('story'), [projectId]);
  expect(readSteps(printed)).toEqual(await expectedSteps(system, projectId));
  expect(await readTraces(system, projectId)).toEqual(expectedTraces(projectId));
});

test("README's first program compiles and runs as it is written", async () => {
  await system.haveWorker();
  const name = await compiled('readme');
  expect(await readFile(join(consumer, name), 'utf8')).toContain('agent-jobs-client');
  expect(await execute(name)).toMatch(/^https:\S+\/pull\/\d+\n$/);
});

test('the lines that make and change a Schedule compile and run as they are written', async () => {
  await system.haveWorker();
  await execute(await compiled('recurring'));
  const schedule = system.server.client.schedule.getHandle('agent-job/acme/weekly-review');
  expect((await schedule.describe()).policies.overlap).toBe('BUFFER_ONE');
  await schedule.trigger();
  const creates = () => system.sandbox.creates({ projectId: 'acme', promptIncludes: 'Review' });
  await expect.poll(creates).toMatchObject([{ prompt: 'Review last week.' }]);
});

test("the page's program with a Temporal client of one's own compiles and runs as it is written", async () => {
  await system.haveWorker();
  expect(await execute(await compiled('own'))).toBe('completed\n');
});

test('each entry point imports in plain Node, with types that a strict compiler takes', async () => {
  expect(await execute(await compiled('entries'))).toBe(
    'true\nfunction agent-job/a%2Fb/k agent-jobs jobState\nagent-job/a/k true\n',
  );
});

test('without the optional packages tests have all they need, and a worker says what it lacks', async () => {
  const { peerDependencies, peerDependenciesMeta } = JSON.parse(
    await readFile(join(PROJECT_FOLDER, 'package.json'), 'utf8'),
  ) as { peerDependencies: object; peerDependenciesMeta: Record<string, { optional: boolean }> };
  const optional = Object.keys(peerDependencies);
  expect(optional).toEqual(['@aws-sdk/client-s3', '@aws-sdk/lib-storage', 'echarts']);
  expect(optional.every((name) => peerDependenciesMeta[name]?.optional)).toBe(true);
  const smaller = await unpackedConsumer(tarballs, ['@aws-sdk', 'echarts']);
  await writeFile(join(smaller, 'package.json'), '{"type": "module", "private": true}');
  const program = `import { startTestSystem } from 'agent-jobs/testing';
console.log(typeof startTestSystem);`;
  await writeFile(join(smaller, 'testing.js'), program);
  expect(await runProgram(smaller, 'testing.js')).toBe('function\n');
  const settings = { UPSTREAM_BASE_URL: system.sandbox.url, ADMIN_API_KEY: 'any', SNAPSHOTS_URL: 's3://bucket' };
  const worker = runProgram(smaller, 'node_modules/agent-jobs/dist/worker.js', { ...system.clientEnv(), ...settings });
  await expect(worker).rejects.toMatchObject({
    code: 1,
    stdout: expect.stringContaining('npm install @aws-sdk/client-s3 @aws-sdk/lib-storage') as unknown,
  });
});

test('its classes are those of the client package', async () => {
  const program = `import { AgentJobs } from 'agent-jobs';
import { AgentJobs as ofClient } from 'agent-jobs-client';
console.log(AgentJobs === ofClient);`;
  await writeFile(join(consumer, 'classes.js'), program);
  expect(await execute('classes.js')).toBe('true\n');
});

test('the package holds no path of the machine that packed it', async () => {
  const folder = join(consumer, 'node_modules/agent-jobs');
  const files = await readdir(folder, { recursive: true, withFileTypes: true });
  const texts = await Promise.all(
    files.filter((file) => file.isFile()).map((file) => readFile(join(file.parentPath, file.name), 'utf8')),
  );
  expect(texts.length).toBeGreaterThan(100);
  const maps = texts.flatMap((text) => [...text.matchAll(/base64,([\w+/=]{100,})/g)].map(([, map = '']) => map));
  expect(maps.length).toBeGreaterThan(0);
  const decoded = maps.map((map) => Buffer.from(map, 'base64').toString());
  expect([...texts, ...decoded].filter((text) => text.includes(PROJECT_FOLDER))).toEqual([]);
});

test('the bundle of workflows has the same bytes in a folder with a longer path', async () => {
  const lines = (await readFile(join(consumer, 'node_modules/agent-jobs/dist/workflow-bundle.js'), 'utf8')).split('\n');
  const [, map = ''] = /base64,([\w+/=]+)/.exec(lines.at(-1)!)!;
  const { mappings } = JSON.parse(Buffer.from(map, 'base64').toString()) as { mappings: string };
  // The source of the generated entry names its modules by their whole paths, and columns count those letters.
  const entry = lines.findIndex((line) => line.includes('webpackMode: "eager"'));
  expect(entry).toBeGreaterThan(0);
  expect(mappings.split(';').length).toBe(entry);
});

describe('the test system of the package', () => {
  let home: string;
  let env: Record<string, string>;
  beforeAll(async () => {
    home = newFolder();
    const { path } = await shared('dev-server-program');
    // Nothing else leads to the server's program, and no network: `PATH` has Node alone.
    env = { HOME: home, TEMPORAL_CLI_PATH: path, PATH: join(process.execPath, '..'), TMPDIR: home };
  });

  /** The processes whose command line or environment names the home folder, which all of a system's do. */
  async function left(): Promise<string[]> {
    const { stdout } = await promisify(execFile)('ps', ['axeww', '-o', 'pid=,args='], { maxBuffer: 2 ** 26 });
    return stdout.split('\n').filter((line) => line.includes(home) && !line.includes(' axeww '));
  }

  test("takes a project's first test with at most ten lines, offline, and leaves no process", async () => {
    const first = await example('docs/client.md', FIRST_TEST);
    expect(first.trim().split('\n').filter(Boolean).length).toBeLessThanOrEqual(MAX_LINES);
    expect(await runProgram(consumer, await compiled('first.test'), env)).toMatch(/^\S pass 1$/m);
    await expect.poll(left).toEqual([]);
  });

  test('ends a job of hours in a moment, and leaves no process where the test is killed', async () => {
    const hours = await example('docs/client.md', 'sandbox.setJob');
    const program = `import { startTestSystem } from 'agent-jobs/testing';
${hours}`;
    await writeFile(join(consumer, 'hours.js'), program);
    const child = spawn(process.execPath, ['hours.js'], { cwd: consumer, env, stdio: ['ignore', 'pipe', 'inherit'] });
    const [said] = (await once(child.stdout, 'data')) as [Buffer];
    expect(said.toString()).toBe('completed\n');
    // The program and its worker, at least.
    expect((await left()).length).toBeGreaterThanOrEqual(2);
    child.kill('SIGKILL');
    await expect.poll(left).toEqual([]);
  });

  test('says why it can’t start, and leaves no process', async () => {
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

  test('has a fake that runs without any process', async () => {
    expect(await runProgram(consumer, await compiled('fake'), { PATH: env['PATH'] })).toBe('completed\n');
  });
});
