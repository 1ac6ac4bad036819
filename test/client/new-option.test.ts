/** An option that is added to the one table of options is carried everywhere, without another line anywhere. */
import { randomUUID } from 'node:crypto';
import { defaultPayloadConverter } from '@temporalio/common';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { agentJobChildOptions } from '../../src/agent-job/child.js';
import { parseJobInput } from '../../src/agent-job/input.js';
import { FakeAgentJobs } from '../../src/client/fake-agent-jobs.js';
import type { AgentJobInput } from '../../src/contract.js';
import { QUICK, startJobServer, type JobServer } from './job-server.js';

vi.mock(import('../../src/agent-job/fields.js'), async (importOriginal) => {
  const fields = await importOriginal();
  const { duration, optional } = await import('../../src/contract/kinds.js');
  const table = { patience: optional(duration(), '7 seconds') };
  return {
    ...fields,
    JOB_OPTIONS: { ...fields.JOB_OPTIONS, ...table },
    CREATE_JOB: { ...fields.CREATE_JOB, ...table },
    ATTACH_JOB: { ...fields.ATTACH_JOB, ...table },
  };
});

const NEW = { patience: '9 seconds' };
const job = { projectId: 'p', prompt: 'x', ...NEW };

let server: JobServer;
beforeAll(async () => {
  server = await startJobServer();
});
afterAll(() => server.close());

async function inputOf(workflowId: string): Promise<{ input: AgentJobInput; runId: string }> {
  const handle = server.client.workflow.getHandle(workflowId);
  const { runId } = await handle.describe();
  const { events } = await handle.fetchHistory();
  const [payload] = events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
  return { input: defaultPayloadConverter.fromPayload(payload!), runId };
}

test('it goes on with a follow-up after the end', async () => {
  const request = { ...job, projectId: server.projectId, key: randomUUID(), ...QUICK };
  const handle = await server.jobs.start(request);
  await handle.result();
  const first = await inputOf(handle.workflowId);
  expect(first.input).toMatchObject(NEW);
  await handle.sendFollowUp('Go on', { id: 'a' });
  const second = await inputOf(handle.workflowId);
  expect(second.runId).not.toBe(first.runId);
  expect(second.input).toMatchObject({ ...NEW, ...QUICK });
});

test('it is checked by its line', () => {
  expect(parseJobInput(job)).toMatchObject({ patience: 9_000 });
  expect(() => parseJobInput({ ...job, patience: 'soon' })).toThrow('patience must be');
});

test('it reaches the job of a parent workflow and of the fake client', async () => {
  expect(agentJobChildOptions(job, { key: 'k' }).args[0]).toEqual(job);
  const jobs = new FakeAgentJobs();
  await jobs.start({ ...job, key: 'one' });
  await jobs.attach({ projectId: 'p', jobId: 'j', ...NEW, key: 'three' });
  expect(jobs.jobs.map(({ input }) => input)).toEqual(Array(2).fill(expect.objectContaining(NEW)));
});
