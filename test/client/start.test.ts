import { randomUUID } from 'node:crypto';
import { describe, expect, test, vi } from 'vitest';
import { CreateRejectedError, InvalidInputError, KeyConflictError } from '../../src/starter.js';
import { inputHash } from '../../src/agent-job/input.js';
import { startScriptedServer } from './scripted-server.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startScriptedServer);

function request(prompt: string, key: string = randomUUID()) {
  return { projectId: server.projectId, key, prompt };
}

/** Starts a job and waits until it has failed. */
async function failed(prompt: string) {
  const wanted = request(prompt);
  const job = await server.jobs.start(wanted);
  await job.result().catch(() => undefined);
  return { job, key: wanted.key };
}

/** Temporal's answer about a run that it has deleted. */
function notFound(): Error {
  const details = 'workflow not found';
  return Object.assign(new Error(details), { code: 5, details, metadata: { get: () => [] } });
}

describe('one key', () => {
  test('started many times at once is one workflow', async () => {
    const wanted = request('hello');
    const jobs = await Promise.all(Array.from({ length: 5 }, () => server.jobs.start(wanted)));
    const results = await Promise.all(jobs.map((job) => job.result()));
    expect(new Set(results.map(({ startedAt }) => startedAt)).size).toBe(1);
    expect(await server.countRuns(jobs[0]!)).toBe(1);
  });

  test('with the same input answers with the same job after it ended, whatever the options', async () => {
    const wanted = request('hello');
    const job = await server.jobs.start(wanted);
    await job.result();
    const runId = await server.newestRunId(job);
    const again = await server.jobs.start({ ...wanted, deadline: '1 hour' });
    expect(again.workflowId).toBe(job.workflowId);
    expect(await server.newestRunId(again)).toBe(runId);
  });

  test.each(['stay', 'hello'])(
    'with another input is a conflict, while the first one runs or after (%s)',
    async (prompt) => {
      const wanted = request(prompt);
      const job = await server.jobs.start(wanted);
      if (prompt === 'hello') await job.result();
      const conflict = server.jobs.start({ ...wanted, prompt: 'something else' });
      await expect(conflict).rejects.toThrow(KeyConflictError);
      await expect(conflict).rejects.toThrow(job.workflowId);
      await job.cancel().catch(() => undefined);
    },
  );

  test('is compared by the first start event where a caller set no memo', async () => {
    const wanted = request('stay');
    const job = server.jobs.handle({ projectId: server.projectId, key: wanted.key });
    await server.client.workflow.start('agentJob', {
      workflowId: job.workflowId,
      taskQueue: server.taskQueue,
      args: [{ projectId: server.projectId, prompt: 'stay', jobId: null }],
    });
    expect((await server.jobs.start(wanted)).workflowId).toBe(job.workflowId);
    await expect(server.jobs.start({ ...wanted, prompt: 'other' })).rejects.toThrow(KeyConflictError);
    await job.cancel();
  });
});

describe('a key whose job was surely not created', () => {
  test('starts again once, however many callers repeat it at the same time', async () => {
    const { job, key } = await failed('CreateRejected');
    await Promise.all(Array.from({ length: 5 }, () => server.jobs.start(request('hello', key))));
    await job.result();
    expect(await server.countRuns(job)).toBe(2);
  });
});

describe('a start', () => {
  test('says what the job is, before any worker has seen it', async () => {
    const wanted = request('Fix the login page\nand more');
    const { workflowId } = await server.jobs.start(wanted);
    const run = await server.client.workflow.getHandle(workflowId).describe();
    expect(run.memo).toEqual({ inputHash: inputHash(wanted), title: `${server.projectId}: Fix the login page` });
    expect(await run.staticSummary()).toBe(`${server.projectId}: Fix the login page`);
    expect(await run.staticDetails()).toContain('    and more');
    const attributes = run.raw.workflowExecutionInfo?.searchAttributes?.indexedFields;
    expect(Object.keys(attributes ?? {})).toEqual(expect.arrayContaining(['AgentJobProject', 'AgentJobPhase']));
  });

  test('without a key attaches to a job under an id of its own, the same each time', async () => {
    const job = await server.jobs.attach({ projectId: server.projectId, jobId: 'a/b' });
    expect(job.workflowId).toBe(`agent-job/${server.projectId}/attached/a%2Fb`);
    expect((await server.jobs.attach({ projectId: server.projectId, jobId: 'a/b' })).workflowId).toBe(job.workflowId);
    expect((await job.result()).jobId).toBe('a/b');
    expect(await server.countRuns(job)).toBe(1);
  });
});

test('a failed job has the upstream’s rejection, or the field that was wrong', async () => {
  const rejected = { name: CreateRejectedError.name, status: 422, error: 'no' };
  await expect((await failed('CreateRejected')).job.result()).rejects.toMatchObject(rejected);
  const wrong = { name: InvalidInputError.name, field: 'prompt' };
  await expect((await failed('InvalidInput')).job.result()).rejects.toMatchObject(wrong);
});

test('a rejected run that Temporal deletes while it is read is no error: the start is sent anew', async () => {
  const { key } = await failed('CreateRejected');
  const { workflowService } = server.client;
  const read = vi.spyOn(workflowService, 'getWorkflowExecutionHistory');
  read.mockImplementationOnce((() => Promise.reject(notFound())) as never);
  const again = await server.jobs.start(request('hello', key));
  read.mockRestore();
  expect(again).toMatchObject({ isNew: true });
  expect(await again.result()).toMatchObject({ outcome: 'completed' });
});

test('a run that Temporal deletes after the start that met it is no error', async () => {
  const wanted = request('hello');
  const first = await server.jobs.start(wanted);
  // A real deletion takes many seconds; after this answer the start is sent anew.
  const read = vi.spyOn(server.client.workflowService, 'describeWorkflowExecution');
  read.mockImplementationOnce((() => Promise.reject(notFound())) as never);
  const again = await server.jobs.start(wanted);
  expect(read).toHaveBeenCalledTimes(2);
  read.mockRestore();
  expect(again).toMatchObject({ isNew: false, runId: first.runId });
});
