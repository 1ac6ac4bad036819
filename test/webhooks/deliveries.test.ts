import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Endpoints } from '../../src/activities/webhooks/endpoints.js';
import { WEBHOOK_DELIVERY_WORKFLOW } from '../../src/contract/webhooks.js';
import { jsonLines } from '../cli/run-cli.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { Runbook } from '../support/runbook.js';
import { needToolchain } from '../support/toolchains.js';
import { until } from '../support/worker-process.js';
import { SECRET, useReceiver } from './receiver.js';
import { startWebhookWorkers } from './webhook-workers.js';
import { useForFile } from '../support/use.js';

const server = useForFile(connectOwnNamespace);
const receiver = useReceiver();
const hanging = useReceiver();
let runbook: Runbook;
let end: () => Promise<void>;
beforeAll(async () => {
  const secrets = [SECRET];
  await receiver.configure({ '*': [{ url: receiver.url, secrets }], busy: [{ url: hanging.url, secrets }] });
  end = await startWebhookWorkers({ ...server, receiver });
  const env = { TEMPORAL_ADDRESS: server.address, TEMPORAL_NAMESPACE: server.namespace };
  runbook = await Runbook.open('docs/http.md', env);
});
afterAll(() => end());

/** Starts a delivery to the first endpoint of a project. */
async function start(projectId: string) {
  const [endpoint] = await new Endpoints({ path: receiver.file, allowPrivate: true }).of(projectId);
  const { id, url } = endpoint!;
  const eventId = `evt_${randomUUID()}`;
  const type = 'agent_job.ended';
  const body = JSON.stringify({ type, timestamp: '2026-01-01T00:00:00Z', data: {} });
  return server.client.workflow.start(WEBHOOK_DELIVERY_WORKFLOW, {
    workflowId: `webhook/${eventId}/${id}`,
    taskQueue: server.taskQueue,
    args: [{ eventId, projectId, endpoint: { id, origin: url.origin }, body }],
    memo: { type, of: 'agent-job/p/k', to: url.origin },
  });
}

/** A delivery that is terminated between two tries. */
async function givenUp(): Promise<string> {
  const before = receiver.received.length;
  receiver.answers.push(500);
  const handle = await start('p');
  await until(() => receiver.received.length > before, 'a try');
  await handle.terminate('given up');
  return handle.workflowId;
}

async function listed(): Promise<object[]> {
  return jsonLines(await runbook.shell('agent-jobs attention --json')).map(({ undelivered }) => undelivered as object);
}

async function expectSentAgain(workflowId: string): Promise<void> {
  const sent = () => receiver.received.filter(({ headers }) => workflowId.includes(headers['webhook-id']!));
  await until(() => sent().length >= 2, 'the second try');
  expect(sent()[1]!.body).toBe(sent()[0]!.body);
}

test('a delivery that was given up is listed with the command that sends it again, id and body the same', async () => {
  const workflowId = await givenUp();
  const item = { workflowId, type: 'agent_job.ended', of: 'agent-job/p/k', to: receiver.origin };
  await expect.poll(listed).toEqual([{ ...item, givenUpAt: expect.stringMatching(/Z$/) as string }]);
  const text = await runbook.shell('agent-jobs attention');
  expect(text).toMatch(/Not taken by +http:\/\/127\.0\.0\.1/);
  await runbook.shell(/To send it again +(.*)/.exec(text)![1]!);
  await expectSentAgain(workflowId);
  await expect.poll(listed).toEqual([]);
});

test('the command of the page sends all that were given up', async (context) => {
  await needToolchain(context, 'jq');
  const ids = [await givenUp(), await givenUp()];
  await expect.poll(async () => (await listed()).length).toBe(2);
  await runbook.run('temporal workflow reset');
  for (const id of ids) await expectSentAgain(id);
  await expect.poll(listed).toEqual([]);
});

/** Whether a delivery to another receiver was made while all 60 to one that hangs were under way. */
async function isMadeBeside60(): Promise<boolean> {
  const held: ServerResponse[] = [];
  hanging.otherwise = (response) => void held.push(response);
  const waiting = await Promise.all(Array.from({ length: 60 }, () => start('busy')));
  await until(() => held.length >= 60, 'all requests to hang');
  expect(await (await start('p')).result()).toBe('delivered');
  const isBeside = held.length === 60 && held.every(({ destroyed }) => !destroyed);
  hanging.otherwise = 204;
  for (const response of held) if (!response.destroyed) response.writeHead(204).end();
  expect(new Set(await Promise.all(waiting.map((one) => one.result())))).toEqual(new Set(['delivered']));
  return isBeside;
}

test('beside 60 deliveries to a receiver that hangs, another one is made', async () => {
  // On a busy machine the first request is given up, after 15 seconds, before the last one comes.
  let rounds = 1;
  while (!(await isMadeBeside60())) expect(rounds++).toBeLessThan(4);
});
