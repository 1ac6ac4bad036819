/** Commands that act on a batch, while jobs of it are started. */
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { forEachRunning } from '../../src/cli/targets.js';
import type { Session } from '../../src/cli/session.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { AgentJobs } from '../../src/starter.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { gathered } from '../client/job-server.js';

let server: TestServer;
let jobs: AgentJobs;
beforeAll(async () => {
  server = await connectDevServer();
  await ensureSearchAttributes(server.client.connection, server.namespace);
  // No worker: the jobs stay as they are.
  jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
});
afterAll(() => server.close());
afterEach(() => {
  vi.restoreAllMocks();
  process.exitCode = undefined;
});

/** Starts a job of a batch, and waits until it is listed. */
async function start(batch: string, count: number): Promise<void> {
  await jobs.start({ projectId: batch, key: `k${count}`, prompt: 'x', batch });
  await expect.poll(() => gathered(jobs.list({ batch }))).toHaveLength(count);
}

/** Acts on a batch of one job; while it acts on a job another one is started, so many times. */
async function actWhileStarting(most: number) {
  const batch = `looks-${randomUUID()}`;
  await start(batch, 1);
  const told: string[] = [];
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => told.push(String(text)) > 0);
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  const asked: string[] = [];
  const session = { jobs, signal: new AbortController().signal } as Session;
  await forEachRunning(session, { batch, question: String }, async ({ workflowId }) => {
    asked.push(workflowId);
    if (asked.length <= most) await start(batch, asked.length + 1);
    return { text: 'done', json: {}, isDone: true };
  });
  return { asked: asked.length, told: told.join(''), exitCode: process.exitCode };
}

test('a job that is started meanwhile is asked, too, and each job once', async () => {
  const { asked, told, exitCode } = await actWhileStarting(2);
  expect(asked).toBe(3);
  expect(told).toContain('3 running jobs: 3 done, 0 failed');
  expect(exitCode).toBeUndefined();
});

test('where jobs are started as fast as they are asked, the command ends after five looks and says so', async () => {
  const { asked, told, exitCode } = await actWhileStarting(Infinity);
  expect(asked).toBe(5);
  expect(told).toContain('new jobs keep coming into this batch: repeat the command for the rest');
  expect(exitCode).toBe(13);
});
