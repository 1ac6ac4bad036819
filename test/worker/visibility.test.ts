/** A worker in a namespace that an older release has set up. */
import { randomUUID } from 'node:crypto';
import { defineSearchAttributeKey } from '@temporalio/common';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AGENT_JOB_WORKFLOW, SEARCH_ATTRIBUTE } from '../../src/contract.js';
import type { DevServer } from '../../src/local/dev-server.js';
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.js';
import { connectTo, startPrivateDevServer, type TestServer } from '../support/dev-server.js';
import { startWorkerProcess, until, type WorkerProcess } from '../support/worker-process.js';

const MOST_MS = 240_000;
const TEXT = 1; // temporal.api.enums.v1.IndexedValueType
const KEYWORD = 2;
const KEYWORD_LIST = 7;
const LATER = [SEARCH_ATTRIBUTE.waitingFor, SEARCH_ATTRIBUTE.batch, SEARCH_ATTRIBUTE.tags];
const TAGS = defineSearchAttributeKey(SEARCH_ATTRIBUTE.tags, 'KEYWORD_LIST');
const WAITING_FOR = defineSearchAttributeKey(SEARCH_ATTRIBUTE.waitingFor, 'KEYWORD');

let own: DevServer;
let server: TestServer;
let sandbox: Sandbox;
let worker: WorkerProcess;

beforeAll(async () => {
  own = await startPrivateDevServer();
  server = await connectTo(own);
  sandbox = await startSandbox({ script: { activeMs: 0 } });
}, MOST_MS);
afterAll(async () => {
  await worker?.kill();
  await sandbox.close();
  await server.close();
  await own.stop();
});

async function setAttributes(types: Record<string, number>): Promise<void> {
  const { operatorService } = server.client.connection;
  const { namespace } = server;
  await operatorService.removeSearchAttributes({ namespace, searchAttributes: LATER }).catch(() => {});
  if (Object.keys(types).length > 0) await operatorService.addSearchAttributes({ namespace, searchAttributes: types });
}

async function startThrottledJob(retryAfter: number) {
  const projectId = `busy-${randomUUID()}`;
  await sandbox.addFault({ kind: 'status', status: 429, retryAfter, operation: 'create', projectId });
  return server.client.workflow.start(AGENT_JOB_WORKFLOW, {
    workflowId: `agent-job/${projectId}/k`,
    taskQueue: server.taskQueue,
    args: [{ projectId, prompt: 'hello', batch: 'night', tags: ['a', 'b'] }],
  });
}

async function startWorker(): Promise<void> {
  await worker?.kill();
  const env = { UPSTREAM_BASE_URL: sandbox.url, ADMIN_API_KEY: sandbox.apiKey, TEMPORAL_ADDRESS: server.address };
  worker = startWorkerProcess({ ...env, AGENT_JOBS_TASK_QUEUE: server.taskQueue });
  await worker.wrote('The worker runs');
}

const MISSING = /AgentJobWaitingFor.*AgentJobBatch.*AgentJobTags.*no job sets them: run \\"agent-jobs setup\\"/;
const WRONG_TYPE =
  /AgentJobWaitingFor.*AgentJobBatch.*AgentJobTags.*another type than jobs set.*\\"agent-jobs setup\\" says what to do/;

test.for([
  ['lacks the search attributes', {}, MISSING],
  [
    'has lists of keywords in place of keywords',
    { [LATER[0]!]: KEYWORD_LIST, [LATER[1]!]: KEYWORD_LIST, [LATER[2]!]: KEYWORD },
    WRONG_TYPE,
  ],
  ['has them as text', { [LATER[0]!]: TEXT, [LATER[1]!]: TEXT, [LATER[2]!]: TEXT }, WRONG_TYPE],
] as const)(
  'a worker whose namespace %s says so, and its jobs run without them',
  { timeout: MOST_MS },
  async ([, types, warning]) => {
    await setAttributes(types);
    await startWorker();
    expect(worker.output()).toMatch(warning);
    const job = await startThrottledJob(1);
    expect(await job.result()).toMatchObject({ outcome: 'completed' });
  },
);

test(
  'a worker sees within a minute that they were registered, and its jobs set them',
  { timeout: MOST_MS },
  async () => {
    await setAttributes({});
    await startWorker();
    await setAttributes({ [LATER[0]!]: KEYWORD, [LATER[1]!]: KEYWORD, [LATER[2]!]: KEYWORD_LIST });
    const shown = async () => {
      const job = await startThrottledJob(3_600);
      await until(async () => (await job.describe()).historyLength > 8, 'the refusal', worker.output);
      const attributes = (await job.describe()).typedSearchAttributes;
      await job.terminate();
      return [attributes.get(WAITING_FOR), attributes.get(TAGS)];
    };
    await expect.poll(shown, { timeout: 120_000 }).toEqual(['rateLimit', ['a', 'b']]);
  },
);
