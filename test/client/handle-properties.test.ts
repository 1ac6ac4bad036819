import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { expect, expectTypeOf, test } from 'vitest';
import {
  AgentJobs,
  InvalidInputError,
  TemporalUnavailableError,
  type AttachRequest,
  type CallOptions,
  type ConnectSettings,
  type ExportScheduleSettings,
  type FollowUpOptions,
  type JobHandle,
  type StartRequest,
  type VisitorExportHandle,
} from '../../src/starter.js';
import {
  agentJobOf,
  agentJobWorkflowId,
  attachedJobWorkflowId,
  type Attribution,
  type FollowUpInput,
  type PollingInput,
  type ResolveUnknownInput,
  type VisitorExportRangeInput,
} from '../../src/contract.js';
import type { AgentJobsSettings, WaitOptions } from '../../src/client/settings.js';
import type { QueueFilter } from '../../src/client/agent-job/queue.js';
import type { StartManyOptions } from '../../src/client/agent-job/start-many.js';
import { startScriptedServer } from './scripted-server.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startScriptedServer);

/** A type's members without what only the class itself can have: where they fit, a plain object does. */
type Plain<T> = { [Name in keyof T]: T[Name] };

test('a plain object can stand in for each handle', () => {
  expectTypeOf<Plain<JobHandle>>().toExtend<JobHandle>();
  expectTypeOf<Plain<VisitorExportHandle>>().toExtend<VisitorExportHandle>();
});

/** A type whose optional fields may be left out, undefined and null alike. */
type Loose<T> = { [Name in keyof T]: object extends Pick<T, Name> ? T[Name] | null | undefined : T[Name] };

test('what an input may leave out may be undefined or null as well', () => {
  expectTypeOf<Loose<StartRequest>>().toExtend<StartRequest>();
  expectTypeOf<Loose<AttachRequest>>().toExtend<AttachRequest>();
  expectTypeOf<Loose<ConnectSettings>>().toExtend<ConnectSettings>();
  expectTypeOf<Loose<AgentJobsSettings>>().toExtend<AgentJobsSettings>();
  expectTypeOf<Loose<CallOptions>>().toExtend<CallOptions>();
  expectTypeOf<Loose<WaitOptions>>().toExtend<WaitOptions>();
  expectTypeOf<Loose<FollowUpOptions>>().toExtend<FollowUpOptions>();
  expectTypeOf<Loose<FollowUpInput>>().toExtend<FollowUpInput>();
  expectTypeOf<Loose<Attribution>>().toExtend<Attribution>();
  expectTypeOf<Loose<ResolveUnknownInput>>().toExtend<ResolveUnknownInput>();
  expectTypeOf<Loose<PollingInput>>().toExtend<PollingInput>();
  expectTypeOf<Loose<StartManyOptions>>().toExtend<StartManyOptions>();
  expectTypeOf<Loose<QueueFilter>>().toExtend<QueueFilter>();
  expectTypeOf<Loose<VisitorExportRangeInput>>().toExtend<VisitorExportRangeInput>();
  expectTypeOf<Loose<ExportScheduleSettings>>().toExtend<ExportScheduleSettings>();
});

test.each(['agent-job/acme/\ud800', 'x'.repeat(1_001), ''])('no handle has a malformed id', (workflowId) => {
  expect(() => server.jobs.handle(workflowId)).toThrow(InvalidInputError);
});

test('a handle shows its project, key, run and page, and whether its start made the job', async () => {
  const { client, taskQueue, projectId, namespace } = server;
  const jobs = new AgentJobs({ client, taskQueue, webUiUrl: 'https://temporal.example.com/' });
  const request = { projectId, key: `k/1 ${randomUUID()}`, prompt: 'stay' };
  const made = await jobs.start(request);
  const { runId } = await client.workflow.getHandle(made.workflowId).describe();
  const page = `https://temporal.example.com/namespaces/${namespace}/workflows/${encodeURIComponent(made.workflowId)}`;
  expect(made).toMatchObject({ projectId, key: request.key, runId, isNew: true });
  // A link that names a run would show an ended one after a late follow-up.
  expect(made.url).toBe(page);
  const joined = await jobs.start(request);
  expect(joined).toMatchObject({ projectId, key: request.key, runId, isNew: false, url: made.url });
  const named = jobs.handle({ projectId, key: request.key });
  expect(named).toMatchObject({ projectId, key: request.key, runId: null, url: page });
  expect(named.isNew).toBeUndefined();
  await made.cancel();
});

test('a workflow id shows what it was made of, and one of another making shows nothing', () => {
  const jobs = new AgentJobs({ client: server.client });
  expect(jobs.handle({ projectId: 'a/b', jobId: 'j 1' })).toMatchObject({ projectId: 'a/b', key: null });
  const attached = { projectId: 'a', key: null, jobId: 'j' } as { projectId: string; jobId: string };
  expect(jobs.handle(attached).workflowId).toBe(attachedJobWorkflowId('a', 'j'));
  expect(jobs.handle('my own id')).toMatchObject({ projectId: null, key: null, workflowId: 'my own id' });
  expect(agentJobOf(agentJobWorkflowId('p', 'attached'))).toEqual({ projectId: 'p', key: 'attached', jobId: null });
  expect(agentJobOf(attachedJobWorkflowId('p', 'j:1'))).toEqual({ projectId: 'p', key: null, jobId: 'j:1' });
  const scheduled = 'agent-job/a%3Ab/night%253A-2026-03-10T03:30:00Z';
  expect(agentJobOf(scheduled)).toEqual({ projectId: 'a:b', key: 'night%3A-2026-03-10T03:30:00Z', jobId: null });
  // One key has one id: the other spellings name no key.
  const spelt = ['agent-job/a:b/k', 'agent-job/p/k%3A1', 'agent-job/p/k%3a1', 'agent-job/p/%6B', 'agent-job/p/a b'];
  for (const other of [...spelt, 'agent-job/p', 'agent-job/p/k/x/y', 'agent-job/p/%E0%A4%A', 'x/p/k'])
    expect(agentJobOf(other)).toBeNull();
});

test('a name that no job can have is invalid for a handle', () => {
  const wrong: object[] = [
    { projectId: '..', key: 'k' },
    { projectId: 'p', key: '' },
    { projectId: 'p', key: '\ud800' },
    { projectId: '\ud800', jobId: 'j' },
    { projectId: 'p', jobId: '' },
    { projectId: 'p' },
  ];
  for (const job of wrong)
    expect(() => server.jobs.handle(job as { projectId: string; key: string })).toThrow(InvalidInputError);
  expect(() => server.jobs.handle('')).toThrow(InvalidInputError);
  expect(() => server.jobs.handle(null as unknown as string)).toThrow(InvalidInputError);
});

test('the limit of a client holds for each call that gives none itself', async () => {
  const client = new Client({ connection: Connection.lazy({ address: '127.0.0.1:1' }) });
  const jobs = new AgentJobs({ client, timeoutMs: 200 });
  const job = jobs.handle({ projectId: 'p', key: 'k' });
  const calls = [
    () => jobs.start({ projectId: 'p', key: 'k', prompt: 'x' }),
    () => jobs.exportSchedules(),
    () => job.cancel(),
  ];
  for (const call of calls) await expect(call()).rejects.toThrow('did not answer within 0.2 seconds');
  await expect(job.cancel({ timeoutMs: 300 })).rejects.toThrow('did not answer within 0.3 seconds');
  await expect(job.cancel({ timeoutMs: null, signal: null })).rejects.toThrow('did not answer within 0.2 seconds');
});

test('connecting ends with its signal, and within its limit', async () => {
  const reason = new Error('enough');
  await expect(AgentJobs.connect({ address: server.address }, { signal: AbortSignal.abort(reason) })).rejects.toBe(
    reason,
  );
  const stop = new AbortController();
  const connecting = AgentJobs.connect({ address: server.address }, { signal: stop.signal });
  stop.abort(reason);
  await expect(connecting).rejects.toBe(reason);
  await expect(AgentJobs.connect({ address: '127.0.0.1:1', timeoutMs: 300 })).rejects.toThrow(TemporalUnavailableError);
});

test('a client that was declared with await using is closed', async () => {
  const jobs = await AgentJobs.connect({ address: server.address, namespace: server.namespace });
  await jobs[Symbol.asyncDispose]();
  await expect(jobs.handle('x').cancel()).rejects.toMatchObject({ code: 'TEMPORAL_CALL' });
});
