/** Lives of `agentJob` over a roll-out, with workers of two versions of one deployment. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AGENT_JOB_WORKFLOW,
  followUpSignal,
  jobStateQuery,
  pollNowSignal,
  type AgentJobInput,
} from '../../src/contract.js';
import { makeCurrent } from '../support/current-version.js';
import { until } from '../support/worker-process.js';
import type { TestServer } from '../support/dev-server.js';
import { startJobBench } from '../support/job-bench.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';

/** Each lives one job and returns its workflow id. */
export const VERSION_SCENARIOS: Record<string, (server: TestServer) => Promise<string>> = {
  'other-version': async (server) => {
    const upstream = new ScriptedUpstream();
    upstream.show = () => ({ status: 'active' });
    const deploymentName = `recorded-${randomUUID()}`;
    const taskQueue = `record-${randomUUID()}`;
    const workflowId = 'agent-job/recorded/other-version';
    const job = server.client.workflow.getHandle(workflowId);
    const phaseIs = async (phase: string) => (await job.query(jobStateQuery)).phase === phase;
    const start = (buildId: string) => startVersion(server, upstream, { deploymentName, buildId, taskQueue });
    const first = await start('1');
    const polling = { min: '1 hour', max: '1 hour' };
    const input: AgentJobInput = { projectId: 'p1', prompt: 'Fix the login page', polling, settle: 0 };
    await server.client.workflow.start(AGENT_JOB_WORKFLOW, { taskQueue, workflowId, args: [input] });
    await until(() => phaseIs('watching'), 'the job to be watched');
    const { runId } = await job.describe();
    const second = await start('2');
    await job.signal(followUpSignal, { prompt: 'And a test', id: 'one' });
    await until(async () => upstream.messages.length === 1, 'the follow-up');
    // The task queues know of the change a moment after the call.
    await until(async () => {
      await job.signal('versionChanged');
      await sleep(500);
      return (await job.describe()).runId !== runId;
    }, 'the job to leave');
    await until(() => phaseIs('watching').catch(() => false), 'the job to go on');
    upstream.show = () => ({ status: 'completed' });
    await job.signal(pollNowSignal);
    await job.result();
    for (const bench of [first, second]) await bench.stop();
    return workflowId;
  },
};

/** A worker of a version, which it makes current. */
async function startVersion(
  server: TestServer,
  upstream: ScriptedUpstream,
  { taskQueue, ...version }: { deploymentName: string; buildId: string; taskQueue: string },
) {
  const versioning = { version, useWorkerVersioning: true, defaultVersioningBehavior: 'PINNED' } as const;
  const bench = await startJobBench(server, upstream, { taskQueue, worker: { workerDeploymentOptions: versioning } });
  await makeCurrent(server, version);
  return bench;
}
