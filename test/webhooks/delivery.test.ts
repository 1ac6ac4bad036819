import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Endpoints } from '../../src/activities/webhooks/endpoints.js';
import { WEBHOOK_DELIVERY_WORKFLOW, type WebhookDelivery } from '../../src/contract/webhooks.js';
import { connectDevServer } from '../support/dev-server.js';
import { skipTime } from '../support/skip-time.js';
import { billableActions } from '../workflows/billable-actions.js';
import { SECRET, useReceiver } from './receiver.js';
import { startWebhookWorkers } from './webhook-workers.js';
import { useForFile } from '../support/use.js';

const MINUTE = 60_000;

const server = useForFile(connectDevServer);
const receiver = useReceiver();
const taskQueue = `test-${randomUUID()}`;
const tries: [string, string][] = [];
let end: () => Promise<void>;
beforeAll(async () => {
  const { nativeConnection } = server;
  end = await startWebhookWorkers({ nativeConnection, taskQueue, receiver, onTry: (...one) => void tries.push(one) });
}, 3 * MINUTE);
afterAll(() => end());

/** The result or the failure's cause, how long it took by the server's clock, and what Temporal Cloud would bill. */
async function deliver(): Promise<{ result: unknown; seconds: number; actions: number }> {
  const [endpoint] = await new Endpoints({ path: receiver.file, allowPrivate: true }).of(null);
  const body = JSON.stringify({ type: 'agent_job.ended', timestamp: '2026-01-01T00:00:00Z', data: {} });
  const to = { id: endpoint!.id, origin: receiver.origin };
  const delivery: WebhookDelivery = { eventId: 'evt_1', projectId: 'p', endpoint: to, body };
  receiver.received.length = 0;
  tries.length = 0;
  const workflowId = `webhook/${randomUUID()}`;
  const { workflow } = server.client;
  const handle = await workflow.start(WEBHOOK_DELIVERY_WORKFLOW, { workflowId, taskQueue, args: [delivery] });
  await skipTime(handle);
  const result: unknown = await handle.result().catch((error: { cause: { cause: Error } }) => error.cause.cause);
  const { events } = await handle.fetchHistory();
  const times = events!.map(({ eventTime }) => Number(eventTime!.seconds));
  return { result, seconds: times.at(-1)! - times[0]!, actions: billableActions(events!) };
}

test('a receiver that is down for two hours gets the same event, signed anew', async () => {
  // The tries follow at once: with this answer the last one is a second later.
  const slow = (response: ServerResponse) => void setTimeout(() => response.writeHead(500).end(), 1_100);
  receiver.answers.push(slow, (response) => void response.destroy(), 302, 404, 408, 500);
  const { result, seconds } = await deliver();
  expect(result).toBe('delivered');
  // 30 seconds, and three times the wait before after each.
  expect(Math.floor(seconds / 60)).toBe(182);
  expect(receiver.received).toHaveLength(7);
  const [first, ...others] = receiver.received;
  for (const { headers, body } of others) {
    expect([headers['webhook-id'], body]).toEqual(['evt_1', first!.body]);
    expect(() => new Webhook(SECRET).verify(body, headers)).not.toThrow();
    expect(headers['webhook-timestamp']).not.toBe(first!.headers['webhook-timestamp']);
  }
  expect(tries.map(([, result]) => result)).toEqual([...Array<string>(6).fill('failed'), 'delivered']);
  expect(new Set(tries.map(([to]) => to))).toEqual(new Set([receiver.origin]));
});

test('one that is never taken is tried eleven times in about three days, and the failure shows no secret', async () => {
  receiver.otherwise = 500;
  const { result, seconds } = await deliver();
  receiver.otherwise = 204;
  expect(result).toMatchObject({ type: 'WebhookNotDelivered', message: `${receiver.origin} answered 500` });
  expect(receiver.received).toHaveLength(11);
  expect(Math.round(seconds / 3_600)).toBe(75);
});

test('a receiver that is gone, a 410, is asked no more for that event', async () => {
  receiver.answers.push(410);
  expect(await deliver()).toMatchObject({ result: 'gone' });
  expect(receiver.received).toHaveLength(1);
  expect(await deliver()).toMatchObject({ result: 'delivered' });
});

test('a Retry-After that is later than the next try is obeyed, a sooner one changes nothing', async () => {
  const says = (status: number, seconds: number) => (response: ServerResponse) =>
    void response.writeHead(status, { 'retry-after': String(seconds) }).end();
  receiver.answers.push(says(429, 1_200), says(503, 1), says(500, 3_000));
  const { result, seconds } = await deliver();
  expect(result).toBe('delivered');
  // 20 minutes, then the second and the third wait of its own.
  expect(Math.floor(seconds / 60)).toBe((1_200 + 90 + 270) / 60);
});

test('an address that the file names twice gets one request, which the secrets of both sign', async () => {
  const other = `whsec_${Buffer.from('the other secret of an address').toString('base64')}`;
  const [all, own] = [SECRET, other].map((secret) => [{ url: receiver.url, secrets: [secret] }]);
  await receiver.configure({ '*': all!, p: own! });
  await delay(1_100);
  // The cost that docs/performance.md names.
  expect(await deliver()).toMatchObject({ result: 'delivered', actions: 2 });
  const [sent, ...more] = receiver.received;
  expect(more).toEqual([]);
  for (const secret of [SECRET, other])
    expect(() => new Webhook(secret).verify(sent!.body, sent!.headers)).not.toThrow();
});

test('each try takes the endpoint from the file as it is then: a secret may be exchanged meanwhile', async () => {
  const next = `whsec_${Buffer.from('the next secret of twenty').toString('base64')}`;
  receiver.answers.push((response) => {
    // A worker looks at the file at most once a second.
    const exchanged = receiver.configure({ p: [{ url: receiver.url, secrets: [next] }] }).then(() => delay(1_100));
    void exchanged.then(() => response.writeHead(500).end());
  });
  expect(await deliver()).toMatchObject({ result: 'delivered' });
  const { body, headers } = receiver.received.at(-1)!;
  expect(() => new Webhook(next).verify(body, headers)).not.toThrow();
  await receiver.configure({ '*': [{ url: receiver.url, secrets: [SECRET] }] });
});
