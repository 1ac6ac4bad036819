/** A worker on Temporal's time-skipping server, for one scenario after the other, each with its own upstream. */
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import { randomUUID } from 'node:crypto';
import { activityInfo } from '@temporalio/activity';
import type { WorkflowHandle } from '@temporalio/client';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { createJobActivities, type JobActivities } from '../../src/activities/agent-job/job-activities.js';
import type { ReadJobResult } from '../../src/activities/agent-job/read-job.js';
import type { AgentJobInput } from '../../src/contract.js';
import { noMetrics } from '../support/no-metrics.js';
import type { Upstream } from '../../src/upstream/upstream.js';
import type { agentJob } from '../../src/workflows/index.js';
import { startTimeSkipping } from '../support/time-skipping.js';
import { createTestWorker } from '../support/worker.js';
import { earlyBundle } from './early-bundle.js';

export interface RealServer {
  environment: TestWorkflowEnvironment;
  /** Set for each scenario. */
  upstream: Upstream;
  /** Called with each write's result before the workflow gets it. */
  onWritten: (result: WriteOutcome) => void;
  /** Called with the result of the read before an adoption, before the workflow gets it. */
  onReadToAdopt: (result: ReadJobResult) => void;
  start(input: AgentJobInput, options: { memo: Record<string, unknown> }): Promise<WorkflowHandle<typeof agentJob>>;
  stop(): Promise<void>;
}

export async function startRealServer(): Promise<RealServer> {
  const environment = await startTimeSkipping();
  const { client, nativeConnection: connection } = environment;
  const taskQueue = `model-${randomUUID()}`;
  const shutdown = new AbortController();
  const worker = await createTestWorker({
    connection,
    taskQueue,
    activities: activitiesOf(() => server, shutdown.signal),
    workflowBundle: await earlyBundle(),
  });
  const running = worker.run();
  const server: RealServer = {
    environment,
    upstream: null as unknown as Upstream,
    onWritten: () => {},
    onReadToAdopt: () => {},
    start: (input, { memo }) =>
      client.workflow.start<typeof agentJob>('agentJob', {
        taskQueue,
        workflowId: `agent-job/model/${randomUUID()}`,
        args: [input],
        memo,
        workflowExecutionTimeout: '400 days',
      }),
    async stop() {
      shutdown.abort();
      worker.shutdown();
      await running;
      await environment.teardown();
    },
  };
  return server;
}

/** The real activities over the upstream of the moment. A gate of their own for each scenario: it outlives a job. */
function activitiesOf(server: () => RealServer, shutdownSignal: AbortSignal): object {
  let made: { upstream: Upstream; activities: ReturnType<typeof createJobActivities> } | null = null;
  const present = () => {
    const { upstream } = server();
    if (made?.upstream !== upstream) {
      // The server's time, which is skipped.
      const machine = { monotonic: () => activityInfo().currentAttemptScheduledTimestampMs, wall: Date.now };
      made = { upstream, activities: createJobActivities({ upstream, shutdownSignal, metrics: noMetrics, machine }) };
    }
    return made.activities;
  };
  const reported = (result: WriteOutcome) => {
    server().onWritten(result);
    return result;
  };
  type Activities = ReturnType<typeof createJobActivities>;
  return {
    createJob: async (input: Parameters<Activities['createJob']>[0]) => reported(await present().createJob(input)),
    sendMessage: async (input: Parameters<Activities['sendMessage']>[0]) =>
      reported(await present().sendMessage(input)),
    pollJob: (input: Parameters<Activities['pollJob']>[0]) => present().pollJob(input),
    awaitKey: (input: Parameters<Activities['awaitKey']>[0]) => present().awaitKey(input),
    readJob: async (input: Parameters<Activities['readJob']>[0]) => {
      const result = await present().readJob(input);
      server().onReadToAdopt(result);
      return result;
    },
  } satisfies JobActivities;
}
