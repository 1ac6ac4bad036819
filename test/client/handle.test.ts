import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection, type WorkflowClientInterceptor } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import { AGENT_JOB_WORKFLOW, agentJobWorkflowId, SEARCH_ATTRIBUTE } from '../../src/contract.js';
import { channelArgsFor } from '../../src/client/connection.js';
import { AgentJobs, type JobSummary } from '../../src/starter.js';
import { startScriptedServer } from './scripted-server.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startScriptedServer);

test('a job that begins while it is asked for is no ended one', async () => {
  const request = { projectId: server.projectId, key: randomUUID(), prompt: 'stay' };
  let asked = 0;
  const query: WorkflowClientInterceptor['query'] = async (input, next) => {
    asked += 1;
    try {
      return await next(input);
    } catch (error) {
      await server.jobs.start(request);
      throw error;
    }
  };
  const { connection, options } = server.client;
  const client = new Client({ connection, namespace: options.namespace, interceptors: { workflow: [{ query }] } });
  const job = new AgentJobs({ client, taskQueue: server.taskQueue }).handle(request);
  expect(await job.state()).toMatchObject({ phase: 'watching' });
  expect(asked).toBe(2);
  await job.cancel();
});

test('a foreign memo that can’t be decoded ends no list', async () => {
  const projectId = `foreign-memo-${randomUUID()}`;
  const undecodable = { metadata: { encoding: Buffer.from('binary/encrypted') }, data: Buffer.from('?') };
  await server.client.workflowService.startWorkflowExecution({
    namespace: server.namespace,
    workflowId: agentJobWorkflowId(projectId, 'k'),
    requestId: randomUUID(),
    workflowType: { name: AGENT_JOB_WORKFLOW },
    taskQueue: { name: `nobody-${randomUUID()}` },
    searchAttributes: { indexedFields: { [SEARCH_ATTRIBUTE.project]: defaultPayloadConverter.toPayload(projectId) } },
    memo: { fields: { prLink: undecodable, team: undecodable } },
  });
  await expect.poll(() => listed(projectId)).toMatchObject([{ projectId, prLink: null }]);
  const other = server.jobs.start({ projectId, key: 'k', prompt: 'hello' });
  await expect(other).rejects.toThrow(/another|differ/);
  await server.client.workflow.getHandle(agentJobWorkflowId(projectId, 'k')).terminate();
});

async function listed(projectId: string): Promise<JobSummary[]> {
  const found: JobSummary[] = [];
  for await (const job of server.jobs.list({ projectId, isRunning: true })) found.push(job);
  return found;
}

test('another client’s connection that waits to try again holds no other one up', async () => {
  const address = '127.0.0.1:2';
  const other = Connection.lazy({ address, channelArgs: channelArgsFor(address), connectTimeout: 8_000 });
  const trying = other.ensureConnected().catch(() => {});
  await delay(3_000);
  const errors: unknown[] = [];
  for (let i = 0; i < 4; i += 1) errors.push(await AgentJobs.connect({ address }).catch((error: unknown) => error));
  expect(errors.map(String)).toEqual(errors.map(() => expect.stringContaining('connection is refused')));
  await trying;
  await other.close();
});
