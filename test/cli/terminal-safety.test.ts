/** What strangers wrote, ids included, as every command shows it: on a terminal it is text and nothing else. */
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { AGENT_JOB_WORKFLOW } from '../../src/contract.js';
import { gathered, QUICK, startJobServer } from '../client/job-server.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { until } from '../support/worker-process.js';
import { envOf, jsonLines, runOnTerminal } from './run-cli.js';
import { runInProcess } from './run-in-process.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

/** Clears the screen, names the window, colours (C1), and turns the rest of the line around. */
const HOSTILE = '\u001B[2J\u001B]0;mine\u0007\u009B31m\u202Edrawkcab\u2066\u2069';
const UNSAFE = /[\p{Cc}\u2028\u2029\p{Bidi_Control}]/u;

const server = useForFile(async () => startJobServer(await connectOwnNamespace()));
let workflowId: string;
let marker: string;

beforeAll(async () => {
  marker = randomUUID();
  workflowId = `${marker}${HOSTILE}`;
  await server.sandbox.addFault({ kind: 'reset', effect: 'after', promptIncludes: marker });
  // A caller in another language may choose any id, and another release may write any state.
  await server.client.workflow.start(AGENT_JOB_WORKFLOW, {
    workflowId,
    taskQueue: server.taskQueue,
    args: [
      {
        projectId: server.projectId,
        prompt: `${marker} first${HOSTILE}\nsecond${HOSTILE}`,
        metadata: { from: `me${HOSTILE}` },
        ...QUICK,
      },
    ],
  });
  const job = server.jobs.handle(workflowId);
  await until(async () => (await job.state()).phase === 'needsAttention', 'the job to need attention');
  await job.followUp('more', { id: `id${HOSTILE}` });
  await until(async () => (await job.state()).followUps.length === 1, 'the follow-up');
  await until(async () => (await gathered(server.jobs.list())).length === 1, 'the job to be listed');
});

function expectSafe(output: string): void {
  expect(output).toContain(marker);
  expect(output.replace(/\r?\n/g, '')).not.toMatch(UNSAFE);
}

test('what strangers wrote is text alone to a terminal, and to a program JSON without control characters', async () => {
  const env = envOf(server);
  const outputs: string[] = [];
  for (const args of [['list'], ['state', workflowId], ['attention']]) {
    const { output } = await runOnTerminal(args, { env, columns: 200 });
    expectSafe(output);
    outputs.push(output);
    const { stdout } = await runInProcess([...args, '--json'], { env });
    expect(stdout.replaceAll('\n', '')).not.toMatch(UNSAFE);
    expect(jsonLines(stdout)).toMatchObject([{ workflowId }]);
  }
});

test('a file of decisions and an error show a stranger’s text alone, one line each', async () => {
  const env = envOf(server);
  const folder = newFolder();
  const file = join(folder, 'decisions.ndjson');
  const since = new Date(0).toISOString();
  const lines = [
    { workflowId, action: 'retry', since },
    { workflowId, action: `retry\n${HOSTILE}`, since },
    { workflowId: `${marker}/none\n${HOSTILE}`, action: 'retry', since },
  ];
  await writeFile(file, lines.map((line) => JSON.stringify(line)).join('\n'));
  const run = await runOnTerminal(['resolve', '--from', file, '--yes'], { env, columns: 400 });
  expectSafe(run.output);
  expect(run.output).toContain('0 resolved, 3 failed');
  // No line of a stranger's stands alone.
  for (const line of run.output.trim().split('\r\n')) expect(line).toMatch(/^(line \d  |agent-jobs: |\d resolved)/);
  const missing = await runOnTerminal(['state', `${marker}/none${HOSTILE}`], { env });
  expectSafe(missing.output);
});
