/** What can't be undone: who is asked, what the question says, and that a no and a script mean what they say. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { chunkKey } from '../../src/snapshots/layout.js';
import { openStore } from '../../src/snapshots/open-store.js';
import type { JobHandle } from '../../src/starter.js';
import { QUICK, startJobServer, type JobServer } from '../client/job-server.js';
import { envOf, runOnTerminal } from './run-cli.js';
import { runInProcess } from './run-in-process.js';

const MOST_MS = 300_000;

let server: JobServer;
beforeAll(async () => {
  server = await startJobServer();
}, MOST_MS);
afterAll(() => server.close());

/** At a terminal, with this answer to the question. */
async function answered(answer: string, args: string[], env: Record<string, string> = {}) {
  const types = [[/\[y\/N\] $/, answer]] as const;
  return runOnTerminal(args, { env: { ...envOf(server), ...env }, columns: 300, types });
}

async function unlistedBatch(size: number): Promise<{ batch: string; jobs: JobHandle[] }> {
  const batch = `b-${randomUUID()}`;
  await server.sandbox.addScript({ promptIncludes: batch, script: { activeMs: 3_600_000 } });
  const jobs: JobHandle[] = [];
  for (let i = 0; i < size; i++) {
    const prompt = `${batch} ${i}`;
    jobs.push(await server.jobs.start({ key: randomUUID(), projectId: server.projectId, prompt, batch, ...QUICK }));
  }
  return { batch, jobs };
}

/** Once Temporal lists all of them. */
async function listedBatch(size: number) {
  const found = await unlistedBatch(size);
  await expect
    .poll(async () => (await server.jobs.count({ batch: found.batch })).total, { timeout: 120_000 })
    .toBe(size);
  return found;
}

test(
  'what can not be undone is asked at a terminal, and not in a script',
  async () => {
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
  },
  MOST_MS,
);

test(
  'the jobs of a batch are counted before they are ended or written to',
  async () => {
    const { batch, jobs } = await listedBatch(3);
    const kept = await answered('n\n', ['cancel', '--batch', batch]);
    expect(kept.output).toContain(`End the workflows of 3 running jobs of batch ${batch}?`);
    expect(kept.code).toBe(1);
    const unsent = await answered('n\n', ['follow-up', '--batch', batch, 'also this']);
    expect(unsent.output).toContain(`Send the follow-up to 3 running jobs of batch ${batch}?`);
    for (const job of jobs) expect(await job.state()).toMatchObject({ followUps: [], outcome: null });
    const ended = await answered('yes\n', ['cancel', '--batch', batch]);
    expect(ended.output).toContain('3 running jobs: 3 done, 0 failed');
    for (const job of jobs) await expect(job.result()).rejects.toMatchObject({ name: 'JobCanceledError' });
  },
  MOST_MS,
);

test(
  'a file of decisions is summed up before any of them is taken; typed at the terminal it needs --yes',
  async () => {
    const prompt = `prompt ${randomUUID()}`;
    await server.sandbox.addFault({ kind: 'reset', effect: 'after', promptIncludes: prompt });
    const job = await server.jobs.start({ key: randomUUID(), projectId: server.projectId, prompt, ...QUICK });
    await expect.poll(async () => (await job.state()).phase, { timeout: 120_000 }).toBe('needsAttention');
    const { since } = (await job.state()).unknown!;
    const line = JSON.stringify({ workflowId: job.workflowId, action: 'abandon', since });
    const file = join(await mkdtemp(join(tmpdir(), 'agent-jobs-test-')), 'decisions');
    await writeFile(file, `${line}\nnot JSON\n`);
    const declined = await answered('n\n', ['resolve', '--from', file]);
    expect(declined.output).toContain(
      'Carry out 1 decision (1 abandon), which can not be undone? 1 wrong line will be left out.',
    );
    const dry = await answered('', ['resolve', '--from', file, '--dry-run']);
    expect(dry.output).not.toContain('[y/N]');
    const typed = await runOnTerminal(['resolve', '--from', '-'], {
      env: envOf(server),
      columns: 300,
      typed: `${line}\n\u0004`,
    });
    expect(typed.output).toContain('the input has ended; give --yes');
    expect(typed.code).toBe(1);
    expect((await job.state()).phase).toBe('needsAttention');
    const script = await runInProcess(['resolve', '--from', file], { env: envOf(server) });
    expect(script.stdout).toContain('1 settled, 1 failed');
    expect(script.stderr).not.toContain('[y/N]');
    expect((await job.result()).outcome).toBe('abandoned');
  },
  MOST_MS,
);

test(
  'what clean would remove is counted; a no removes nothing, and where there is nothing nobody is asked',
  async () => {
    const url = pathToFileURL(await mkdtemp(join(tmpdir(), 'agent-jobs-test-'))).href;
    const store = await openStore(url);
    const stale = { projectId: `p-${randomUUID()}`, dateFrom: '2026-05-11', dateTo: '2026-05-12' };
    const key = chunkKey(stale, 'dead', 1, 0);
    await store.put(key, Buffer.from('x'));
    const env = { SNAPSHOTS_URL: url };
    const declined = await answered('n\n', ['export', 'clean'], env);
    expect(declined.output).toContain(`Remove 1 folder at ${store.url} (work in progress of 1 date range,`);
    expect(await store.size(key)).toBe(1);
    const json = await answered('', ['export', 'clean', '--json'], env);
    expect(json.output).not.toContain('[y/N]');
    expect(await store.size(key)).toBeNull();
    const none = await answered('', ['export', 'clean'], env);
    expect(none.output).not.toContain('[y/N]');
    expect(none.output).toContain('0 folders removed');
  },
  MOST_MS,
);
