/** `PROJECT_BUDGETS_FILE` while the worker runs: changed, broken, and with budgets of other projects. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { ProjectQueue } from '../support/project-queue.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';

const PATIENCE = { timeout: 120_000, interval: 250 };
/** A worker looks at the file this often. */
const LOOK_MS = 1_000;

let server: TestServer;
let folder: string;
let path: string;
let bench: JobBench;
let upstream: ScriptedUpstream;

beforeAll(async () => {
  server = await connectDevServer();
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-test-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
  await server.close();
});
beforeEach(() => {
  path = join(folder, `${randomUUID()}.json`);
  upstream = new ScriptedUpstream();
});
afterEach(() => bench.stop());

async function withFile(text: string): Promise<void> {
  await writeFile(path, text);
  bench = await startJobBench(server, upstream, { budgets: { projectBudgetsFile: path } });
}

async function change(text: string | null): Promise<void> {
  if (text === null) await rm(path);
  else await writeFile(path, text);
  await delay(LOOK_MS + 100);
}

const fileOf = (projectId: string, budget: object) => JSON.stringify({ [projectId]: budget });

test.for([
  ['is broken', '{"p": {"createsPerHour": 1'],
  ['names a project that cannot be', '{"..": {"createsPerHour": 100}}'],
  ['is gone', null],
])('where the file %s, its last good content holds', async ([, broken]) => {
  const projectId = `p ${randomUUID()}`;
  await withFile(fileOf(projectId, { createsPerHour: 1 }));
  const first = await bench.start({ projectId, prompt: 'first' });
  expect(await first.result()).toMatchObject({ outcome: 'completed' });
  await change(broken as string | null);
  const queue = new ProjectQueue(server.client, bench.taskQueue, projectId);
  const second = await bench.start({ projectId, prompt: 'second' });
  await expect.poll(() => queue.placeOf(second.workflowId), PATIENCE).toMatchObject({ for: 'turn', position: 1 });
  expect(upstream.created).toEqual(['first']);
  // A file that is right again is read again.
  await change(fileOf(projectId, { createsPerHour: 2 }));
  const third = await bench.start({ projectId, prompt: 'third' });
  expect(await second.result()).toMatchObject({ outcome: 'completed' });
  await expect.poll(() => queue.placeOf(third.workflowId), PATIENCE).toMatchObject({ position: 1 });
});
