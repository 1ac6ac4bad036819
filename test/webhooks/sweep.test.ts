import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { webhookSweepId, webhookTaskQueue } from '../../src/contract/webhooks.js';
import { createWebhookActivities } from '../../src/activities/webhooks/activities.js';
import { Endpoints } from '../../src/activities/webhooks/endpoints.js';
import { startSweep } from '../../src/worker/webhooks.js';
import { QUICK, startJobServer, type JobServer } from '../client/job-server.js';
import { createWorker } from '../support/worker.js';
import { until } from '../support/worker-process.js';
import { Receiver } from './receiver.js';

const MINUTE = 60_000;

let server: JobServer;
let receiver: Receiver;
let end: () => Promise<void>;
beforeAll(async () => {
  receiver = await new Receiver().start();
  server = await startJobServer();
  end = await startWebhooks();
  await startSweep(server.client, server.taskQueue);
}, 3 * MINUTE);
afterAll(async () => {
  await server.client.workflow.getHandle(webhookSweepId(server.taskQueue)).terminate();
  await end();
  await server.close();
  await receiver.close();
});

/** A worker of webhooks; answers with what ends it. */
async function startWebhooks(): Promise<() => Promise<void>> {
  const { nativeConnection: connection, taskQueue, address } = server;
  const shutdown = new AbortController();
  const endpoints = new Endpoints({ path: receiver.file, allowPrivate: true });
  const activities = createWebhookActivities({
    ...{ taskQueue, endpoints, address, webUiUrl: undefined },
    shutdownSignal: shutdown.signal,
    onTry: () => {},
  });
  const worker = await createWorker({ connection, taskQueue: webhookTaskQueue(taskQueue), activities });
  const running = worker.run();
  return async () => {
    shutdown.abort();
    worker.shutdown();
    await running;
  };
}

const start = (more: object = {}) => {
  const key = randomUUID();
  return server.jobs.start({ projectId: server.projectId, key, prompt: 'Hide me', ...QUICK, ...more });
};
const told = async (type: string, workflowId: string) => {
  const found = () => receiver.events(type).find(({ data }) => data.workflowId === workflowId);
  await until(
    () => found() !== undefined,
    `${type} of ${workflowId}`,
    () => JSON.stringify(receiver.received),
  );
  return found();
};

test('an end is told once the run has closed, however it closed, without the prompt', async () => {
  const handle = await start({ tags: ['web'], metadata: { ticket: 'T-1' } });
  const { projectId, key, workflowId, runId } = handle;
  const { job } = await handle.result();
  const event = await told('agent_job.ended', workflowId);
  expect(event).toEqual({
    type: 'agent_job.ended',
    timestamp: expect.stringMatching(/Z$/),
    data: {
      ...{ projectId, key, workflowId, runId, outcome: 'completed', jobId: job!.id, prLink: job!.prLink },
      ...{ tags: ['web'], metadata: { ticket: 'T-1' } },
    },
  });
  const terminated = await start({ settle: 60_000 });
  await server.client.workflow.getHandle(terminated.workflowId).terminate();
  const end = await told('agent_job.ended', terminated.workflowId);
  expect(end.data.outcome).toBe('Terminated');
  expect(JSON.stringify(receiver.received)).not.toContain('Hide me');
});

test('a write in doubt is told with what settles it, and that it is settled, with the decision', async () => {
  const { sandbox, projectId } = server;
  await sandbox.addFault({ kind: 'status', status: 500, operation: 'create', projectId });
  const handle = await start();
  const { workflowId } = handle;
  const asked = await told('agent_job.needs_attention', workflowId);
  const { unknown } = await handle.state();
  expect(asked.data).toMatchObject({ projectId, workflowId, key: handle.key, runId: handle.runId, unknown });
  expect(asked.data.command).toBe(`npx agent-jobs resolve ${workflowId} ACTION --since ${unknown!.since}`);
  expect(asked.data.url).toBe(handle.url);
  expect(receiver.events('agent_job.settled')).toEqual([]);
  await handle.resolve({ action: 'abandon', by: 'ada' });
  const settled = await told('agent_job.settled', workflowId);
  expect(settled.data).toMatchObject({ workflowId, unknown, decision: { action: 'abandon', by: 'ada' } });
});
