import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { webhookSweepId } from '../../src/contract/webhooks.js';
import { AgentJobs } from '../../src/starter.js';
import { until } from '../support/worker-process.js';
import { useReceiver } from '../webhooks/receiver.js';
import { usePrivateSystem } from './system.js';

const MINUTE = 60_000;
/** The first posts, as many as this, are answered 500. */
const REFUSED = 4;
const system = usePrivateSystem();

const receiver = useReceiver();

const startWorker = (file = receiver.file) =>
  system.startWorker({ WEBHOOKS_FILE: file, WEBHOOKS_ALLOW_PRIVATE: 'true' });

test('every worker is killed again and again, and the receiver fails: each end is sent, by one id', async () => {
  const { client, taskQueue } = system.server;
  const jobs = new AgentJobs({ client, taskQueue });
  await system.haveWorker();
  const first = startWorker();
  await first.wrote('The worker runs');
  const running = async () => (await client.workflow.getHandle(webhookSweepId(taskQueue)).describe()).status.name;
  await until(
    () =>
      running()
        .then((name) => name === 'RUNNING')
        .catch(() => false),
    'the sweep',
    first.output,
  );
  await first.kill();
  receiver.answers.push(...Array<number>(REFUSED).fill(500));
  const ids: string[] = [];
  for (let round = 0; round < 3; round++) {
    for (let job = 0; job < 4; job++) {
      const { workflowId } = await jobs.start({
        projectId: 'p',
        key: `${round}-${job}`,
        prompt: 'x',
        polling: { min: 1_000, max: 1_000 },
        settle: 0,
      });
      ids.push(workflowId);
    }
    const worker = startWorker();
    await worker.wrote('The worker runs');
    await delay(1_000 + 1_500 * round);
    await worker.kill();
  }
  await Promise.all(ids.map((id) => jobs.handle(id).result()));
  const last = startWorker();
  const told = () => receiver.events('agent_job.ended').map(({ data }) => data.workflowId as string);
  await until(
    () => new Set(told()).size === ids.length && receiver.received.length >= ids.length + REFUSED,
    'all ends, and those again that were refused',
    () => `${last.output()}${told().join()}`,
    4 * MINUTE,
  );
  expect(told().toSorted()).toEqual(ids.toSorted());
  const bodies = new Map<string, Set<string>>();
  for (const { headers, body } of receiver.received) {
    const id = headers['webhook-id']!;
    bodies.set(id, (bodies.get(id) ?? new Set()).add(body));
  }
  expect([...bodies.values()].map(({ size }) => size)).toEqual(ids.map(() => 1));
  await client.workflow.getHandle(webhookSweepId(taskQueue)).terminate();
});

test('a wrong file is reported, and the worker does its jobs', async () => {
  const { client, taskQueue } = system.server;
  await receiver.configure({ p: [{ url: receiver.url, secrets: ['whsec_c2hvcnQ='] }] });
  const worker = startWorker();
  await worker.wrote('Webhooks have a wrong setting');
  expect(worker.output()).toContain(`endpoint 1, secrets.0: should be whsec_ and the base64 of 24 to 64 bytes`);
  const jobs = new AgentJobs({ client, taskQueue });
  const handle = await jobs.start({ projectId: 'p', key: 'wrong-file', prompt: 'x', settle: 0 });
  expect((await handle.result()).outcome).toBe('completed');
  expect(worker.output()).not.toContain('c2hvcnQ');
});
