import { randomUUID } from 'node:crypto';
import { InterceptingCall, type Interceptor } from '@grpc/grpc-js';
import { Client, Connection } from '@temporalio/client';
import { expect, test } from 'vitest';
import { AgentJobs, type JobHandle, UsedIdsUnknownError } from '../../src/starter.js';
import { AGENT_JOB_WORKFLOW, type AgentJobInput } from '../../src/contract.js';
import { startScriptedServer } from './scripted-server.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startScriptedServer);

const newRequest = (prompt: string) => ({ projectId: server.projectId, key: randomUUID(), prompt });
const handleOf = ({ projectId, key }: { projectId: string; key: string }) => server.jobs.handle({ projectId, key });

/** A start by a client that knows no request ids. */
function startPlainly({ workflowId }: JobHandle, prompt: string) {
  return server.client.workflow.start<(input: AgentJobInput) => Promise<unknown>>(AGENT_JOB_WORKFLOW, {
    workflowId,
    taskQueue: server.taskQueue,
    args: [{ projectId: server.projectId, prompt }],
  });
}

async function listed(workflowId: string, count: number): Promise<void> {
  const query = `WorkflowId = '${workflowId}'`;
  await expect.poll(async () => (await server.client.workflow.count(query)).count).toBe(count);
}

/** Each of its requests takes `roundTripMs`. */
async function connectFromAfar(roundTripMs: number): Promise<{ jobs: AgentJobs; close: () => Promise<void> }> {
  const slow: Interceptor = (options, next) =>
    new InterceptingCall(next(options), {
      sendMessage: (message, send: (message: unknown) => void) => void setTimeout(() => send(message), roundTripMs),
    });
  const connection = await Connection.connect({ address: server.address, interceptors: [slow] });
  const client = new Client({ connection, namespace: server.namespace });
  return { jobs: new AgentJobs({ client, taskQueue: server.taskQueue }), close: () => connection.close() };
}

test('a key whose create was rejected dozens of times is started again from afar, too', async () => {
  const request = newRequest('CreateRejected');
  const job = handleOf(request);
  for (let run = 0; run < 60; run++) await (await startPlainly(job, request.prompt)).result().catch(() => undefined);
  await listed(job.workflowId, 60);
  const newest = await server.newestRunId(job);
  const { jobs, close } = await connectFromAfar(150);
  await jobs.start(request);
  await close();
  expect(await server.newestRunId(job)).not.toBe(newest);
});

test('a run that was terminated before a worker began it takes no follow-up, and no retry helps', async () => {
  const jobs = new AgentJobs({ client: server.client, taskQueue: `nobody-${randomUUID()}` });
  const job = await jobs.attach({ projectId: server.projectId, jobId: `job-${randomUUID()}`, usedFollowUpIds: ['a'] });
  await server.client.workflow.getHandle(job.workflowId).terminate();
  const ended = await server.newestRunId(job);
  for (const send of [() => job.sendFollowUp('again', { id: 'a' }), () => job.followUp('new', { id: 'b' })]) {
    await expect(send()).rejects.toMatchObject({ name: UsedIdsUnknownError.name, retryable: false });
  }
  expect(await server.newestRunId(job)).toBe(ended);
});
