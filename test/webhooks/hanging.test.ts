import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { defaultPayloadConverter } from '@temporalio/common';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Endpoints } from '../../src/activities/webhooks/endpoints.js';
import { WEBHOOK_DELIVERY_WORKFLOW, type WebhookDelivery } from '../../src/contract/webhooks.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { until } from '../support/worker-process.js';
import { Receiver, SECRET } from './receiver.js';
import { startWebhookWorkers } from './webhook-workers.js';

const HANGING = 60;
const MOST_OPEN = 20;

let server: TestServer;
let receiver: Receiver;
let hanging: Receiver;
let end: () => Promise<void>;
beforeAll(async () => {
  server = await connectDevServer();
  receiver = await new Receiver().start();
  hanging = await new Receiver().start();
  const secrets = [SECRET];
  await receiver.configure({ busy: [{ url: hanging.url, secrets }], other: [{ url: receiver.url, secrets }] });
  end = await startWebhookWorkers({ ...server, receiver, slots: MOST_OPEN + 10 });
});
afterAll(async () => {
  await end();
  await server.close();
  await receiver.close();
  await hanging.close();
});

async function start(projectId: string, { taskQueue } = server) {
  const [endpoint] = await new Endpoints({ path: receiver.file, allowPrivate: true }).of(projectId);
  const eventId = `evt_${randomUUID()}`;
  const to = { id: endpoint!.id, origin: endpoint!.url.origin };
  const delivery: WebhookDelivery = { eventId, projectId, endpoint: to, body: '{}' };
  const workflowId = `webhook/${eventId}`;
  return server.client.workflow.start(WEBHOOK_DELIVERY_WORKFLOW, { workflowId, taskQueue, args: [delivery] });
}

test(
  'beside 60 deliveries to a receiver that hangs, another one is made; those that wait lose no try',
  { timeout: 180_000 },
  async () => {
    const held: ServerResponse[] = [];
    hanging.otherwise = (response) => void held.push(response);
    const waiting = await Promise.all(Array.from({ length: HANGING }, () => start('busy')));
    await until(() => held.length === MOST_OPEN, 'the receiver to have as many as it gets');
    expect(await (await start('other')).result()).toBe('delivered');
    expect(held.length).toBe(MOST_OPEN);

    // The first of those that found no place, once they may: it fails, and that is its first try.
    const opened = new Set(hanging.received.map(({ headers }) => headers['webhook-id']));
    hanging.answers.push(...Array<number>(HANGING - MOST_OPEN).fill(500));
    hanging.otherwise = 204;
    for (const response of held) response.writeHead(204).end();
    await until(() => hanging.received.length >= HANGING, 'a try of each');
    const late = hanging.received.map(({ headers }) => headers['webhook-id']!).find((id) => !opened.has(id))!;
    const handle = waiting.find(({ workflowId }) => workflowId === `webhook/${late}`)!;
    await until(async () => (await triesOf(handle)) !== undefined, 'its failure');
    // However many attempts waited for a slot, one try was made.
    expect(await triesOf(handle)).toBe(1);
    await Promise.all(waiting.map((one) => one.terminate().catch(() => {})));
  },
);

/** The state of the delivery that waits for its next try. */
async function triesOf(handle: Awaited<ReturnType<typeof start>>) {
  const { raw } = await handle.describe();
  const [details] = raw.pendingActivities?.[0]?.heartbeatDetails?.payloads ?? [];
  return details && defaultPayloadConverter.fromPayload<{ tries: number }>(details).tries;
}
