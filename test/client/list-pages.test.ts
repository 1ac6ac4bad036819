/** Lists of jobs that ended, continued as new, or went on after their end. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { listJobs } from '../../src/client/agent-job/list.js';
import { agentJobStartOptions } from '../../src/agent-job/start-options.js';
import { agentJobWorkflowId } from '../../src/contract.js';
import { until } from '../support/worker-process.js';
import { gathered } from './job-server.js';
import { startScriptedServer, type ScriptedServer } from './scripted-server.js';

let server: ScriptedServer;
beforeAll(async () => {
  server = await startScriptedServer();
});
afterAll(() => server.close());

const KEYS = ['k5', 'k4', 'k3', 'k2', 'k1', 'k0'];

async function start(
  projectId: string,
  key: string,
  { taskQueue = server.taskQueue, batch = projectId } = {},
): Promise<void> {
  const job = { projectId, prompt: 'continue', batch };
  const { workflowIdReusePolicy: _, ...options } = agentJobStartOptions(job, { key, taskQueue });
  await server.client.workflow.start('agentJob', options);
}

/** Six jobs that continue as new with their first follow-up; the server lists `k5` first, `k0` last. */
async function startSix(name: string): Promise<string> {
  const projectId = `${name}-${randomUUID()}`;
  for (const key of KEYS.toReversed()) await start(projectId, key);
  await listedAs(projectId, KEYS);
  return projectId;
}

/** What one page of all runs shows that did not continue, so that a change is in the list before the next page. */
async function listedAs(projectId: string, keys: string[]): Promise<void> {
  const query = `AgentJobProject = '${projectId}' AND ExecutionStatus != 'ContinuedAsNew'`;
  const keysNow = async () => (await gathered(server.client.workflow.list({ query }))).map(keyOf);
  await until(async () => String(await keysNow()) === String(keys), `the server to list ${keys.join(', ')}`);
}

function keyOf({ workflowId }: { workflowId: string }): string {
  return workflowId.split('/').at(-1) ?? '';
}

/** The keys of a list that is read two jobs at a time. */
async function listed(projectId: string): Promise<string[]> {
  return (await gathered(listJobs(server.client, { projectId }, { pageSize: 2 }))).map(keyOf);
}

async function paged(projectId: string): Promise<string[]> {
  const keys: string[] = [];
  for (let cursor: string | null | undefined; cursor !== null;) {
    const { jobs, nextCursor } = await server.jobs.listPage({ projectId }, { pageSize: 2, cursor });
    keys.push(...jobs.map(keyOf));
    cursor = nextCursor;
  }
  return keys;
}

/** Until it is listed as over: in the list of all it may stand in the same place as before. */
async function end(projectId: string, key: string): Promise<void> {
  const workflowId = agentJobWorkflowId(projectId, key);
  await server.client.workflow.getHandle(workflowId).terminate();
  const query = `WorkflowId = '${workflowId}' AND ExecutionStatus = 'Running'`;
  await until(async () => (await server.client.workflow.count(query)).count === 0, `${key} to be listed as over`);
}

test("each job comes once in a list, and first by its newest run in pages, in the server's order", async () => {
  const projectId = await startSix('still');
  await end(projectId, 'k0');
  await start(projectId, 'k0');
  await listedAs(projectId, ['k0', 'k5', 'k4', 'k3', 'k2', 'k1', 'k0']);
  await server.jobs.handle({ projectId, key: 'k2' }).followUp('go on', { id: 'one' });
  await listedAs(projectId, ['k2', 'k0', 'k5', 'k4', 'k3', 'k1', 'k0']);
  const keys = ['k2', 'k0', 'k5', 'k4', 'k3', 'k1'];
  expect(await listed(projectId)).toEqual(keys);
  expect([...new Set(await paged(projectId))]).toEqual(keys);
  for (const key of keys) await end(projectId, key);
  await listedAs(projectId, ['k1', 'k3', 'k4', 'k5', 'k0', 'k2', 'k0']);
  const ended = ['k1', 'k3', 'k4', 'k5', 'k0', 'k2'];
  expect(await listed(projectId)).toEqual(ended);
  expect([...new Set(await paged(projectId))]).toEqual(ended);
});
