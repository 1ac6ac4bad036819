import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { Client } from '@temporalio/client';
import proto from '@temporalio/proto';
import { expect, test } from 'vitest';
import { AgentJobs, JobNotFoundError, UsedIdsUnknownError, type JobHandle } from '../../src/starter.js';
import { inputHash } from '../../src/agent-job/input.js';
import { readStartInput } from '../../src/client/agent-job/run-record.js';
import { createTestWorker } from '../support/worker.js';
import { startScriptedServer } from './scripted-server.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startScriptedServer);

function start(prompt: string, options: object = {}): Promise<JobHandle> {
  return server.jobs.start({ projectId: server.projectId, key: randomUUID(), prompt, ...options });
}

async function ended(options: object = {}): Promise<JobHandle> {
  const job = await start('hello', options);
  await job.result();
  return job;
}

test('a follow-up to an ended job attaches a run to it that knows the used ids, options and input hash', async () => {
  const options = { deadline: '3 hours', settle: 300, ofALaterRelease: ['kept'] };
  const request = { projectId: server.projectId, key: randomUUID(), prompt: 'hello', ...options };
  const job = await server.jobs.start(request, { allowUnknown: true });
  await job.result();
  await job.followUp('one', { id: 'a' });
  await job.result();
  expect(await job.sendFollowUp('two', { id: 'b' })).toMatchObject({ state: 'sent' });
  const run = await server.client.workflow.getHandle(job.workflowId).describe();
  expect(await readStartInput(server.client, { ...run, firstRunId: run.runId })).toEqual({
    projectId: server.projectId,
    jobId: 'job-1',
    usedFollowUpIds: ['a'],
    promptHashes: {},
    ...options,
  });
  expect(run.memo).toMatchObject({ inputHash: inputHash({ projectId: server.projectId, prompt: 'hello' }) });
  expect((await job.result()).usedFollowUpIds).toEqual(['a', 'b']);
});

test('a follow-up that an ended run already sent is answered from its books, without a new run', async () => {
  const job = await ended();
  await job.sendFollowUp('one', { id: 'a' });
  const first = await job.result();
  expect(await job.sendFollowUp('one', { id: 'a' })).toMatchObject({ id: 'a', state: 'sent' });
  expect(await job.followUp('one', { id: 'a' })).toEqual({ id: 'a', checked: true });
  expect((await job.result()).startedAt).toBe(first.startedAt);
});

test('a client that asks no closed workflow reports the same of an ended job', async () => {
  const { connection, options } = server.client;
  const client = new Client({
    connection,
    namespace: options.namespace,
    workflow: { queryRejectCondition: 'NOT_COMPLETED_CLEANLY' },
  });
  const jobs = new AgentJobs({ client, taskQueue: server.taskQueue });
  const job = await jobs.start({ projectId: server.projectId, key: randomUUID(), prompt: 'stay' });
  await job.sendFollowUp('one', { id: 'a' });
  await client.workflow.getHandle(job.workflowId).terminate();
  expect(await job.state()).toMatchObject({ outcome: 'Terminated', usedFollowUpIds: ['a'] });
  for await (const { outcome } of job.watch()) expect(outcome).toBe('Terminated');
  expect(await job.sendFollowUp('two', { id: 'b' })).toMatchObject({ state: 'sent' });
  expect((await job.result()).usedFollowUpIds).toEqual(['a', 'b']);
});

function workerOn(taskQueue: string) {
  const workflowsPath = fileURLToPath(new URL('./workflows/index.ts', import.meta.url));
  return createTestWorker({ connection: server.nativeConnection, taskQueue, workflowsPath, activities: {} });
}

test('a follow-up fails rather than ids are forgotten if no worker knows them', async () => {
  const taskQueue = `gone-${randomUUID()}`;
  const worker = await workerOn(taskQueue);
  const jobs = new AgentJobs({ client: server.client, taskQueue });
  const job = await worker.runUntil(async () => {
    const attached = await jobs.attach({ projectId: server.projectId, jobId: `job-${randomUUID()}`, settle: 60_000 });
    await attached.sendFollowUp('one', { id: 'a' });
    return attached;
  });
  await server.client.workflow.getHandle(job.workflowId).terminate();
  await expect(job.followUp('one')).rejects.toThrow(UsedIdsUnknownError);
  await expect(job.sendFollowUp('one')).rejects.toThrow(UsedIdsUnknownError);
});

test('a follow-up whose task is undone by another message is sent again, under its id', async () => {
  const taskQueue = `undone-${randomUUID()}`;
  const jobs = new AgentJobs({ client: server.client, taskQueue });
  const job = await jobs.start({ projectId: server.projectId, key: randomUUID(), prompt: 'stay' });
  const answer = job.sendFollowUp('one', { id: 'a' });
  await undoTask(taskQueue, () => job.pollNow());
  const worker = await workerOn(taskQueue);
  await worker.runUntil(async () => {
    expect(await answer).toMatchObject({ id: 'a', state: 'sent' });
    expect((await job.state()).usedFollowUpIds).toEqual(['a']);
    await job.cancel();
  });
});

/** Takes an update and ends the run in one task, as a worker would, which a message that comes meanwhile undoes. */
async function undoTask(taskQueue: string, comeBetween: () => Promise<void>): Promise<void> {
  const { client, namespace } = server;
  const { workflowService } = client;
  const asked = { namespace, taskQueue: { name: taskQueue }, identity: 'by hand' };
  const ask = () => client.withDeadline(Date.now() + 30_000, () => workflowService.pollWorkflowTaskQueue(asked));
  let task = await ask();
  while (!task.messages?.[0]) task = await ask();
  await comeBetween();
  const { id, protocolInstanceId, eventId, body } = task.messages[0];
  const { Acceptance, Request } = proto.temporal.api.update.v1;
  const acceptance = Acceptance.encode({
    acceptedRequestMessageId: id ?? '',
    acceptedRequestSequencingEventId: eventId ?? null,
    acceptedRequest: Request.decode(body!.value!),
  });
  const { CommandType } = proto.temporal.api.enums.v1;
  const ending = workflowService.respondWorkflowTaskCompleted({
    namespace,
    taskToken: task.taskToken,
    messages: [
      {
        id: 'accepted',
        protocolInstanceId: protocolInstanceId ?? '',
        body: { type_url: 'type.googleapis.com/temporal.api.update.v1.Acceptance', value: acceptance.finish() },
      },
    ],
    commands: [
      {
        commandType: CommandType.COMMAND_TYPE_PROTOCOL_MESSAGE,
        protocolMessageCommandAttributes: { messageId: 'accepted' },
      },
      {
        commandType: CommandType.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION,
        completeWorkflowExecutionCommandAttributes: {},
      },
    ],
  });
  await expect(ending).rejects.toThrow('UnhandledCommand');
}

test('a follow-up to a workflow that never was says so', async () => {
  await expect(server.jobs.handle(randomUUID()).followUp('one')).rejects.toThrow(JobNotFoundError);
});
