import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { JobScript } from '../../src/sandbox/jobs.js';
import { startJobServer } from '../client/job-server.js';
import { envOf, jsonLines, runCli, type CliOptions, type CliRun } from './run-cli.js';
import { runInProcess } from './run-in-process.js';
import { useForFile } from '../support/use.js';

const QUICK = ['--poll-min', '1s', '--poll-max', '1s', '--settle', '0'];

const server = useForFile(startJobServer);

function cli(args: string[], options: CliOptions = {}): Promise<CliRun> {
  const env = { ...envOf(server), ...options.env };
  return options.closesStdoutEarly ? runCli(args, { ...options, env }) : runInProcess(args, { ...options, env });
}

function start(prompt: string, ...more: string[]): Promise<CliRun> {
  return cli(['start', '--project', server.projectId, ...QUICK, ...more, prompt]);
}

/** A prompt of its own whose job has this life. */
async function scripted(script: JobScript): Promise<string> {
  const prompt = `prompt ${randomUUID()}`;
  await server.sandbox.addScript({ promptIncludes: prompt, script });
  return prompt;
}

test('a job is started and awaited in one command, which prints the pull request', async () => {
  const { code, stdout, stderr } = await start('Fix the footer', '--wait');
  expect(stderr).toMatch(/^(agent-jobs: (creating|watching|done).*\n|agent-jobs: pull request: https:.*\n)*$/);
  expect(stdout).toContain(`${server.address}, namespace ${server.namespace}, task queue ${server.taskQueue}`);
  expect(stdout).toMatch(/Outcome +completed/);
  expect(stdout).toMatch(/Pull request +https:\/\//);
  expect(code).toBe(0);
});

test('a prompt comes from stdin as well, without its last newline', async () => {
  const prompt = `from stdin ${randomUUID()}`;
  const args = ['start', '--project', server.projectId, ...QUICK, '--wait'];
  expect((await cli(args, { stdin: `${prompt}\n` })).code).toBe(0);
  expect(await server.sandbox.creates({ promptIncludes: prompt })).toMatchObject([{ prompt }]);
});

test.each([
  ['archived', 0, { steps: [{ status: 'archived' }] }, []],
  ['timedOut', 4, { activeMs: 3_600_000 }, ['--deadline', '0']],
] as const)('the outcome %s exits %i', async (outcome, exit, script, options) => {
  const prompt = await scripted(script as unknown as JobScript);
  const { code, stdout } = await start(prompt, '--wait', '--json', ...options);
  expect(jsonLines(stdout)).toMatchObject([{ outcome }]);
  expect(code).toBe(exit);
});

test('an unknown outcome under the policy fail exits 8', async () => {
  const prompt = await scripted({});
  await server.sandbox.addFault({ kind: 'reset', effect: 'after', promptIncludes: prompt });
  const { code, stderr } = await start(prompt, '--wait', '--on-unknown-outcome', 'fail');
  expect(stderr).toContain('may or may not have taken the create');
  expect(code).toBe(8);
});

test('a job is steered by its workflow id, or by project and key; a cancel of it exits 9', async () => {
  const key = `key ${randomUUID()}/1`;
  const started = await start(await scripted({ activeMs: 3_600_000 }), '--key', key, '--json');
  const [{ workflowId } = {}] = jsonLines(started.stdout) as { workflowId: string }[];
  const byKey = ['--project', server.projectId, '--key', key];
  const sent = await cli(['follow-up', ...byKey, 'And the tests', '--id', 'f1', '--wait', '--json']);
  expect(jsonLines(sent.stdout)).toMatchObject([{ id: 'f1', state: 'sent' }]);
  const again = await cli(['follow-up', workflowId!, 'And the tests', '--id', 'f1', '--wait', '--json']);
  expect(again.stdout).toBe(sent.stdout);
  expect((await cli(['poll-now', ...byKey])).code).toBe(0);
  expect((await cli(['resolve', ...byKey, 'retry'])).stderr).toContain('no write is in doubt');
  const state = await cli(['state', workflowId!]);
  expect(state.stdout).toMatch(/Upstream says +active/);
  expect(state.stdout).toMatch(/Follow-ups +f1: sent/);
  const list = () => cli(['list', '--project', server.projectId, '--json']);
  await expect
    .poll(async () => jsonLines((await list()).stdout))
    .toContainEqual(expect.objectContaining({ workflowId, phase: 'watching' }));
  expect((await cli(['cancel', workflowId!])).code).toBe(0);
  const waited = await cli(['wait', workflowId!]);
  expect(waited.stderr).toContain('the remote job');
  expect(waited.code).toBe(9);
});

test('a follow-up that must wait for a person is not said to be sent: it exits 10', async () => {
  const prompt = await scripted({});
  await server.sandbox.addFault({ kind: 'reset', effect: 'after', promptIncludes: prompt });
  const key = randomUUID();
  await start(prompt, '--key', key);
  const workflowId = `agent-job/${server.projectId}/${key}`;
  const job = server.jobs.handle(workflowId);
  await expect.poll(async () => (await job.state()).phase).toBe('needsAttention');
  const sent = await cli(['follow-up', workflowId, 'And the tests', '--id', 'f1', '--wait']);
  expect(sent.stdout).toMatch(/State +queued/);
  expect(sent.stderr).toContain('the follow-up is not sent: it is queued');
  expect((await cli(['state', workflowId])).stdout).toMatch(/^Waits for +person since .+$/m);
  const waiting = () => cli(['list', '--project', server.projectId, '--waiting-for', 'person', '--json']);
  await expect
    .poll(async () => jsonLines((await waiting()).stdout))
    .toMatchObject([{ workflowId, waitingFor: 'person' }]);
  expect(sent.code).toBe(10);
  await job.resolve({ action: 'abandon' });
  await job.result();
  const late = await cli(['poll-now', workflowId]);
  expect(late.stderr).toContain('the workflow has ended (completed)');
  expect(late.code).toBe(1);
});

test('a job for which no worker answers is named with its task queue, and exits 12', async () => {
  const taskQueue = `nobody-${randomUUID()}`;
  const started = await cli(['--task-queue', taskQueue, 'start', '--project', server.projectId, '--json', 'hello']);
  const [{ workflowId } = {}] = jsonLines(started.stdout) as { workflowId: string }[];
  const { code, stderr } = await cli(['state', workflowId!]);
  expect(stderr).toContain(`no worker of the task queue "${taskQueue}" answered in time`);
  expect(code).toBe(12);
  await server.client.workflow.getHandle(workflowId!).terminate();
});

test('a job that is not there is an error, and exits 1', async () => {
  for (const command of ['state', 'wait', 'cancel', 'poll-now']) {
    const { code, stderr } = await cli([command, 'agent-job/p/nowhere']);
    expect(stderr).toContain('no such workflow');
    expect(code).toBe(1);
  }
});

test('a reader who has seen enough ends the command without a word', async () => {
  const { stderr } = await cli(['list', '--json', '--limit', '0'], { closesStdoutEarly: true });
  expect(stderr).toBe('');
});
