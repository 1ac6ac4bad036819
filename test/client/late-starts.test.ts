import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AGENT_JOB_WORKFLOW, type AgentJobInput } from '../../src/contract.js';
import { JobCanceledError, KeyConflictError, type JobHandle } from '../../src/starter.js';
import { withRestartRequestId, restartRequestId } from '../../src/temporal/private/restart-request-id.js';
import { connectHeldCaller, type HeldCaller } from '../support/held-caller.js';
import { QUICK, startJobServer } from './job-server.js';
import { useForFile } from '../support/use.js';

/** Longer than a caller may take from what it read to its start. */
const TOO_LONG_MS = 5_500;

const server = useForFile(startJobServer);
let late: HeldCaller;
beforeEach(async () => {
  late = await connectHeldCaller(server);
});
afterEach(() => late.close());

function newRequest() {
  return { projectId: server.projectId, key: randomUUID(), prompt: `prompt ${randomUUID()}`, ...QUICK };
}

async function runIdOf({ workflowId }: JobHandle): Promise<string> {
  return (await server.client.workflow.getHandle(workflowId).describe()).runId;
}

/**
 * A start by a caller that read `endedRunId` as the last run long ago: its packets were on their way, or it asks no
 * clock.
 */
function startLate({ workflowId }: JobHandle, endedRunId: string, input: AgentJobInput, reusePolicy: string) {
  return server.client.workflow.start<(input: AgentJobInput) => Promise<unknown>>(AGENT_JOB_WORKFLOW, {
    workflowId,
    taskQueue: server.taskQueue,
    args: [input],
    workflowIdReusePolicy: reusePolicy as 'ALLOW_DUPLICATE',
    workflowIdConflictPolicy: 'USE_EXISTING',
    ...withRestartRequestId(endedRunId),
  });
}

describe('a follow-up whose caller stood still after it had read the ended run', () => {
  async function endedJob() {
    const job = await server.jobs.start(newRequest());
    const { jobId } = await job.result();
    return { job, jobId: jobId ?? '', runId: await runIdOf(job) };
  }

  async function followUpTwice(job: JobHandle): Promise<void> {
    for (const id of ['b1', 'b2']) {
      await job.sendFollowUp(`from B ${id}`, { id });
      await job.result();
    }
  }

  async function messagesOf(jobId: string): Promise<string[]> {
    return (await server.sandbox.messages({ jobId })).map(({ prompt }) => prompt).toSorted();
  }

  test.each(['ListWorkflowExecutions', 'GetWorkflowExecutionHistory', 'ExecuteMultiOperation'])(
    'makes no run that has forgotten the ids of two others, where it stood still before %s',
    async (name) => {
      const { job, jobId } = await endedJob();
      late.hold(name);
      const sent = late.jobs.handle(job.workflowId).sendFollowUp('from A', { id: 'a' });
      await late.isHeld;
      await followUpTwice(job);
      const second = await runIdOf(job);
      await delay(TOO_LONG_MS);
      late.release();
      expect(await sent).toMatchObject({ id: 'a', state: 'sent' });
      // Later ones answer the late starts of others.
      expect(late.startsSent[0]).toBe(restartRequestId(second));
      for (const id of ['b1', 'b2']) await job.sendFollowUp(`from B ${id}`, { id });
      await job.sendFollowUp('from A', { id: 'a' });
      expect((await job.result()).usedFollowUpIds).toEqual(['b1', 'b2', 'a']);
      expect(await messagesOf(jobId)).toEqual(['from A', 'from B b1', 'from B b2']);
    },
  );

  test('is answered with the newest run where its start arrives all the same, though that has closed', async () => {
    const { job, jobId, runId } = await endedJob();
    await followUpTwice(job);
    const newest = await runIdOf(job);
    await startLate(job, runId, { projectId: server.projectId, jobId }, 'ALLOW_DUPLICATE');
    expect(await runIdOf(job)).toBe(newest);
  });

  test('meets the ids of all closed runs, where a client of another kind went on without them', async () => {
    const { job, jobId } = await endedJob();
    await job.sendFollowUp('one', { id: 'a' });
    await job.result();
    const forgetful = await startLate(job, randomUUID(), { projectId: server.projectId, jobId }, 'ALLOW_DUPLICATE');
    await forgetful.result();
    expect(await job.sendFollowUp('one', { id: 'a' })).toMatchObject({ state: 'unknown' });
    expect(await messagesOf(jobId)).toEqual(['one']);
  });
});

describe('a start whose caller stood still after it had read that no job was made', () => {
  /** A key whose first two creates are rejected, and whose third makes a job that is cancelled. */
  async function rejectedJob() {
    const request = newRequest();
    await server.sandbox.addScript({ promptIncludes: request.prompt, script: { activeMs: 3_600_000 } });
    await server.sandbox.addFault({ kind: 'status', status: 422, promptIncludes: request.prompt, count: 2 });
    const job = await server.jobs.start(request);
    await job.result().catch(() => undefined);
    return { request, job, runId: await runIdOf(job) };
  }

  async function startTwice(request: ReturnType<typeof newRequest>, job: JobHandle): Promise<void> {
    await server.jobs.start(request);
    await job.result().catch(() => undefined);
    await server.jobs.start(request);
    await expect.poll(async () => (await job.state()).jobId).not.toBeNull();
    await job.cancel();
    await expect(job.result()).rejects.toThrow(JobCanceledError);
  }

  const jobsOf = ({ prompt }: { prompt: string }) => server.sandbox.creates({ promptIncludes: prompt });

  test.each([
    ['ListWorkflowExecutions', 0],
    ['StartWorkflowExecution', 1], // the first asks whether the key is free
  ])('makes no second job for the key, where it stood still before %s', async (name, butFor) => {
    const { request, job } = await rejectedJob();
    late.hold(name, butFor);
    const started = late.jobs.start(request);
    await late.isHeld;
    await startTwice(request, job);
    await delay(TOO_LONG_MS);
    late.release();
    await started;
    expect(late.startsSent).toEqual([]);
    await expect(job.result()).rejects.toThrow(JobCanceledError);
    expect(await jobsOf(request)).toHaveLength(1);
  });

  test('is answered with the newest run where it arrives all the same, though that has closed', async () => {
    const { request, job, runId } = await rejectedJob();
    await startTwice(request, job);
    const newest = await runIdOf(job);
    const { projectId, prompt } = request;
    await startLate(job, runId, { projectId, prompt }, 'ALLOW_DUPLICATE_FAILED_ONLY');
    expect(await runIdOf(job)).toBe(newest);
    expect(await jobsOf(request)).toHaveLength(1);
  });

  test('is a conflict where an earlier run of the key made a job, though the last one made none', async () => {
    const request = newRequest();
    await server.sandbox.addScript({ promptIncludes: request.prompt, script: { activeMs: 60_000 } });
    const job = await server.jobs.start(request);
    await expect.poll(async () => (await job.state()).jobId).not.toBeNull();
    await job.cancel();
    await job.result().catch(() => undefined);
    const wrong = { projectId: request.projectId, prompt: '' };
    await (await startLate(job, randomUUID(), wrong, 'ALLOW_DUPLICATE')).result().catch(() => undefined);
    await expect(server.jobs.start(request)).rejects.toThrow(KeyConflictError);
    expect(await jobsOf(request)).toHaveLength(1);
  });
});
