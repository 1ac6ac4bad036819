import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import type { PollJobInput } from '../../src/activities/agent-job/poll-attempt.js';
import { AGENT_JOB_WORKFLOW, followUpSignal, type AgentJobInput } from '../../src/contract.js';
import { pollInput } from '../support/held-attempt.js';
import { createTestWorker } from '../support/worker.js';
import { until, type WorkerProcess } from '../support/worker-process.js';
import { usePrivateSystem } from './system.js';

const HANGING = 400;
const PER_WORKFLOW = 200;
/** One poll of each job is enough. */
const AGAIN_AFTER_MS = 3_600_000;
const MAX_MEMORY_MIB = 1_024;

const system = usePrivateSystem({ script: { activeMs: 3_600_000 } });

test(
  `a create and a follow-up leave while the polls of ${HANGING} jobs hang on the same worker`,
  { timeout: 450_000 },
  async () => {
    const { sandbox } = system;
    const worker = system.startWorker();
    const steered = await startJob({ projectId: 'steered', prompt: 'Work for long', polling: { min: '1 hour' } });
    await until(async () => (await sandbox.creates()).length === 1, 'the job to steer', worker.output);
    await sandbox.addFault({ kind: 'hang', operation: 'get', projectId: 'hanging', count: 100 * HANGING });
    await whilePolling(async () => {
      await until(async () => (await hangingPolls()) >= HANGING, 'all polls to hang', worker.output, 200_000);
      const open = await openRequests();

      const startedAt = performance.now();
      await steered.signal(followUpSignal, { prompt: 'Go on' });
      await startJob({ projectId: 'fresh', prompt: 'Begin now' });
      await until(
        async () => (await sandbox.creates({ projectId: 'fresh' })).length === 1,
        'the create',
        worker.output,
      );
      await until(async () => (await sandbox.messages()).length === 1, 'the follow-up', worker.output);
      const tookMs = Math.round(performance.now() - startedAt);
      const memoryMiB = await peakMemoryMiB(worker);
      console.log(
        `${open} polls hung before, ${await openRequests()} after; the writes took ${tookMs} ms; ${memoryMiB} MiB`,
      );
      expect(memoryMiB).toBeLessThan(MAX_MEMORY_MIB);
    });
    const { get, create, message } = (await sandbox.counts()).operations;
    expect(create.requests).toBe(2);
    expect(message.requests).toBe(1);
    // No poll of those jobs was ever answered; one that began late may have been made again.
    expect(get.responses['hang']).toBeGreaterThanOrEqual(HANGING);
    expect(get.effects).toBeLessThan(10);
  },
);

function startJob(input: AgentJobInput) {
  const { client, taskQueue } = system.server;
  const workflowId = `agent-job/${input.projectId}/only`;
  return client.workflow.start(AGENT_JOB_WORKFLOW, { taskQueue, workflowId, args: [input] });
}

/** Has the production worker poll the jobs that hang, at their own pace, until the work is done. */
async function whilePolling(work: () => Promise<void>): Promise<void> {
  const { client, nativeConnection: connection, taskQueue } = system.server;
  const own = randomUUID();
  const workflowsPath = fileURLToPath(new URL('./watch-many.ts', import.meta.url));
  const poller = await createTestWorker({ connection, taskQueue: own, activities: {}, workflowsPath });
  await poller.runUntil(async () => {
    for (let first = 0; first < HANGING; first += PER_WORKFLOW) {
      const inputs = Array.from({ length: PER_WORKFLOW }, (_, i) => watchInput(`job-${first + i}`));
      await client.workflow.start('watchMany', {
        taskQueue: own,
        workflowId: `watch-${first}`,
        args: [taskQueue, inputs],
      });
    }
    await work();
  });
}

function watchInput(jobId: string): PollJobInput {
  const plan = { minMs: AGAIN_AFTER_MS, maxMs: AGAIN_AFTER_MS, ratio: 0 };
  return pollInput({ projectId: 'hanging', jobId, plan, known: null, lastChangeAt: Date.now(), maxReads: 1_000 });
}

/** How many polls of those jobs the sandbox has left without an answer. */
async function hangingPolls(): Promise<number> {
  return (await system.sandbox.counts()).operations.get.responses['hang'] ?? 0;
}

/** Requests that are open at the sandbox, each on a connection of its own. */
async function openRequests(): Promise<number> {
  return (await system.sandbox.counts()).openConnections;
}

async function peakMemoryMiB({ pid }: WorkerProcess): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Math.round(Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024);
}
