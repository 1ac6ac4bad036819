import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { connectDevServer } from '../support/dev-server.js';
import { cliProgram, envOf, jsonLines, runCli, type CliOptions, type CliRun } from './run-cli.js';
import { runInProcess } from './run-in-process.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

const MOST_MS = 240_000; // a busy machine starts a process slowly
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** `START_LINES=5000` for the whole size. */
const LINES = Number(process.env['START_LINES'] ?? 100);
const KILLS = 3;

const server = useForFile(connectDevServer);

/** No worker serves the jobs: that they start is what counts. */
function cli(args: string[], options: CliOptions = {}): Promise<CliRun> {
  const env = { ...envOf(server), ...options.env };
  return options.closesStdoutEarly ? runCli(args, { ...options, env }) : runInProcess(args, { ...options, env });
}

interface Told {
  line: number;
  key: string | null;
  workflowId: string | null;
  fate: string;
  error?: string;
}

const toldBy = ({ stdout }: CliRun) => jsonLines(stdout) as unknown as Told[];
const inOrder = (told: Told[]) => told.toSorted((a, b) => a.line - b.line);

function countOf(fate: string, told: Told[]): number {
  return told.filter((one) => one.fate === fate).length;
}

async function countWorkflows(batch: string): Promise<number> {
  return (await server.client.workflow.count(`AgentJobBatch = '${batch}'`)).count;
}

/** Lines of a project of their own; every tenth has the key of the line before. */
async function writeLines(count: number): Promise<{ file: string; batch: string; keys: number }> {
  const batch = `batch-${randomUUID()}`;
  const keyOf = (i: number) => `k${i % 10 === 9 ? i - 1 : i}`;
  const lines = Array.from({ length: count }, (_, i) => JSON.stringify({ key: keyOf(i), prompt: `do ${keyOf(i)}` }));
  const file = join(newFolder(), 'jobs.ndjson');
  await writeFile(file, lines.join('\n'));
  return { file, batch, keys: new Set(lines).size };
}

/** Runs the command and kills it once it has printed `told` lines; its input does not end before. */
async function killAfter(told: number, file: string, args: string[]): Promise<void> {
  const child = spawn(process.execPath, [cliProgram, 'start', '--from', '-', ...args], {
    cwd: ROOT,
    env: { PATH: process.env['PATH'] ?? '', HOME: tmpdir(), ...envOf(server) },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.on('error', () => {}).write(`${await readFile(file, 'utf8')}\n`);
  let lines = 0;
  child.stdout.on('data', (bytes: Buffer) => {
    lines += bytes.filter((byte) => byte === 0x0a).length;
    if (lines >= told) child.kill('SIGKILL');
  });
  const [, signal] = (await once(child, 'close')) as [number | null, string | null];
  expect(signal).toBe('SIGKILL');
}

test(
  `${LINES} lines of which 10 % repeat a key, the command killed ${KILLS} times: one workflow for each key`,
  async () => {
    const { file, batch, keys } = await writeLines(LINES);
    const common = ['--project', batch, '--batch', batch, '--json'];
    for (let kill = 1; kill <= KILLS; kill++) await killAfter((kill * LINES) / (KILLS + 1), file, common);
    const args = ['start', '--from', file, ...common];
    const whole = { mostMs: MOST_MS + LINES * 50 };
    const last = await cli(args, whole);
    const told = inOrder(toldBy(last));
    expect(told.map(({ line }) => line)).toEqual(Array.from({ length: LINES }, (_, i) => i + 1));
    expect(countOf('started', told) + countOf('joined', told)).toBe(LINES);
    expect(last.code).toBe(0);
    await expect.poll(() => countWorkflows(batch)).toBe(keys);
    const again = await cli(args, whole);
    expect(countOf('joined', toldBy(again))).toBe(LINES);
    expect(again.stderr).toContain(`0 started, ${LINES} joined, 0 conflict, 0 refused`);
    expect(again.code).toBe(0);
    expect(await countWorkflows(batch)).toBe(keys);
  },
  MOST_MS + LINES * 300,
);

test('each line has one outcome: an invalid one says what is wrong, and the others go on', async () => {
  const projectId = `project-${randomUUID()}`;
  const prompt = 'a secret instruction';
  const lines = [
    JSON.stringify({ key: 'a', prompt, priority: 1, deadlin: null }),
    '',
    JSON.stringify({ key: 'a', prompt }),
    JSON.stringify({ key: 'a', prompt: 'another' }),
    `{"key": "b", "prompt": "${prompt}"`,
    JSON.stringify({ prompt }),
    JSON.stringify({ key: 7, prompt }),
    JSON.stringify({ key: 'c', prompt, priority: 9 }),
    JSON.stringify([{ key: 'd', prompt }]),
    JSON.stringify({ key: 'e' }),
    JSON.stringify({ key: 'f', jobId: 'job-1', projectId: null, prompt: null }),
    JSON.stringify({ key: 'g', prompt, deadlin: '1 hour' }),
    JSON.stringify({ key: 'h', prompt: 'x'.repeat(9_000_000) }),
    '   ',
  ];
  const bytes = Buffer.concat([Buffer.from('\ufeff'), Buffer.from(lines.join('\r\n'))]);
  const notText = Buffer.concat([Buffer.from('\n{"key": "i", "prompt": "'), Buffer.from([0xff]), Buffer.from('"}\n')]);
  const file = join(newFolder(), 'jobs.ndjson');
  await writeFile(file, Buffer.concat([bytes, notText]));
  const run = await cli(['start', '--from', file, '--project', projectId, '--json']);
  const workflowId = (key: string) => `agent-job/${projectId}/${key}`;
  expect(inOrder(toldBy(run))).toEqual([
    { line: 1, key: 'a', workflowId: workflowId('a'), fate: 'started' },
    { line: 3, key: 'a', workflowId: workflowId('a'), fate: 'joined' },
    expect.objectContaining({ line: 4, key: 'a', workflowId: workflowId('a'), fate: 'conflict' }),
    { line: 5, key: null, workflowId: null, fate: 'refused', error: expect.stringMatching(/not JSON/) as string },
    { line: 6, key: null, workflowId: null, fate: 'refused', error: expect.stringMatching(/^key must/) as string },
    { line: 7, key: null, workflowId: null, fate: 'refused', error: expect.stringMatching(/^key must/) as string },
    {
      line: 8,
      key: 'c',
      workflowId: null,
      fate: 'refused',
      error: expect.stringMatching(/^priority must/) as string,
    },
    expect.objectContaining({ line: 9, fate: 'refused', error: 'the line must be one JSON object' }),
    expect.objectContaining({ line: 10, key: 'e', fate: 'refused' }),
    { line: 11, key: 'f', workflowId: workflowId('f'), fate: 'started' },
    expect.objectContaining({
      line: 12,
      key: 'g',
      workflowId: null,
      fate: 'refused',
      error: expect.stringMatching(/^deadlin .* known are .*deadline/) as string,
    }),
    expect.objectContaining({ line: 13, fate: 'refused', error: expect.stringMatching(/8388608 bytes/) as string }),
    expect.objectContaining({ line: 15, fate: 'refused', error: 'the line must be UTF-8 text' }),
  ]);
  expect(run.stdout + run.stderr).not.toContain(prompt);
  expect(run.code).toBe(13);
  const described = await server.client.workflow.getHandle(workflowId('a')).describe();
  expect(described.priority).toMatchObject({ priorityKey: 1 });
});

test('lines from stdin are started as they come, and Ctrl-C lets what is under way finish', async () => {
  const projectId = `project-${randomUUID()}`;
  const child = spawn(process.execPath, [cliProgram, 'start', '--from', '-', '--project', projectId, '--json'], {
    cwd: ROOT,
    env: { PATH: process.env['PATH'] ?? '', HOME: tmpdir(), ...envOf(server) },
  });
  const run: CliRun = { code: null, stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (run.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (run.stderr += text));
  for (const key of ['a', 'b']) child.stdin.write(`${JSON.stringify({ key, prompt: 'x' })}\n`);
  // The pipe stays open: the outcomes are printed without waiting for its end.
  await expect.poll(() => toldBy(run).length).toBe(2);
  child.kill('SIGINT');
  [run.code] = (await once(child, 'close')) as [number | null];
  expect(run.stderr).toContain('2 lines: 2 started, 0 joined, 0 conflict, 0 refused; these are done');
  expect(run.stderr).toContain('interrupted; the same command goes on');
  expect(run.code).toBe(130);
});

test('for people it prints what is wrong and a summary, and the next command for the batch', async () => {
  const batch = `batch ${randomUUID()}`;
  const stdin = [{ key: 'a', prompt: 'x' }, { key: 'b' }].map((line) => JSON.stringify(line)).join('\n');
  const { code, stdout, stderr } = await cli(['start', '--from', '-', '--project', 'p', '--batch', batch], { stdin });
  const [wrong, summary] = stdout.trim().split('\n');
  expect(wrong).toMatch(/^line 2 {2}refused {2}b {2}prompt or jobId must be given/);
  expect(summary).toBe('2 lines: 1 started, 0 joined, 0 conflict, 1 refused');
  expect(stderr).toContain(`wait --batch '${batch}'`);
  expect(stderr).toContain(`Temporal at ${server.address}, namespace ${server.namespace}`);
  expect(code).toBe(13);
  const nothing = await cli(['start', '--from', '-'], { stdin: '\n\n' });
  expect(nothing.stdout).toBe('0 lines: 0 started, 0 joined, 0 conflict, 0 refused\n');
  expect(nothing.code).toBe(0);
});
