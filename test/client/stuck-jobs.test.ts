import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { InterceptingCall } from '@grpc/grpc-js';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { listStuck } from '../../src/client/agent-job/stuck-jobs.js';
import type { JobHandle } from '../../src/starter.js';
import { createTestWorker } from '../support/worker.js';
import { startScriptedServer, type ScriptedServer } from './scripted-server.js';

const MINUTE = 60_000;
let server: ScriptedServer;
let job: JobHandle;
beforeAll(async () => {
  server = await startScriptedServer();
  job = await server.jobs.start({ projectId: server.projectId, key: randomUUID(), prompt: 'broken' });
});
afterAll(async () => {
  await server.client.workflow.getHandle(job.workflowId).terminate();
  await server.close();
});

async function countOf(client: Client, mostDescribed?: number): Promise<number> {
  const found: string[] = [];
  for await (const { workflowId } of listStuck(client, {}, mostDescribed)) found.push(workflowId);
  return found.filter((id) => id === job.workflowId).length;
}

const MARK = 'TemporalReportedProblems';

/** A client of a server that does not mark workflows: the real one refuses a name that it does not know. */
async function clientOfOlderServer(): Promise<{ client: Client; asked: () => number }> {
  let asked = 0;
  const connection = await Connection.connect({
    address: server.address,
    interceptors: [
      (options, next) =>
        new InterceptingCall(next(options), {
          sendMessage(message: Uint8Array, send) {
            const bytes = Buffer.from(message);
            const at = bytes.indexOf(MARK);
            // As many bytes, for they stand behind their count.
            if (at >= 0) asked += bytes.write('X', at);
            send(bytes);
          },
        }),
    ],
  });
  return { client: new Client({ connection, namespace: server.namespace }), asked: () => asked };
}

test(
  'a stuck job is found among the newest, before and without a mark of the server',
  { timeout: 3 * MINUTE },
  async () => {
    await expect.poll(() => countOf(server.client), { timeout: MINUTE }).toBe(1);
    const older = await clientOfOlderServer();
    expect(await countOf(older.client)).toBe(1);
    // Of jobs, and of the workflows that they wait for.
    expect(older.asked()).toBe(2);
    await older.client.connection.close();
  },
);

test(
  'a stuck job is found by the mark of the server, however many are newer, and told once',
  { timeout: 4 * MINUTE },
  async () => {
    await expect.poll(() => countOf(server.client, 0), { timeout: 3 * MINUTE, interval: 1_000 }).toBe(1);
    expect(await countOf(server.client)).toBe(1);
  },
);

test('a queue and an export that are stuck are found too', { timeout: 4 * MINUTE }, async () => {
  const taskQueue = `test-${randomUUID()}`;
  const worker = await createTestWorker({
    connection: server.nativeConnection,
    taskQueue,
    activities: {},
    // It has none of these workflows: their tasks fail.
    workflowsPath: fileURLToPath(new URL('../support/echo-workflow.ts', import.meta.url)),
  });
  const running = worker.run();
  const types = ['requestQueue', 'visitorExport'];
  const ids = types.map((type) => `${type}/${randomUUID()}`);
  try {
    for (const [i, workflowId] of ids.entries()) {
      await server.client.workflow.start(types[i]!, { workflowId, taskQueue, args: [{}] });
    }
    const found = async () => {
      const stuck: Record<string, string> = {};
      for await (const { workflowId, workflowType } of listStuck(server.client)) stuck[workflowId] = workflowType;
      return ids.map((id) => stuck[id]);
    };
    await expect.poll(found, { timeout: 2 * MINUTE, interval: 1_000 }).toEqual(types);
  } finally {
    for (const workflowId of ids) await server.client.workflow.getHandle(workflowId).terminate();
    worker.shutdown();
    await running;
  }
});
