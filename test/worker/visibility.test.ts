/** What a worker says of a namespace that lacks search attributes. */
import { randomUUID } from 'node:crypto';
import { defineSearchAttributeKey } from '@temporalio/common';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AGENT_JOB_WORKFLOW, SEARCH_ATTRIBUTE } from '../../src/contract.js';
import { freePort } from '../../src/local/child-process.js';
import { startSandbox } from '../../src/sandbox/sandbox.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { startWorkerProcess, until, workerEnv, type WorkerProcess } from '../support/worker-process.js';
import { useForFile } from '../support/use.js';

const MOST_MS = 240_000;
const KEYWORD = 2; // temporal.api.enums.v1.IndexedValueType
const INT = 3;
const KEYWORD_LIST = 7;
const NAMES = [SEARCH_ATTRIBUTE.waitingFor, SEARCH_ATTRIBUTE.batch, SEARCH_ATTRIBUTE.tags];
const TAGS = defineSearchAttributeKey(SEARCH_ATTRIBUTE.tags, 'KEYWORD_LIST');

const server = useForFile(connectOwnNamespace);
const sandbox = useForFile(() => startSandbox({ script: { activeMs: 0 } }));
let worker: WorkerProcess;
let healthPort: number;

beforeAll(async () => {
  healthPort = await freePort();
}, MOST_MS);
afterAll(async () => {
  await worker?.kill();
});

async function setAttributes(types: Record<string, number>): Promise<void> {
  const { operatorService } = server.client.connection;
  const { namespace } = server;
  await operatorService.removeSearchAttributes({ namespace, searchAttributes: NAMES }).catch(() => {});
  if (Object.keys(types).length > 0) await operatorService.addSearchAttributes({ namespace, searchAttributes: types });
}

async function startWorker(): Promise<void> {
  await worker?.kill();
  worker = startWorkerProcess({ ...workerEnv(server, sandbox), HEALTH_ADDRESS: `127.0.0.1:${healthPort}` });
  await worker.wrote('The worker runs');
}

async function readyz(): Promise<{ ready?: boolean; reason?: string }> {
  const response = await fetch(`http://127.0.0.1:${healthPort}/readyz`).catch(() => null);
  return response === null ? {} : ((await response.json()) as { ready: boolean; reason?: string });
}

const reasonFor = (names: string) =>
  `search attributes are not registered, or have another type: ${names}; run "agent-jobs setup"`;
const MISSING =
  /AgentJobWaitingFor.*AgentJobBatch.*AgentJobTags.*no job makes progress without them: run \\"agent-jobs setup\\"/;

test('a worker whose namespace lacks them says so and is not ready; with them, a job that waits goes on', async () => {
  await setAttributes({});
  await startWorker();
  await until(async () => (await readyz()).reason?.startsWith('search attributes') ?? false, 'the reason');
  const reason = reasonFor('AgentJobWaitingFor, AgentJobBatch, AgentJobTags');
  expect(await readyz()).toEqual({ ready: false, reason });
  expect(worker.output()).toMatch(MISSING);
  const projectId = `p-${randomUUID()}`;
  const job = await server.client.workflow.start(AGENT_JOB_WORKFLOW, {
    workflowId: `agent-job/${projectId}/k`,
    taskQueue: server.taskQueue,
    args: [{ projectId, prompt: 'hello', batch: 'night', tags: ['a', 'b'] }],
  });
  await worker.wrote('BadSearchAttributes');
  await setAttributes({ [NAMES[0]!]: KEYWORD, [NAMES[1]!]: KEYWORD, [NAMES[2]!]: KEYWORD_LIST });
  expect(await job.result()).toMatchObject({ outcome: 'completed' });
  expect((await job.describe()).typedSearchAttributes.get(TAGS)).toEqual(['a', 'b']);
  await until(async () => (await readyz()).ready === true, 'readiness', worker.output);
  expect(worker.output().match(new RegExp(MISSING, 'g'))).toHaveLength(1);
});

test('a worker whose namespace has one of another type is not ready', async () => {
  await setAttributes({ [NAMES[0]!]: INT, [NAMES[1]!]: KEYWORD, [NAMES[2]!]: KEYWORD_LIST });
  await startWorker();
  await until(async () => (await readyz()).reason?.startsWith('search attributes') ?? false, 'the reason');
  expect(await readyz()).toEqual({ ready: false, reason: reasonFor('AgentJobWaitingFor') });
});
