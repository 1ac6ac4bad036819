/** The commands of docs/recurring-jobs.md, as they are written there. */
import { expect, test } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { Runbook } from '../support/runbook.js';
import { useSystem } from './system.js';

const PATIENCE = { timeout: 120_000, interval: 1_000 };
const system = useSystem({ script: { activeMs: 1_000 } });

test('a Schedule that Temporal’s own tool makes starts jobs like any other', { timeout: 240_000 }, async () => {
  const { client, taskQueue } = system.server;
  const jobs = new AgentJobs({ client, taskQueue });
  const runbook = await Runbook.open('docs/recurring-jobs.md', system.clientEnv());
  await system.haveWorker();
  await runbook.run('temporal schedule create');
  expect(await runbook.run('temporal schedule trigger')).toMatch(/OverlapPolicy +Skip\n[\s\S]*Paused +false\n/);
  const jobId = async () => /agent-job\/acme\/nightly-review-\S+Z/.exec(await runbook.run('workflow list'))?.[0];
  await expect.poll(jobId, PATIENCE).toBeDefined();
  const workflowId = (await jobId())!;
  expect(await jobs.handle(workflowId).result()).toMatchObject({ outcome: 'completed', projectId: 'acme' });
  // Other tests have jobs of this project on the same server.
  const listed = async () =>
    (await jobs.listPage({ projectId: 'acme' })).jobs.filter((job) => job.workflowId === workflowId);
  await expect.poll(listed, PATIENCE).toMatchObject([{ workflowId, outcome: 'completed' }]);
  expect(await system.sandbox.creates({ projectId: 'acme' })).toHaveLength(1);
  expect(runbook.left).toEqual([]);
  await client.schedule.getHandle('nightly-review').delete();
});
