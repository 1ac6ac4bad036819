import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { usePrivateSystem } from '../e2e/system.js';

const run = promisify(execFile);
const PROJECT_FOLDER = new URL('../../', import.meta.url).pathname;
const LIMIT_MS = 60_000;

// Its examples name their key: on a server of its own, no other test's job has it.
const system = usePrivateSystem({ script: { activeMs: 500 } });
let consumer: string;

// A folder of another service, with the packed package as npm would unpack it, and its dependencies at hand.
beforeAll(async () => {
  consumer = await mkdtemp(join(tmpdir(), 'agent-jobs-consumer-'));
  const modules = join(consumer, 'node_modules');
  await mkdir(modules);
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', consumer], { cwd: PROJECT_FOLDER });
  const tarball = (await readdir(consumer)).find((name) => name.endsWith('.tgz')) ?? '';
  await run('tar', ['-xzf', tarball, '-C', modules], { cwd: consumer });
  await run('mv', ['package', 'agent-jobs'], { cwd: modules });
  for (const name of await readdir(join(PROJECT_FOLDER, 'node_modules'))) {
    if (name !== 'agent-jobs') await symlink(join(PROJECT_FOLDER, 'node_modules', name), join(modules, name));
  }
  await writeFile(join(consumer, 'package.json'), '{"type": "module", "private": true}');
  const compilerOptions = {
    module: 'nodenext',
    target: 'es2023',
    strict: true,
    noEmit: true,
    types: ['node'],
    skipLibCheck: false,
  };
  await writeFile(join(consumer, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
});
afterAll(() => rm(consumer, { recursive: true, force: true }));

/** Type-checks a program of the consumer's. */
async function compile(name: string, program: string): Promise<void> {
  await writeFile(join(consumer, name), program);
  const tsc = join(PROJECT_FOLDER, 'node_modules', 'typescript', 'bin', 'tsc');
  await run(process.execPath, [tsc, '-p', consumer], { cwd: consumer, timeout: LIMIT_MS }).catch(
    ({ stdout }: { stdout: string }) => {
      throw new Error(stdout);
    },
  );
}

async function execute(name: string, args: string[] = []): Promise<string> {
  const env = { ...system.clientEnv(), PATH: process.env['PATH'] };
  const { stdout } = await run(process.execPath, [name, ...args], { cwd: consumer, env, timeout: LIMIT_MS });
  return stdout;
}

test(
  "README's TypeScript snippet compiles against the packed package and runs as it is written",
  { timeout: 150_000 },
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
  'each entry point imports in plain Node, with types that a strict compiler takes',
  { timeout: 150_000 },
  async () => {
    const program = `
import { AgentJobs, type JobHandle } from 'agent-jobs';
import {
  agentJobWorkflowId, DEFAULT_TASK_QUEUE, jobStateQuery, type AgentJobResult, type JobState,
} from 'agent-jobs/contract';
import { agentJobStartOptions } from 'agent-jobs/start-options';
import { startSandbox, type Sandbox } from 'agent-jobs/testing';
`;
    const uses = `
const sandbox = await startSandbox();
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
    await compile('entries.ts', program + uses + types);
    await writeFile(join(consumer, 'entries.js'), program.replace(/, type \w+/g, '') + uses);
    expect(await execute('entries.js')).toBe('function agent-job/a%2Fb/k agent-jobs jobState\nagent-job/a/k true\n');
  },
);

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
