/** A folder of another service that has the packed client, as npm would unpack or install it. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll } from 'vitest';

const execute = promisify(execFile);
export const PROJECT_FOLDER = new URL('../../', import.meta.url).pathname;
const LIMIT_MS = 120_000;

/** The program of a compiler: this repository's, or that of another release, which npm installs. */
export async function compilerOf(release: string | null): Promise<string> {
  const folder = release === null ? PROJECT_FOLDER : await install([`typescript@${release}`]);
  return join(folder, 'node_modules/typescript/bin/tsc');
}

/** Packs what the build wrote, of one package; answers with the path of the tarball. */
export async function pack(name: 'agent-jobs' | 'agent-jobs-client'): Promise<string> {
  const folder = await temporaryFolder();
  const cwd = name === 'agent-jobs' ? PROJECT_FOLDER : join(PROJECT_FOLDER, 'packages/client');
  await execute('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], { cwd });
  return join(folder, (await readdir(folder)).find((file) => file.endsWith('.tgz')) ?? '');
}

/** A folder with packages unpacked by name, and every other one of this repository at hand, but for those left out. */
export async function unpackedConsumer(
  tarballs: Record<string, string>,
  leftOut: readonly string[] = [],
): Promise<string> {
  const folder = await temporaryFolder();
  for (const [name, tarball] of Object.entries(tarballs)) {
    const own = join(folder, 'node_modules', name);
    await mkdir(own, { recursive: true });
    await execute('tar', ['-xzf', tarball, '-C', own, '--strip-components=1']);
  }
  for (const name of await readdir(join(PROJECT_FOLDER, 'node_modules'))) {
    if (!(name in tarballs) && !leftOut.includes(name)) await link(folder, name);
  }
  return folder;
}

/** A folder in which npm installed packages, as a service would. */
export async function install(packages: string[]): Promise<string> {
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'package.json'), '{"private": true}');
  const flags = ['--no-audit', '--no-fund', '--prefer-offline'];
  await execute('npm', ['install', ...flags, ...packages], { cwd: folder, timeout: LIMIT_MS });
  return folder;
}

async function link(folder: string, name: string): Promise<void> {
  const path = join(folder, 'node_modules', name);
  await mkdir(dirname(path), { recursive: true });
  await symlink(join(PROJECT_FOLDER, 'node_modules', name), path);
}

/** Compiles with the folder's tsconfig.json; answers with the errors, one a line. */
export async function compile(folder: string, tsc: string, options: object): Promise<string[]> {
  const strict = { strict: true, skipLibCheck: true, types: [], target: 'es2022', noUncheckedIndexedAccess: true };
  const tsconfig = {
    compilerOptions: { ...strict, exactOptionalPropertyTypes: true, ...options },
    include: ['*.ts', '*.mts', '*.cts'],
  };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig));
  const done = execute(process.execPath, [tsc, '-p', folder, '--pretty', 'false'], { cwd: folder, timeout: LIMIT_MS });
  const output = await done.then(
    ({ stdout }) => stdout,
    ({ stdout }: { stdout: string }) => stdout,
  );
  return output.split('\n').filter((line) => /error TS/.test(line));
}

/** Those of the consumer's programs and of our packages: what other packages have wrong in their types is not ours. */
export function ownErrors(errors: readonly string[]): string[] {
  return errors.filter((line) => /^[\w.-]+\(|^node_modules\/agent-jobs/.test(line));
}

/** Runs a program of the folder's; answers with what it wrote. */
export async function runProgram(
  folder: string,
  name: string,
  env: NodeJS.ProcessEnv = {},
  args: string[] = [],
): Promise<string> {
  const options = { cwd: folder, env: { PATH: process.env['PATH'], ...env }, timeout: LIMIT_MS };
  return (await execute(process.execPath, [name, ...args], options)).stdout;
}

const folders: string[] = [];

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-consumer-'));
  folders.push(folder);
  return folder;
}

afterAll(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

const PROGRAM = `
import { AgentJobs, KeyConflictError, type AgentJobResult, type JobHandle, type JobState } from 'agent-jobs-client';
import { Client } from '@temporalio/client';

export async function run(client: Client): Promise<AgentJobResult> {
  const jobs = new AgentJobs({ client });
  const job: JobHandle = await jobs.start({ key: 'k', projectId: 'p', prompt: 'x', deadline: '1 hour' });
  await job.followUp('y', { id: 'z' });
  const state: JobState = await job.state();
  for await (const summary of jobs.list({ projectId: 'p' })) console.log(summary.workflowId, state.phase);
  return job.result();
}
export const isConflict = (error: unknown): boolean => error instanceof KeyConflictError;
// @ts-expect-error A follow-up is text.
export const wrong = (job: JobHandle) => job.followUp(1);
`;

const SUBPATHS = `
import { agentJobWorkflowId, type JobState } from 'agent-jobs-client/contract';
import { agentJobStartOptions } from 'agent-jobs-client/start-options';
import { FakeAgentJobs, type AgentJobsLike } from 'agent-jobs-client/testing';
import { runAgentJob } from 'agent-jobs-client/workflow';

export const id: string = agentJobWorkflowId('p', 'k');
export const phase = (state: JobState): string => state.phase;
export const jobs: AgentJobsLike = new FakeAgentJobs();
export const run = () => runAgentJob({ projectId: 'p', prompt: 'x' }, { key: 'k' });
export const options = agentJobStartOptions({ projectId: 'p', prompt: 'x' }, { key: 'k' });
`;

/** Programs of a client's user, by name: all that its types should do. */
export const CLIENT_PROGRAMS = { program: PROGRAM, subpaths: SUBPATHS };
