import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { createTestWorker } from '../support/worker.js';
import type { JobCase } from './audit.js';
import { factsOf } from './error-facts.js';
import { keepEvidence } from './evidence.js';
import { summarizeRun } from './run-summary.js';
import { planJob } from './job-plan.js';
import { Timeline } from './timeline.js';

let server: TestServer;
let folder: string;

beforeAll(async () => {
  server = await connectDevServer();
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-test-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
  await server.close();
});

/** A run whose first workflow task failed for a bug. */
async function failOneTask(): Promise<{ workflowId: string; runId: string }> {
  const { client, taskQueue, nativeConnection: connection } = server;
  const workflowId = `agent-job/test/${taskQueue}`;
  const args = [{ projectId: 'p1', prompt: 'Fix it' }];
  const handle = await client.workflow.start('agentJob', { taskQueue, workflowId, args });
  const workflowsPath = fileURLToPath(new URL('./broken-workflows/index.ts', import.meta.url));
  const worker = await createTestWorker({ connection, taskQueue, activities: {}, workflowsPath });
  await worker.runUntil(async () => {
    const failures = async () => (await summarizeRun(client, { workflowId, runId, startedAt: 0 })).failedTasks.length;
    const { firstExecutionRunId: runId } = handle;
    await expect.poll(failures, { timeout: 120_000 }).toBeGreaterThanOrEqual(1);
  });
  await handle.terminate();
  return { workflowId, runId: handle.firstExecutionRunId };
}

test('a violation leaves its history, each failed task’s whole failure, the errors’ codes, and the log', async () => {
  const timeline = new Timeline();
  timeline.note('Temporal killed');
  const { workflowId, runId } = await failOneTask();
  const outage = Object.assign(new Error('14 UNAVAILABLE'), { code: 14, details: 'database is closed' });
  const failed = new Error('the wait ended', { cause: outage });
  const error = { at: new Date().toISOString(), during: 'result', chain: factsOf(failed) };
  const caller = {
    ...{
      plan: planJob({ seed: 1, runName: 'test' }, 1),
      workflowId,
      isStarted: true,
      accepted: [],
      refused: new Map(),
    },
    ...{ answers: new Map(), ending: 'Error', endingText: null, errors: [error] },
  };
  const job: JobCase = { caller, runs: [await summarizeRun(server.client, { workflowId, runId, startedAt: 0 })] };
  await writeFile(join(folder, 'worker-0.log'), `{"msg":"of this job ${workflowId}"}\n{"msg":"of another"}\n`);

  const source = { folder, seed: 7, client: server.client, timeline };
  const evidence = await keepEvidence(source, [{ workflowId, what: 'a workflow task failed' }], [job]);
  const read = async (file: string) => JSON.parse(await readFile(join(evidence, '1', file), 'utf8')) as never;

  expect(await read('failed-workflow-tasks.json')).toMatchObject([
    {
      runId,
      said: { failure: { message: 'broken on purpose', stackTrace: expect.stringContaining('agentJob') } },
      faultsBefore: [expect.stringMatching(/^\d+\.\d s before: Temporal killed$/)],
      replayOfTheHistoryThen: 'replays',
    },
  ]);
  expect(await read('violation.json')).toMatchObject({
    seed: 7,
    what: ['a workflow task failed'],
    caller: { errors: [{ chain: [{ name: 'Error' }, { code: 14, details: 'database is closed' }] }] },
  });
  expect(await read(`history-${runId}.json`)).toHaveProperty('events.0.eventId', '1');
  expect(await readFile(join(evidence, '1', 'worker-logs.txt'), 'utf8')).toBe(
    `worker-0.log: {"msg":"of this job ${workflowId}"}`,
  );
});
