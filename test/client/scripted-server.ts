import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import type { Worker } from '@temporalio/worker';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { AgentJobs, type JobHandle } from '../../src/starter.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { createTestWorker } from '../support/worker.js';
import { until } from '../support/worker-process.js';

/** A dev server with a worker whose jobs end as their prompts say, and a project of one's own on it. */
export interface ScriptedServer extends TestServer {
  jobs: AgentJobs;
  projectId: string;
  /** How many runs a job's workflow id has had, continue-as-new included. */
  countRuns(job: JobHandle): Promise<number>;
  newestRunId(job: JobHandle): Promise<string>;
}

export async function startScriptedServer(): Promise<ScriptedServer> {
  const server = await connectDevServer();
  const { client, taskQueue, nativeConnection: connection } = server;
  await ensureSearchAttributes(client.connection, server.namespace);
  const workflowsPath = fileURLToPath(new URL('./workflows/index.ts', import.meta.url));
  const worker = await createTestWorker({ connection, taskQueue, workflowsPath, activities: {} });
  const running = worker.run();
  return {
    ...server,
    jobs: new AgentJobs({ client, taskQueue }),
    projectId: `project-${randomUUID()}`,
    async countRuns({ workflowId }) {
      const { runId } = await client.workflow.getHandle(workflowId).describe();
      const count = async (query: string) => (await client.workflow.count(query)).count;
      const runs = `WorkflowId = '${workflowId}'`;
      // Visibility lags behind.
      await until(async () => (await count(`${runs} AND RunId = '${runId}'`)) === 1, `the run ${runId} to be listed`);
      return count(runs);
    },
    async newestRunId({ workflowId }) {
      return (await client.workflow.getHandle(workflowId).describe()).runId;
    },
    async close() {
      await stop(worker, running);
      await server.close();
    },
  };
}

async function stop(worker: Worker, running: Promise<void>): Promise<void> {
  worker.shutdown();
  await running;
}
