import { randomUUID } from 'node:crypto';
import { defineSearchAttributeKey } from '@temporalio/common';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { SEARCH_ATTRIBUTE } from '../../src/contract.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { QUICK, startJobServer, type JobServer } from './job-server.js';

const BATCH = defineSearchAttributeKey(SEARCH_ATTRIBUTE.batch, 'KEYWORD');
const LABELS = { priority: 2, batch: "Monday's “night” run", startWithin: '1 hour' } as const;

let server: JobServer;
beforeAll(async () => {
  server = await startJobServer();
});
afterAll(() => server.close());

const describeRun = (workflowId: string) => server.client.workflow.getHandle(workflowId).describe();

test('a job has its batch and priority from the start, and so has the run that a follow-up attaches', async () => {
  const job = await server.jobs.start({ projectId: server.projectId, key: 'k', prompt: 'x', ...QUICK, ...LABELS });
  const expectLabels = async () => {
    const run = await describeRun(job.workflowId);
    expect(run.priority).toMatchObject({ priorityKey: 2, fairnessKey: server.projectId });
    expect(run.typedSearchAttributes.get(BATCH)).toBe(LABELS.batch);
    return run.runId;
  };
  const first = await expectLabels();
  await job.result();
  expect(await job.sendFollowUp('go on', { priority: 1 })).toMatchObject({ state: 'sent' });
  expect(await expectLabels()).not.toBe(first);
});

test('a namespace without the attribute of batches takes jobs without one; others are told of the setup', async () => {
  const { client, namespace, close } = await connectOwnNamespace();
  try {
    const jobs = new AgentJobs({ client, taskQueue: 'nobody' });
    // A namespace of its own: no other test needs the attribute.
    await client.connection.operatorService.removeSearchAttributes({
      namespace,
      searchAttributes: [SEARCH_ATTRIBUTE.batch],
    });
    const start = (batch?: string) =>
      jobs.start({ projectId: 'p', key: `k ${batch}`, prompt: 'x', ...(batch && { batch }) });
    await expect
      .poll(() => start(randomUUID()).catch((error: Error) => error.message), { timeout: 120_000 })
      .toMatch(/AgentJobBatch.*run "agent-jobs setup" once for namespace "test_/);
    await start();
    const many = jobs.startMany([{ projectId: 'p', key: 'many', prompt: 'x', batch: 'b' }]);
    const toldOfSetup = { name: 'TemporalCallError', message: expect.stringContaining('agent-jobs setup') as string };
    await expect(many[Symbol.asyncIterator]().next()).rejects.toMatchObject(toldOfSetup);
    const list = jobs.list({ batch: 'b' });
    await expect(list[Symbol.asyncIterator]().next()).rejects.toMatchObject(toldOfSetup);
  } finally {
    await close();
  }
}, 120_000);
