import { expect, test } from 'vitest';
import { startSandbox } from '../../src/sandbox/sandbox.js';
import { AgentJobs } from '../../src/starter.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { shared } from '../support/shared.js';
import { startWorkerProcess, until } from '../support/worker-process.js';

const JOBS = 3;

test('jobs that go well cost no request to the list of workflows', { timeout: 180_000 }, async () => {
  const { metricsUrl } = await shared('dev-server');
  const server = await connectOwnNamespace();
  const sandbox = await startSandbox({ script: { activeMs: 0 } });
  const worker = startWorkerProcess({
    UPSTREAM_BASE_URL: sandbox.url,
    ADMIN_API_KEY: sandbox.apiKey,
    TEMPORAL_ADDRESS: server.address,
    TEMPORAL_NAMESPACE: server.namespace,
    AGENT_JOBS_TASK_QUEUE: server.taskQueue,
  });
  try {
    const jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
    for (let i = 0; i < JOBS; i++) {
      const job = await jobs.start({ projectId: 'lists', key: `job-${i}`, prompt: 'Fix it' });
      await job.result();
    }
    const requests = async (operation: string) => {
      const text = await (await fetch(metricsUrl)).text();
      const lines = text.split('\n').filter((line) => line.startsWith('service_requests{'));
      const labels = [`operation="${operation}"`, `namespace="${server.namespace}"`];
      const counts = lines.filter((line) => labels.every((label) => line.includes(label)));
      return counts.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
    };
    // The counters lag: this one shows that those of the jobs are in.
    const tasks = () => requests('RespondWorkflowTaskCompleted');
    await until(async () => (await tasks()) >= 3 * JOBS, 'the tasks of all jobs to be counted');
    expect(await requests('ListWorkflowExecutions')).toBe(0);
  } finally {
    await worker.kill();
    await sandbox.close();
    await server.close();
  }
});
