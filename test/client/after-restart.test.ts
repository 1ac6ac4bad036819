/** The recipe of docs/client.md, as it is written there: a service that was away learns what ended meanwhile. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { transform } from 'esbuild';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AgentJobs, type JobSummary } from '../../src/starter.js';
import { QUICK, startJobServer, type JobServer } from './job-server.js';

type TellEnds = (jobs: AgentJobs, since: Date, tell: (job: JobSummary) => Promise<void>) => Promise<Date>;

const PAGE = fileURLToPath(new URL('../../docs/client.md', import.meta.url));

let server: JobServer;
let tellEnds: TellEnds;
let lines: number;
beforeAll(async () => {
  const blocks = [...(await readFile(PAGE, 'utf8')).matchAll(/```ts\n([\s\S]*?)```/g)].map(([, block]) => block!);
  const recipe = blocks.find((block) => block.includes('function tellEnds'))!;
  lines = recipe.trimEnd().split('\n').length;
  const file = join(await mkdtemp(join(tmpdir(), 'agent-jobs-test-')), 'recipe.mjs');
  await writeFile(file, (await transform(recipe, { loader: 'ts', format: 'esm' })).code);
  ({ tellEnds } = (await import(/* @vite-ignore */ pathToFileURL(file).href)) as { tellEnds: TellEnds });
  server = await startJobServer();
});
afterAll(() => server.close());

test('the recipe has at most ten lines', () => {
  expect(lines).toBeLessThanOrEqual(10);
});

test('each job that ended while the service was away is told, by its outcome, and no job that runs', async () => {
  const since = new Date();
  const { projectId, jobs, sandbox } = server;
  const long = `long ${randomUUID()}`;
  await sandbox.addScript({ promptIncludes: long, script: { activeMs: 3_600_000 } });
  const start = (prompt: string) => jobs.start({ key: randomUUID(), projectId, prompt, ...QUICK });
  const [completed, canceled, running] = [await start('short'), await start(long), await start(`${long} too`)];
  await completed.result();
  await canceled.cancel();
  await expect(canceled.result()).rejects.toMatchObject({ code: 'JOB_CANCELED' });

  const restarted = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
  const told = new Map<string, JobSummary>();
  let place = since;
  const tell = async (job: JobSummary) => void told.set(job.workflowId, job);
  const failing = () => Promise.reject(new Error('the store is full'));
  // The list lags behind: what a call misses is told by a later one.
  await expect.poll(() => tellEnds(restarted, place, failing).catch(String)).toBe('Error: the store is full');
  const call = async () => {
    place = await tellEnds(restarted, place, tell);
    return [completed, canceled].map(({ workflowId }) => told.get(workflowId)?.outcome);
  };
  await expect.poll(call).toEqual(['completed', 'Canceled']);
  expect(told.has(running.workflowId)).toBe(false);
  expect(place.getTime()).toBeLessThan(Date.now());
  await running.cancel();
});
