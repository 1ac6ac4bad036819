import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Endpoints } from '../../src/activities/webhooks/endpoints.js';
import { WEBHOOK_DELIVERY_WORKFLOW } from '../../src/contract/webhooks.js';
import { connectOwnNamespace, type TestServer } from '../support/dev-server.js';
import { until } from '../support/worker-process.js';
import { Receiver } from '../webhooks/receiver.js';
import { startWebhookWorkers } from '../webhooks/webhook-workers.js';
import { jsonLines } from './run-cli.js';
import { runInProcess } from './run-in-process.js';

const MINUTE = 60_000;

let server: TestServer;
let receiver: Receiver;
let end: () => Promise<void>;
beforeAll(async () => {
  server = await connectOwnNamespace();
  receiver = await new Receiver().start();
  end = await startWebhookWorkers({ ...server, receiver });
}, 2 * MINUTE);
afterAll(async () => {
  await end();
  await receiver.close();
  await server.close();
});

const cli = (...args: string[]) =>
  runInProcess([
    '--address',
    server.address,
    '--namespace',
    server.namespace,
    '--task-queue',
    server.taskQueue,
    ...args,
  ]);

/** A delivery that is between two tries when somebody ends it. */
async function givenUp(): Promise<string> {
  const [endpoint] = await new Endpoints({ path: receiver.file, allowPrivate: true }).of(null);
  const eventId = `evt_${randomUUID()}`;
  const type = 'agent_job.ended';
  const to = { id: endpoint!.id, origin: receiver.origin };
  const body = JSON.stringify({ type, timestamp: '2026-01-01T00:00:00Z', data: {} });
  const before = receiver.received.length;
  receiver.answers.push(500);
  const { workflow } = server.client;
  const handle = await workflow.start(WEBHOOK_DELIVERY_WORKFLOW, {
    workflowId: `webhook/${eventId}/${endpoint!.id}`,
    taskQueue: server.taskQueue,
    args: [{ eventId, type, projectId: 'p', endpoint: to, body }],
    memo: { type, of: 'agent-job/p/k', to: receiver.origin },
  });
  await until(() => receiver.received.length > before, 'a try');
  await handle.terminate('given up');
  return handle.workflowId;
}

const listed = async () =>
  jsonLines((await cli('attention', '--json')).stdout).map(({ undelivered }) => undelivered as object);
const sentOf = (workflowId: string) =>
  receiver.received.filter(({ headers }) => workflowId.includes(headers['webhook-id']!));

test('a delivery that was given up is listed, and sent again with the same id and body', async () => {
  const workflowId = await givenUp();
  const item = { workflowId, type: 'agent_job.ended', of: 'agent-job/p/k', to: receiver.origin };
  await expect.poll(listed, { timeout: MINUTE }).toEqual([{ ...item, givenUpAt: expect.stringMatching(/Z$/) }]);
  const { stdout } = await cli('attention');
  expect(stdout).toMatch(/Not taken by +http:\/\/127\.0\.0\.1/);
  expect(stdout).toContain(`webhooks resend ${workflowId}`);
  expect(await cli('webhooks', 'resend', workflowId)).toMatchObject({
    code: 0,
    stdout: `${workflowId} is sent again\n`,
  });
  await until(() => sentOf(workflowId).length === 2, 'the second try');
  const [first, second] = sentOf(workflowId);
  expect(second!.body).toBe(first!.body);
  await expect.poll(listed, { timeout: MINUTE }).toEqual([]);
});

test('all that were given up are sent again at once, and one that was taken where it is named', async () => {
  const ids = [await givenUp(), await givenUp()];
  await expect.poll(async () => (await listed()).length, { timeout: MINUTE }).toBe(2);
  const { stdout } = await cli('webhooks', 'resend', '--all', '--json');
  const told = ids.map((workflowId) => ({ workflowId, isResent: true }));
  expect(new Set(jsonLines(stdout))).toEqual(new Set(told));
  for (const id of ids) await until(() => sentOf(id).length === 2, 'the second try');
  await expect.poll(listed, { timeout: MINUTE }).toEqual([]);
  expect(await cli('webhooks', 'resend', '--all')).toMatchObject({ code: 0, stdout: 'no delivery was given up\n' });
  await cli('webhooks', 'resend', ids[0]!);
  await until(() => sentOf(ids[0]!).length === 3, 'the third try');
});

test('what is no delivery is refused', async () => {
  const nobody = await cli('webhooks', 'resend', 'nobody');
  expect(nobody).toMatchObject({ code: 1, stdout: '' });
  const handle = await server.client.workflow.start('agentJob', {
    ...{ workflowId: 'a-job', taskQueue: 'nobody' },
    args: [{ projectId: 'p', prompt: 'x' }],
  });
  const job = await cli('webhooks', 'resend', 'a-job');
  expect(job.stderr).toContain('must be the id of a webhookDelivery: this one is of agentJob');
  await handle.terminate();
  expect(await cli('webhooks', 'resend')).toMatchObject({ code: 2 });
  expect(await cli('webhooks', 'resend', 'one', '--all')).toMatchObject({ code: 2 });
});
