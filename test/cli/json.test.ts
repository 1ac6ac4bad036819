/** Every command of the tree with `--json`: what it prints is JSON and nothing else, and so is its error. */
import { randomUUID } from 'node:crypto';
import { pathToFileURL } from 'node:url';
import type { Command } from 'commander';
import { beforeAll, expect, test } from 'vitest';
import { createProgram } from '../../src/cli/program.js';
import { gathered, QUICK, startJobServer } from '../client/job-server.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { until } from '../support/worker-process.js';
import { runInProcess } from './run-in-process.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

/** They become servers, which write log lines. */
const SERVERS = ['dev', 'mcp', 'serve', 'worker'];

const server = useForFile(async () => startJobServer(await connectOwnNamespace()));
let workflowId: string;
let snapshots: string;
beforeAll(async () => {
  const prompt = `prompt ${randomUUID()}`;
  await server.sandbox.addScript({ promptIncludes: prompt, script: { activeMs: 3_600_000 } });
  ({ workflowId } = await server.jobs.start({ key: 'k', projectId: 'p', prompt, batch: 'b', ...QUICK }));
  await until(async () => (await gathered(server.jobs.list())).length === 1, 'the job to be listed');
  snapshots = pathToFileURL(newFolder()).href;
});

/** All commands that have an action, each with the words that lead to it. */
function leaves(command: Command, words: readonly string[] = []): { command: Command; words: readonly string[] }[] {
  if (command.commands.length === 0) return [{ command, words }];
  return command.commands.flatMap((child) => leaves(child, [...words, child.name()]));
}

const all = leaves(createProgram('0.0.0')).filter(({ words }) => !SERVERS.includes(words.join(' ')));
const names = all.map(({ words }) => words.join(' '));

const at = (address: string, namespace = 'default') => ['--address', address, '--namespace', namespace];

/** Words that let a command do its work, beside its name and `--json`. */
function wordsFor(name: string): string[] {
  const project = ['--project', 'p'];
  const words: Record<string, string[]> = {
    start: [...project, '--batch', 'b', 'do it'],
    'follow-up': [workflowId, 'more'],
    state: [workflowId],
    wait: ['of-nobody'],
    resolve: [workflowId, 'retry'],
    'poll-now': [workflowId],
    cancel: [workflowId],
    'export run': [...project, '--day', 'no-day'],
    'export backfill': [...project, '--day', 'no-day'],
    'export gaps': project,
    report: project,
    'schedule set': [...project, '--paused'],
  };
  return words[name] ?? [];
}

/** Each line of a text as JSON; throws if one is none. */
function linesOf(text: string): Record<string, unknown>[] {
  const lines = text.split('\n');
  expect(lines.pop()).toBe('');
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** By the last line of stderr, whatever stdout says. */
function isErrorShown(stderr: string, exitCode: unknown): boolean {
  const last = stderr.trimEnd().split('\n').at(-1) ?? '';
  if (!last.startsWith('{')) return false;
  const told = JSON.parse(last) as Record<string, unknown>;
  const isCode = /^[A-Z_]+$/.test(String(told['code']));
  return isCode && told['exitCode'] === exitCode && typeof told['message'] === 'string';
}

test('every command that answers takes --json', () => {
  const lacking = all.filter(({ command }) => !command.options.some(({ long }) => long === '--json'));
  expect(lacking.map(({ words }) => words.join(' '))).toEqual([]);
  expect(names.length).toBeGreaterThanOrEqual(18);
});

test('with --json a command prints JSON alone; where it fails, the last line of stderr is JSON, too', async () => {
  const wrong: string[] = [];
  for (const name of names) {
    const words = [...name.split(' '), ...at(server.address, server.namespace), '--task-queue', server.taskQueue];
    const env = { SNAPSHOTS_URL: snapshots };
    const { stdout, stderr, code } = await runInProcess([...words, ...wordsFor(name), '--json'], { env });
    for (const line of stdout === '' ? [] : linesOf(stdout)) expect(line, name).toBeTypeOf('object');
    if (code !== 0 && !isErrorShown(stderr, code)) wrong.push(`${name}: ${stderr}`);
  }
  expect(wrong).toEqual([]);
});

test('each bad end of a job, and of many, is one object as the last line of stderr', async () => {
  const place = [...at(server.address, server.namespace), '--task-queue', server.taskQueue, '--json'];
  const run = (...words: string[]) => runInProcess([...words, ...place]);
  const start = async (prompt: string) => {
    const job = await server.jobs.start({ key: randomUUID(), projectId: 'q', prompt, batch: 'ends', ...QUICK });
    return job.workflowId;
  };
  const [canceled, rejected, failed] = [
    `canceled ${randomUUID()}`,
    `rejected ${randomUUID()}`,
    `failed ${randomUUID()}`,
  ];
  const completed = { afterMs: 300, status: 'completed', prLink: true as const };
  await server.sandbox.addScript({
    promptIncludes: canceled,
    script: { messageLagMs: 0, steps: [{ status: 'active' }, completed], followUp: [{ status: 'active' }] },
  });
  await server.sandbox.addScript({
    promptIncludes: failed,
    script: { steps: [{ status: 'active' }, { afterMs: 300, status: 'failed' }] },
  });
  await server.sandbox.addFault({ kind: 'status', status: 422, effect: 'before', promptIncludes: rejected });
  const ids = { canceled: await start(canceled), rejected: await start(rejected), failed: await start(failed) };
  await server.sandbox.addFault({ kind: 'status', status: 400, effect: 'before', promptIncludes: 'unwanted' });
  await server.jobs.handle(ids.canceled).result();
  await server.jobs.handle(ids.canceled).sendFollowUp('go on');
  const unsent = await run('follow-up', ids.canceled, 'unwanted', '--wait');
  await server.jobs.handle(ids.canceled).cancel();
  const told = ({ stderr }: { stderr: string }) => JSON.parse(stderr.trimEnd().split('\n').at(-1)!) as object;
  expect(told(unsent)).toMatchObject({ code: 'NOT_SENT', exitCode: 10, workflowId: ids.canceled, retryable: false });
  const wait = async (id: string) => {
    const ended = await run('wait', id);
    return { stdout: ended.stdout, code: ended.code, told: told(ended) };
  };
  expect(await wait(ids.canceled)).toMatchObject({
    stdout: '',
    code: 9,
    told: { code: 'JOB_CANCELED', exitCode: 9, workflowId: ids.canceled, retryable: false },
  });
  expect(await wait(ids.rejected)).toMatchObject({
    stdout: '',
    code: 7,
    told: { code: 'CREATE_REJECTED', exitCode: 7, workflowId: ids.rejected },
  });
  expect(await wait(ids.failed)).toMatchObject({
    stdout: expect.stringContaining('"outcome":"failed"') as string,
    code: 3,
    told: { code: 'FAILED', exitCode: 3 },
  });
  await until(
    async () => (await server.client.workflow.count(`AgentJobBatch = 'ends'`)).count === 4,
    'the ends to be listed',
  );
  const many = await run('wait', '--batch', 'ends');
  const byId = new Map(linesOf(many.stdout).map((line) => [line['workflowId'], line]));
  expect(byId.get(ids.canceled)).toMatchObject({ outcome: 'Canceled' });
  expect(byId.get(ids.rejected)).toMatchObject({ outcome: 'CreateRejected' });
  expect(told(many)).toEqual({
    code: 'NOT_ALL',
    message: expect.any(String) as string,
    retryable: false,
    exitCode: 13,
  });
});

test.each(names)('%s reports a wrong option as one object, and nothing on stdout', async (name) => {
  const { stdout, stderr, code: exitCode } = await runInProcess([...name.split(' '), '--no-such-option', '--json']);
  expect(linesOf(stderr)).toMatchObject([{ code: 'USAGE', retryable: false, exitCode: 2 }]);
  expect([stdout, exitCode]).toEqual(['', 2]);
});

test.each(['list', 'state w', 'setup', 'attention', 'schedule list'])(
  '%s reports a server that is away as one object',
  async (words) => {
    const {
      stdout,
      stderr,
      code: exitCode,
    } = await runInProcess([...words.split(' '), ...at('127.0.0.1:1'), '--json']);
    expect(linesOf(stderr)).toMatchObject([{ code: 'TEMPORAL_UNAVAILABLE', retryable: true, exitCode: 11 }]);
    expect([stdout, exitCode]).toEqual(['', 11]);
  },
);
