import { randomUUID } from 'node:crypto';
import { defineSearchAttributeKey } from '@temporalio/common';
import { Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { inputHash } from '../../src/agent-job/input.js';
import { AgentJobs, InvalidInputError } from '../../src/starter.js';
import { SEARCH_ATTRIBUTE } from '../../src/contract.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { shared } from '../support/shared.js';
import { QUICK, startJobServer, type JobServer } from './job-server.js';

const TAGS = defineSearchAttributeKey(SEARCH_ATTRIBUTE.tags, 'KEYWORD_LIST');
const OUTCOME = defineSearchAttributeKey(SEARCH_ATTRIBUTE.outcome, 'KEYWORD');
const LABELS = {
  tags: ['night', "Monday's “run”", 'say "hi"\\'],
  metadata: { correlationId: '4711', 'a key': 'two\nlines' },
};

let server: JobServer;
beforeAll(async () => {
  server = await startJobServer();
});
afterAll(() => server.close());

const describeRun = (workflowId: string) => server.client.workflow.getHandle(workflowId).describe();
const memoEvents = async (workflowId: string): Promise<number> => {
  const { events } = await server.client.workflow.getHandle(workflowId).fetchHistory();
  return events!.filter((event) => event.workflowPropertiesModifiedEventAttributes?.upsertedMemo?.fields?.metadata)
    .length;
};

test('tags and metadata are shown in state and result, and go on with the run that a follow-up attaches', async () => {
  const job = await server.jobs.start({ projectId: server.projectId, key: 'k', prompt: 'x', ...QUICK, ...LABELS });
  expect(await job.state()).toMatchObject(LABELS);
  const result = await job.result();
  expect(result).toMatchObject(LABELS);
  const first = await describeRun(job.workflowId);
  expect(first.typedSearchAttributes.get(TAGS)).toEqual(LABELS.tags);
  expect(first.typedSearchAttributes.get(OUTCOME)).toBe('completed');
  expect(first.memo).toMatchObject({ metadata: LABELS.metadata });
  // The start call said it already: it costs no event.
  expect(await memoEvents(job.workflowId)).toBe(0);
  expect(await job.sendFollowUp('go on')).toMatchObject({ state: 'sent' });
  const second = await describeRun(job.workflowId);
  expect(second.runId).not.toBe(first.runId);
  expect(second.typedSearchAttributes.get(TAGS)).toEqual(LABELS.tags);
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

test('metadata of a caller whose memo tells the rest costs one event, and that history replays', async () => {
  const { projectId, client, taskQueue } = server;
  const { jobId } = await (await server.jobs.start({ projectId, key: randomUUID(), prompt: 'x', ...QUICK })).result();
  const input = { projectId, jobId, settle: 0 };
  const memo = { jobId, inputHash: inputHash(input), prLink: null };
  const start = (labels: object) =>
    client.workflow.start('agentJob', { workflowId: randomUUID(), taskQueue, args: [{ ...input, ...labels }], memo });
  const told = await start({ metadata: LABELS.metadata });
  await told.result();
  expect((await describeRun(told.workflowId)).memo).toMatchObject({ metadata: LABELS.metadata });
  expect(await memoEvents(told.workflowId)).toBe(1);
  const { path: codePath } = await shared('workflow-bundle');
  const replay = Worker.runReplayHistory({ workflowBundle: { codePath } }, await told.fetchHistory(), told.workflowId);
  await expect(replay).resolves.toBeUndefined();
});

test('the upstream hears nothing of tags and metadata', async () => {
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

test('the same key with other tags and metadata is the same job', async () => {
  const input = { projectId: server.projectId, key: randomUUID(), prompt: 'x', ...QUICK };
  const first = await server.jobs.start({ ...input, ...LABELS });
  const again = await server.jobs.start({ ...input, tags: ['other'], metadata: {} });
  expect(again).toMatchObject({ workflowId: first.workflowId, isNew: false });
  expect(await again.result()).toMatchObject(LABELS);
});

test.for([
  ['tags', 'night', /^tags must be an array of strings/],
  ['tags', ['a', ''], /^tags\[1\] must be 1 to 64 bytes/],
  ['tags', ['é'.repeat(33)], /^tags\[0\] must be 1 to 64 bytes of UTF-8; it is 66/],
  ['tags', ['a\nb'], /^tags\[0\] must be well-formed Unicode without control characters/],
  ['tags', ['a♡b'], /^tags\[0\] must not hold the sign U\+2661/],
  ['tags', Array(11).fill('a'), /^tags must hold at most 10 tags/],
  ['metadata', ['a'], /^metadata must be one JSON object/],
  ['metadata', { a: { b: 'c' } }, /^metadata\.a must be a string/],
  ['metadata', { a: null }, /^metadata\.a must be a string; it is null/],
  ['metadata', { a: 'x'.repeat(4_089) }, /^metadata must be at most 4096 bytes as JSON; it is 4097/],
] as const)('a start with wrong %s is refused before anything is sent: %j', async ([field, value, message]) => {
  const start = server.jobs.start({ projectId: 'p', key: 'k', prompt: 'x', [field]: value });
  const error: unknown = await start.catch((refusal: unknown) => refusal);
  expect(error).toBeInstanceOf(InvalidInputError);
  expect((error as Error).message).toMatch(message);
});

test('a refused job still tells what it was called', async () => {
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

test('a namespace without the attribute of tags takes jobs without tags; others are told of the setup', async () => {
  const { client, namespace, close } = await connectOwnNamespace();
  try {
    const jobs = new AgentJobs({ client, taskQueue: 'nobody' });
    const searchAttributes = [SEARCH_ATTRIBUTE.tags];
    await client.connection.operatorService.removeSearchAttributes({ namespace, searchAttributes });
    const start = (labels: object) => jobs.start({ projectId: 'p', key: randomUUID(), prompt: 'x', ...labels });
    await expect
      .poll(() => start(LABELS).catch((error: Error) => error.message), { timeout: 120_000 })
      .toMatch(/AgentJobTags.*run "agent-jobs setup" once for namespace "test_/);
    await start({ metadata: LABELS.metadata });
  } finally {
    await close();
  }
}, 120_000);
