import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { EXIT } from '../../src/cli/exit.js';
import { createProgram } from '../../src/cli/program.js';
import { QUICK, startJobServer, type JobServer } from '../client/job-server.js';
import { envOf, jsonLines, type CliRun } from './run-cli.js';
import { runInProcess } from './run-in-process.js';

const MOST_MS = 240_000;

let server: JobServer;
beforeAll(async () => {
  server = await startJobServer();
}, MOST_MS);
afterAll(() => server.close());

/** Exit code 11 says that the same command may work later, as where the machine is busy. */
async function cli(...args: string[]): Promise<CliRun> {
  const run = await runInProcess(args, { env: envOf(server) });
  return run.code === EXIT.unavailable ? cli(...args) : run;
}

async function started(key: string, projectId = server.projectId): Promise<string> {
  const script = { activeMs: 3_600_000 };
  const prompt = `prompt ${randomUUID()}`;
  await server.sandbox.addScript({ promptIncludes: prompt, script });
  return (await server.jobs.start({ key, projectId, prompt, ...QUICK })).workflowId;
}

test(
  'a job is named by project and key, and by its key alone, wherever a job is named',
  async () => {
    const key = `key ${randomUUID()}/1`;
    const workflowId = await started(key);
    const byBoth = ['--project', server.projectId, '--key', key];
    expect(jsonLines((await cli('state', ...byBoth, '--json')).stdout)).toMatchObject([{ workflowId }]);
    const alone = () => cli('state', '--key', key, '--json');
    await expect
      .poll(async () => jsonLines((await alone()).stdout), { timeout: 120_000 })
      .toMatchObject([{ workflowId }]);
    const sent = await cli('follow-up', '--key', key, 'and the tests', '--id', 'f1', '--wait', '--json');
    expect(jsonLines(sent.stdout)).toMatchObject([{ id: 'f1', state: 'sent' }]);
    expect(jsonLines((await cli('poll-now', ...byBoth, '--json')).stdout)).toMatchObject([{ workflowId }]);
    expect((await cli('resolve', ...byBoth, 'retry')).stderr).toContain('no write is in doubt');
    expect(jsonLines((await cli('cancel', ...byBoth, '--json')).stdout)).toMatchObject([{ workflowId }]);
    expect((await cli('wait', ...byBoth)).code).toBe(9);
  },
  MOST_MS,
);

test(
  'a key without its flag is taken for a job where no workflow has it as its id',
  async () => {
    const key = `short-${randomUUID()}`;
    const workflowId = await started(key);
    const find = async () => jsonLines((await cli('state', key, '--json')).stdout);
    await expect.poll(find, { timeout: 120_000 }).toMatchObject([{ workflowId }]);
    expect(jsonLines((await cli('state', key, '--project', server.projectId, '--json')).stdout)).toHaveLength(1);
  },
  MOST_MS,
);

test(
  'a key that two projects have is an error with the candidates, and nothing is done',
  async () => {
    const key = `twice-${randomUUID()}`;
    const ids = [await started(key), await started(key, `other-${randomUUID()}`)];
    const listed = async () => jsonLines((await cli('list', '--running', '--json', '--limit', '0')).stdout);
    const count = async () => (await listed()).filter(({ workflowId }) => ids.includes(workflowId as string)).length;
    await expect.poll(count, { timeout: 120_000 }).toBe(2);
    const { code, stdout, stderr } = await cli('cancel', '--key', key);
    expect(stderr).toContain(`2 jobs have the key "${key}"; add --project`);
    for (const id of ids) expect(stderr).toContain(`\n  ${id}`);
    expect(stdout).toBe('');
    expect(code).toBe(1);
    const none = await cli('cancel', '--key', `none-${key}`, '--json');
    expect(jsonLines(none.stderr)).toMatchObject([{ code: 'ERROR', retryable: false, exitCode: 1 }]);
  },
  MOST_MS,
);

/** All commands that have an action. */
function leaves(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leaves);
}

test('every command that takes a job finds it by --job-id, and so does each list of jobs', () => {
  const commands = leaves(createProgram('0.0.0'));
  const takesJob = ({ registeredArguments: [first], options }: Command) =>
    first?.name() === 'job' || options.some(({ long }) => ['--phase', '--key'].includes(long ?? ''));
  const names = commands.filter(takesJob).map((one) => one.name());
  const lacking = commands.filter((one) => takesJob(one) && !one.options.some(({ long }) => long === '--job-id'));
  expect(lacking.map((one) => one.name())).toEqual([]);
  const wanted = ['state', 'wait', 'follow-up', 'resolve', 'poll-now', 'cancel', 'list'];
  expect(names).toEqual(expect.arrayContaining(wanted));
});

test(
  'the job of the upstream names its workflow, wherever a job is named',
  async () => {
    const workflowId = await started(`key ${randomUUID()}`);
    const job = server.jobs.handle(workflowId);
    await expect.poll(async () => (await job.state()).jobId).not.toBeNull();
    const byJob = ['--job-id', (await job.state()).jobId!];
    const answer = async (...words: string[]) => jsonLines((await cli(...words, ...byJob, '--json')).stdout);
    await expect.poll(() => answer('list'), { timeout: 120_000 }).toMatchObject([{ workflowId }]);
    expect(await answer('state')).toMatchObject([{ workflowId, url: job.url }]);
    expect(await answer('follow-up', 'and the tests', '--id', 'f1', '--wait')).toMatchObject([{ state: 'sent' }]);
    expect((await cli('resolve', ...byJob, 'retry')).stderr).toContain('no write is in doubt');
    expect(await answer('poll-now')).toMatchObject([{ workflowId }]);
    expect(await answer('cancel')).toMatchObject([{ workflowId }]);
    expect((await cli('wait', ...byJob)).code).toBe(9);
  },
  MOST_MS,
);
