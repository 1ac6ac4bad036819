import { randomUUID } from 'node:crypto';
import { defineSearchAttributeKey } from '@temporalio/common';
import { expect, test } from 'vitest';
import { inputHash } from '../../src/agent-job/input.js';
import { SEARCH_ATTRIBUTE } from '../../src/contract.js';
import { AgentJobs } from '../../src/starter.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { QUICK, startJobServer } from './job-server.js';
import { useForFile } from '../support/use.js';

const TAGS = defineSearchAttributeKey(SEARCH_ATTRIBUTE.tags, 'KEYWORD_LIST');
const BATCH = defineSearchAttributeKey(SEARCH_ATTRIBUTE.batch, 'KEYWORD');
const OUTCOME = defineSearchAttributeKey(SEARCH_ATTRIBUTE.outcome, 'KEYWORD');
const LABELS = {
  tags: ['night', "Monday's “run”", 'say "hi"\\'],
  metadata: { correlationId: '4711', 'a key': 'two\nlines' },
};

const server = useForFile(startJobServer);

const describeRun = (workflowId: string) => server.client.workflow.getHandle(workflowId).describe();
const memoEvents = async (workflowId: string): Promise<number> => {
  const { events } = await server.client.workflow.getHandle(workflowId).fetchHistory();
  return events!.filter((event) => event.workflowPropertiesModifiedEventAttributes?.upsertedMemo?.fields?.metadata)
    .length;
};

test('labels are shown in state and result, and go on with the run that a follow-up attaches', async () => {
  const given = { ...LABELS, priority: 2, batch: "Monday's “night” run", startWithin: '1 hour' } as const;
  const job = await server.jobs.start({ projectId: server.projectId, key: 'k', prompt: 'x', ...QUICK, ...given });
  expect(await job.state()).toMatchObject(LABELS);
  const result = await job.result();
  expect(result).toMatchObject(LABELS);
  const first = await describeRun(job.workflowId);
  expect(first.typedSearchAttributes.get(TAGS)).toEqual(LABELS.tags);
  expect(first.typedSearchAttributes.get(BATCH)).toBe(given.batch);
  expect(first.priority).toMatchObject({ priorityKey: 2, fairnessKey: server.projectId });
  expect(first.typedSearchAttributes.get(OUTCOME)).toBe('completed');
  expect(first.memo).toMatchObject({ metadata: LABELS.metadata });
  // The start call said it already: it costs no event.
  expect(await memoEvents(job.workflowId)).toBe(0);
  expect(await job.sendFollowUp('go on', { priority: 1 })).toMatchObject({ state: 'sent' });
  const second = await describeRun(job.workflowId);
  expect(second.runId).not.toBe(first.runId);
  expect(second.typedSearchAttributes.get(TAGS)).toEqual(LABELS.tags);
  expect(second.typedSearchAttributes.get(BATCH)).toBe(given.batch);
  expect(second.priority).toMatchObject({ priorityKey: 2, fairnessKey: server.projectId });
  expect(second.memo).toMatchObject({ metadata: LABELS.metadata });
  expect(await job.state()).toMatchObject(LABELS);
});

test('what a caller gave in the input alone is shown too, and a memo that is another’s stays', async () => {
  const { projectId, client, taskQueue } = server;
  const start = (labels: object, memo?: Record<string, unknown>) =>
    client.workflow.start('agentJob', {
      workflowId: randomUUID(),
      taskQueue,
      args: [{ projectId, prompt: 'x', ...QUICK, ...labels }],
      ...(memo && { memo }),
    });
  const told = await start({ ...LABELS, tags: ['b', 'a', 'b'] });
  const untold = await start({ tags: null, metadata: null }, { metadata: 'not ours' });
  await Promise.all([told.result(), untold.result()]);
  const shown = await describeRun(told.workflowId);
  expect(shown.typedSearchAttributes.get(TAGS)).toEqual(['b', 'a']);
  expect(shown.memo).toMatchObject({ metadata: LABELS.metadata });
  expect(await memoEvents(told.workflowId)).toBe(1);
  expect((await describeRun(untold.workflowId)).memo).toMatchObject({ metadata: 'not ours' });
  expect(await server.jobs.handle(untold.workflowId).state()).toMatchObject({ tags: [], metadata: {} });
});

test('a memo of another input, as of a Schedule whose input alone was changed, gives way to its own', async () => {
  const { projectId, client, taskQueue } = server;
  const handle = await client.workflow.start('agentJob', {
    workflowId: randomUUID(),
    taskQueue,
    args: [{ projectId, prompt: 'new', ...QUICK }],
    memo: { inputHash: inputHash({ projectId, prompt: 'old' }), title: 'old' },
  });
  await handle.result();
  const memo = { inputHash: inputHash({ projectId, prompt: 'new' }), title: `${projectId}: new` };
  expect((await describeRun(handle.workflowId)).memo).toMatchObject(memo);
});

test('tags and metadata are never sent upstream', async () => {
  const secret = randomUUID();
  const projectId = `quiet-${randomUUID()}`;
  for (const labels of [{}, { tags: [secret], metadata: { [secret]: secret } }]) {
    const job = await server.jobs.start({ projectId, key: randomUUID(), prompt: 'x', ...QUICK, ...labels });
    await job.result();
  }
  const requests = (await server.sandbox.requests()).filter((request) => request.projectId === projectId);
  const creates = requests.filter(({ operation }) => operation === 'create');
  expect(creates).toHaveLength(2);
  expect(creates[1]!.bodyBytes).toBe(creates[0]!.bodyBytes);
  expect(JSON.stringify(requests)).not.toContain(secret);
});

test('a rejected job still shows its labels', async () => {
  const { client, taskQueue, projectId } = server;
  const args = [{ projectId, prompt: '', tags: ['a'], metadata: { correlationId: '4711' } }];
  const handle = await client.workflow.start('agentJob', { workflowId: randomUUID(), taskQueue, args });
  await handle.result().catch(() => {});
  expect(await server.jobs.handle(handle.workflowId).state()).toMatchObject({
    outcome: 'InvalidInput',
    tags: ['a'],
    metadata: { correlationId: '4711' },
  });
});

const INT = 3; // temporal.api.enums.v1.IndexedValueType

test('a namespace without the attribute of batches takes jobs without one; other errors name the setup', async () => {
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
      .poll(() => start(randomUUID()).catch((error: Error) => error.message))
      .toMatch(/AgentJobBatch.*run "agent-jobs setup" once for namespace "test_/);
    await start();
    const many = jobs.startMany([{ projectId: 'p', key: 'many', prompt: 'x', batch: 'b' }]);
    const namesSetup = { name: 'TemporalCallError', message: expect.stringContaining('agent-jobs setup') as string };
    await expect(many[Symbol.asyncIterator]().next()).rejects.toMatchObject(namesSetup);
    const list = jobs.list({ batch: 'b' });
    await expect(list[Symbol.asyncIterator]().next()).rejects.toMatchObject(namesSetup);
    // Setup adds what is missing, and leaves a wrong type alone.
    await client.connection.operatorService.addSearchAttributes({
      namespace,
      searchAttributes: { [SEARCH_ATTRIBUTE.batch]: INT },
    });
    await expect
      .poll(() => start('b').catch((error: Error) => error.message))
      .toMatch(/value for search attribute AgentJobBatch of type Int: b$/);
  } finally {
    await close();
  }
});
