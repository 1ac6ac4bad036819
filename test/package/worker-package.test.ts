import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { readmeProgram } from '../e2e/language-story.js';
import { usePrivateSystem } from '../e2e/system.js';
import { compile as compileWith, compilerOf, pack, PROJECT_FOLDER, runProgram, unpackedConsumer } from './consumer.js';

/** A compiler and a program, each of which may take two minutes. */
const LIMIT_MS = 300_000;
// Its examples name their key: on a server of its own, no other test's job has it.
const system = usePrivateSystem({ script: { activeMs: 500 } });
let consumer: string;
let tarballs: Record<string, string>;

beforeAll(async () => {
  const names = ['agent-jobs', 'agent-jobs-client'] as const;
  tarballs = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await pack(name)] as const)));
  consumer = await unpackedConsumer(tarballs);
  await writeFile(join(consumer, 'package.json'), '{"type": "module", "private": true}');
});

/** Type-checks a program of the consumer's. */
async function compile(name: string, program: string): Promise<void> {
  await writeFile(join(consumer, name), program);
  const options = { module: 'nodenext', target: 'es2023', noEmit: true, types: ['node'] };
  const libraries = { skipLibCheck: false, exactOptionalPropertyTypes: false };
  expect(await compileWith(consumer, await compilerOf(null), { ...options, ...libraries })).toEqual([]);
}

function execute(name: string, args: string[] = []): Promise<string> {
  return runProgram(consumer, name, system.clientEnv(), args);
}

test(
  "README's TypeScript snippet compiles against the packed package and runs as it is written",
  { timeout: LIMIT_MS },
  async () => {
    system.startWorker();
    const readme = await readFile(join(PROJECT_FOLDER, 'README.md'), 'utf8');
    const snippet = /```ts\n([\s\S]*?)```/.exec(readme)?.[1] ?? '';
    expect(snippet).toContain("from 'agent-jobs-client'");
    await compile('readme.ts', snippet);
    // Its types were checked, and it has none of its own: it is JavaScript, too.
    await writeFile(join(consumer, 'readme.js'), snippet);
    expect(await execute('readme.js')).toMatch(/^https:\S+\/pull\/\d+\n$/);
  },
);

test(
  "README's program with a Temporal client of one's own compiles and runs as it is written",
  { timeout: LIMIT_MS },
  async () => {
    system.startWorker();
    const snippet = await readmeProgram(system, 'ts', 'new Client(');
    await compile('own.ts', snippet);
    await writeFile(
      join(consumer, 'own.js'),
      snippet.replace('{ client: ', `{ taskQueue: '${system.server.taskQueue}', client: `),
    );
    expect(await execute('own.js')).toBe('completed\n');
  },
);

test(
  'each entry point imports in plain Node, with types that a strict compiler takes',
  { timeout: LIMIT_MS },
  async () => {
    const program = `
import { AgentJobs, type JobHandle } from 'agent-jobs';
import {
  agentJobWorkflowId, DEFAULT_TASK_QUEUE, jobStateQuery, type AgentJobResult, type JobState,
} from 'agent-jobs/contract';
import { agentJobStartOptions } from 'agent-jobs/start-options';
import { openPayloadCodec, PayloadKeysError } from 'agent-jobs/codec';
import { startSandbox, type Sandbox } from 'agent-jobs/testing';
`;
    const uses = `
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
`;
    const types = `
type Promised = [JobHandle, AgentJobResult['outcome'], JobState['phase'], Sandbox];
`;
    const page = await readFile(join(PROJECT_FOLDER, 'docs/encryption.md'), 'utf8');
    await writeFile(join(consumer, 'encryption.ts'), /```ts\n([\s\S]*?)```/.exec(page)?.[1] ?? 'no lines');
    await compile('entries.ts', program + uses + types);
    await writeFile(join(consumer, 'entries.js'), program.replace(/, type \w+/g, '') + uses);
    expect(await execute('entries.js')).toBe(
      'true\nfunction agent-job/a%2Fb/k agent-jobs jobState\nagent-job/a/k true\n',
    );
  },
);

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

test('the packed command line tells its version', async () => {
  expect(await execute('node_modules/agent-jobs/dist/cli/main.js', ['--version'])).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test('the package tells no path of the machine that packed it', async () => {
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
