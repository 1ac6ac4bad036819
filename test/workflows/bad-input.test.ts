import { randomUUID } from 'node:crypto';
import { WorkflowFailedError, WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { expect, test } from 'vitest';
import { followUpSignal, jobStateQuery, resolveUnknownUpdate } from '../../src/contract.js';
import { useDevServer } from '../support/job-tests.js';

const { server, upstream, bench } = useDevServer();
const prompt = 'Fix it';
const projectId = 'p1';

/** One of each kind; that the parser finds the others invalid is compared with the schema. */
const WRONG: [field: string, input: unknown][] = [
  ['input', undefined],
  ['input', [{ projectId, prompt }]],
  ['projectId', { projectId: '..', prompt }],
  ['projectId', { projectId: '\ud800', prompt }],
  ['prompt', { projectId }],
  ['prompt', { projectId, prompt: '\u0001'.repeat(200 * 1024) }],
  ['jobId', { projectId, prompt, jobId: 'j' }],
  ['usedFollowUpIds', { projectId, jobId: 'j', usedFollowUpIds: ['a', 7] }],
  ['promptHashes.a', { projectId, jobId: 'j', promptHashes: { a: 'no hash' } }],
  ['deadline', { projectId, prompt, deadline: '11 years' }],
  ['priority', { projectId, prompt, priority: 2.5 }],
  ['onUnknownOutcome', { projectId, prompt, onUnknownOutcome: 'guess' }],
  ['polling.min', { projectId, prompt, polling: { min: '10 seconds', max: '5 seconds' } }],
];

test('every wrong input fails as InvalidInput naming the field, and nothing is sent', async () => {
  const failures = await Promise.all(
    WRONG.map(async ([field, input]) => {
      const handle = await bench.start(input);
      const error = await handle.result().catch((e: unknown) => e);
      return { field, cause: (error as WorkflowFailedError).cause };
    }),
  );
  for (const { field, cause } of failures) {
    expect(cause).toBeInstanceOf(ApplicationFailure);
    expect(cause).toMatchObject({ type: 'InvalidInput', nonRetryable: true });
    const { message, details } = cause as ApplicationFailure;
    const [told] = details as { field: string }[];
    expect(told?.field).toContain(field);
    expect(message.startsWith(`${told?.field} `)).toBe(true);
  }
  expect([upstream.created, upstream.messages, upstream.reads]).toEqual([[], [], 0]);
});

test('unknown fields are ignored, null means absent, and the widest values are taken', async () => {
  const handle = await bench.start({
    projectId: 'é'.repeat(33),
    prompt: 'é'.repeat(256 * 1024),
    jobId: null,
    usedFollowUpIds: null,
    deadline: '10 years',
    polling: { min: 0, max: null, ratio: null, other: 1 },
    onUnknownOutcome: null,
    decideWithin: null,
    settle: '0',
    urgency: 'high',
    priority: null,
    startWithin: null,
    batch: 'é'.repeat(50),
    continued: { spec: { projectId: 'another' } },
  });
  expect(await handle.result()).toMatchObject({ outcome: 'completed', projectId: 'é'.repeat(33) });
});

test('the state of a refused start can be asked for', async () => {
  const handle = await bench.start({ projectId: 'p1' });
  await expect(handle.result()).rejects.toThrow(WorkflowFailedError);
  expect(await handle.query(jobStateQuery)).toMatchObject({
    phase: 'done',
    projectId: 'p1',
    jobId: null,
    followUps: [],
    usedFollowUpIds: [],
    unknown: null,
    waiting: null,
    decisions: [],
  });
});

const undecodable = { metadata: { encoding: Buffer.from('binary/encrypted') }, data: Buffer.from('?') };
const broken = { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from('{"prompt":') };
const nested = `{"projectId":"p1","prompt":"Fix it","other":${'['.repeat(50_000)}${']'.repeat(50_000)}}`;
const tooDeep = { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from(nested) };

test('a start whose payload can’t be decoded fails as InvalidInput', async () => {
  for (const payload of [undecodable, broken, tooDeep]) {
    const workflowId = randomUUID();
    await server.client.workflowService.startWorkflowExecution({
      namespace: server.namespace,
      workflowId,
      requestId: randomUUID(),
      workflowType: { name: 'agentJob' },
      taskQueue: { name: bench.taskQueue },
      input: { payloads: [payload] },
      memo: { fields: { inputHash: undecodable, other: undecodable, more: tooDeep } },
    });
    const error = await server.client.workflow
      .getHandle(workflowId)
      .result()
      .catch((e: unknown) => e);
    expect((error as WorkflowFailedError).cause).toMatchObject({ type: 'InvalidInput' });
  }
});

test('signals and updates that can’t be decoded, or are unknown, harm nothing', async () => {
  upstream.show = () => ({ status: upstream.messages.length > 0 ? 'completed' : 'active' });
  const handle = await bench.start({ projectId, prompt, settle: 0 });
  await expect.poll(() => upstream.reads).toBeGreaterThan(0);
  const workflowExecution = { workflowId: handle.workflowId };
  for (const signalName of ['followUp', 'pollNow', 'nobodyKnowsThis']) {
    for (const payload of [undecodable, broken, tooDeep]) {
      await server.client.workflowService.signalWorkflowExecution({
        namespace: server.namespace,
        workflowExecution,
        signalName,
        input: { payloads: [payload] },
      });
    }
  }
  for (const name of ['sendFollowUp', 'resolveUnknown']) {
    for (const payload of [undecodable, broken, tooDeep]) {
      const answer = await server.client.workflowService.updateWorkflowExecution({
        namespace: server.namespace,
        workflowExecution,
        waitPolicy: { lifecycleStage: 3 },
        request: { meta: { updateId: randomUUID() }, input: { name, args: { payloads: [payload] } } },
      });
      expect(answer.outcome?.failure?.applicationFailureInfo?.type).toBe('InvalidInput');
    }
  }
  await expect(handle.executeUpdate('nobodyKnowsThis', { args: [] })).rejects.toThrow(WorkflowUpdateFailedError);
  await expect(handle.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'retry' }] })).rejects.toThrow(
    WorkflowUpdateFailedError,
  );
  await handle.signal(followUpSignal, { prompt: 'go' });
  expect(await handle.result()).toMatchObject({ outcome: 'completed', followUps: [{ state: 'sent' }] });
  expect(upstream.messages).toEqual(['go']);
});
