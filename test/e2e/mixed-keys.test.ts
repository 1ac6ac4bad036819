/** A worker without `PAYLOAD_KEYS_FILE` among workers with it, as while the file is rolled out. */
import { randomBytes, randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { startSandbox } from '../../src/testing.js';
import { connectDevServer } from '../support/dev-server.js';
import { startWorkerProcess, workerEnv, type WorkerProcess } from '../support/worker-process.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

const JOBS = 16;

const server = useForFile(connectDevServer);
const sandbox = useForFile(() => startSandbox({ script: { activeMs: 0 }, keptRequests: 10_000 }));
const folder = newFolder();
const workers: WorkerProcess[] = [];

afterAll(async () => {
  await Promise.all(workers.map((worker) => worker.kill()));
});

test('no request leaves without its project and prompt, and no job is created twice', async () => {
  const keysFile = join(folder, 'keys.json');
  await writeFile(keysFile, JSON.stringify({ current: 'one', keys: { one: randomBytes(32).toString('base64') } }));
  // With this limit no worker keeps the activities of its own workflow tasks for itself.
  const env = { ...workerEnv(server, sandbox), UPSTREAM_REQUESTS_PER_SECOND: '100' };
  workers.push(startWorkerProcess(env), startWorkerProcess({ ...env, PAYLOAD_KEYS_FILE: keysFile }));
  await Promise.all(workers.map((worker) => worker.wrote('The worker runs')));
  const projectId = `mixed-${randomUUID()}`;
  const handles = await Promise.all(
    Array.from({ length: JOBS }, (_, number) =>
      server.client.workflow.start('agentJob', {
        workflowId: `agent-job/${projectId}/${number}`,
        taskQueue: server.taskQueue,
        args: [{ projectId, prompt: `work ${number}`, settle: 0, onUnknownOutcome: 'fail' }],
      }),
    ),
  );
  // The worker without keys takes a result of the other one for a write in doubt. It sends no such write again.
  await Promise.allSettled(handles.map((handle) => handle.result()));
  const elsewhere = (await sandbox.requests()).filter((request) => request.projectId !== projectId);
  expect(elsewhere.map(({ operation, projectId: project }) => `${operation} ${project}`)).toEqual([]);
  const prompts = (await sandbox.creates()).map(({ prompt }) => prompt);
  expect(prompts.length).toBeGreaterThan(0);
  expect(prompts).toEqual([...new Set(prompts)].filter((prompt) => /^work \d+$/.test(prompt)));
});
