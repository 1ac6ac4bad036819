import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { WorkflowFailedError } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import { expect, test } from 'vitest';
import { jobOptions } from '../../src/worker/workers.js';
import { connectDevServer } from '../support/dev-server.js';
import { failedTasks } from '../support/failed-tasks.js';
import { createTestWorker } from '../support/worker.js';
import { spin } from './stalled-workflows.js';
import { useForFile } from '../support/use.js';

const workflowsPath = fileURLToPath(new URL('./stalled-workflows.ts', import.meta.url));
/** The SDK breaks off an activation after 5 s by default. */
const STALL_MS = 6_500;

const server = useForFile(connectDevServer);

function roundsOf(ms: number): number {
  const sample = 50_000_000;
  spin(sample);
  const startedAt = performance.now();
  spin(sample);
  return Math.ceil((sample * ms) / (performance.now() - startedAt));
}

test('an activation that stalled is finished, and later workflows of its thread still see cancellations', async () => {
  const { client, taskQueue, nativeConnection: connection } = server;
  const options = { ...jobOptions({ upstreamRequestsPerSecond: undefined }), workflowThreadPoolSize: 1 };
  const worker = await createTestWorker({ ...options, connection, taskQueue, activities: {}, workflowsPath });
  await worker.runUntil(async () => {
    const stalled = await client.workflow.start('stall', {
      taskQueue,
      workflowId: randomUUID(),
      args: [roundsOf(STALL_MS)],
      workflowTaskTimeout: '1 minute',
      workflowExecutionTimeout: '90 seconds',
    });
    await stalled.result();
    const { events } = await stalled.fetchHistory();
    expect(failedTasks(events)).toEqual([]);
    const waiting = await client.workflow.start('untilCancelled', { taskQueue, workflowId: randomUUID() });
    await waiting.cancel();
    const error = await waiting.result().catch((e: unknown) => e);
    expect(error).toBeInstanceOf(WorkflowFailedError);
    expect((error as WorkflowFailedError).cause).toBeInstanceOf(CancelledFailure);
  });
});
