import { expect, test } from 'vitest';
import { webhookSweepId } from '../../src/contract/webhooks.js';
import { AgentJobs } from '../../src/starter.js';
import { until } from '../support/worker-process.js';
import { useReceiver } from '../webhooks/receiver.js';
import { usePrivateSystem } from './system.js';

const MINUTE = 60_000;
/** Each worker is killed as the receiver has a post that it did not answer; the receiver refuses the next one. */
const KILLS = 2;
const UNANSWERED = () => {};
const REFUSED = 500;
const system = usePrivateSystem();

const receiver = useReceiver();

const startWorker = (file = receiver.file) =>
  system.startWorker({ WEBHOOKS_FILE: file, WEBHOOKS_ALLOW_PRIVATE: 'true' });

test('every worker is killed again and again, and the receiver fails: each end is sent, by one id', async () => {
  const { client, taskQueue } = system.server;
  const jobs = new AgentJobs({ client, taskQueue });
  await system.haveWorker();
  const isSweeping = async () => {
    const sweep = client.workflow.getHandle(webhookSweepId(taskQueue));
    return (await sweep.describe().catch(() => null))?.status.name === 'RUNNING';
  };
  const ids: string[] = [];
  let worker = startWorker();
  for (let round = 0; round < KILLS; round++) {
    await until(isSweeping, 'the sweep', worker.output);
    receiver.answers.push(UNANSWERED, REFUSED);
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
    await until(() => receiver.answers.length === 0, 'both posts', worker.output, 4 * MINUTE);
    await worker.kill();
    worker = startWorker();
  }
  const told = () => receiver.events('agent_job.ended').map(({ data }) => data.workflowId as string);
  const posts = ids.length + 2 * KILLS;
  await until(
    () => new Set(told()).size === ids.length && receiver.received.length >= posts,
    'all ends, and those again that had no answer or were refused',
    () => `${worker.output()}${told().join()}`,
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
