/** What can't be undone: who is asked, what the question says, and that a no and a script mean what they say. */
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { QUICK, startJobServer } from '../client/job-server.js';
import { envOf, runOnTerminal } from './run-cli.js';
import { runInProcess } from './run-in-process.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startJobServer);

/** At a terminal, with this answer to the question. */
async function answered(answer: string, args: string[], env: Record<string, string> = {}) {
  const types = [[/\[y\/N\] $/, answer]] as const;
  return runOnTerminal(args, { env: { ...envOf(server), ...env }, columns: 300, types });
}

test('what can not be undone is asked at a terminal, and not in a script', async () => {
  const prompt = `prompt ${randomUUID()}`;
  await server.sandbox.addScript({ promptIncludes: prompt, script: { activeMs: 3_600_000 } });
  const job = await server.jobs.start({ key: randomUUID(), projectId: server.projectId, prompt, ...QUICK });
  const env = envOf(server);
  const declined = await runOnTerminal(['cancel', job.workflowId], { env, types: [[/\[y\/N\] $/, '\n']] });
  expect(declined.output).toContain('agent-jobs: nothing was done');
  expect(declined.code).toBe(1);
  const interrupted = await runOnTerminal(['cancel', job.workflowId], { env, types: [[/\[y\/N\] $/, '\u0003']] });
  expect(interrupted.code).toBe(130);
  expect((await job.state()).phase).toBe('watching');
  const agreed = await runOnTerminal(['cancel', job.workflowId, '--yes'], { env });
  expect(agreed.output).toContain('is asked to end');
  expect(agreed.output).not.toContain('[y/N]');
  await expect(job.result()).rejects.toMatchObject({ name: 'JobCanceledError' });
});

test('a file of decisions is summed up before any of them is taken; typed at the terminal it needs --yes', async () => {
  const prompt = `prompt ${randomUUID()}`;
  await server.sandbox.addFault({ kind: 'reset', effect: 'after', promptIncludes: prompt });
  const job = await server.jobs.start({ key: randomUUID(), projectId: server.projectId, prompt, ...QUICK });
  await expect.poll(async () => (await job.state()).phase).toBe('needsAttention');
  const { since } = (await job.state()).unknown!;
  const line = JSON.stringify({ workflowId: job.workflowId, action: 'abandon', since });
  const file = join(newFolder(), 'decisions');
  await writeFile(file, `${line}\nnot JSON\n`);
  const declined = await answered('n\n', ['resolve', '--from', file]);
  expect(declined.output).toContain(
    'Carry out 1 decision (abandon), which can not be undone? 1 wrong line will be left out.',
  );
  const typed = await runOnTerminal(['resolve', '--from', '-'], {
    env: envOf(server),
    columns: 300,
    typed: `${line}\n\u0004`,
  });
  expect(typed.output).toContain('the input has ended; give --yes');
  expect(typed.code).toBe(1);
  expect((await job.state()).phase).toBe('needsAttention');
  const script = await runInProcess(['resolve', '--from', file], { env: envOf(server) });
  expect(script.stdout).toContain('1 resolved, 1 failed');
  expect(script.stderr).not.toContain('[y/N]');
  expect((await job.result()).outcome).toBe('abandoned');
});
