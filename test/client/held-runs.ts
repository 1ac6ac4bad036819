/** Recurring jobs whose runs have no worker until a test starts one, and stand still around the lock if it wants. */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode } from '@temporalio/worker';
import { expect } from 'vitest';
import { AgentJobs, type JobScheduleHandle, type JobScheduleSettings } from '../../src/starter.js';
import { workflowBundleOptions } from '../../src/temporal/workflow-bundle.js';
import type { TestServer } from '../support/dev-server.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { runHours, runsOf, schedulePaused } from './recurring.js';

/** A recurring job on a task queue of its own. Its jobs complete at once. */
export interface WorkerlessJob {
  handle: JobScheduleHandle;
  upstream: ScriptedUpstream;
  /** Serves its task queue until `work` is over. */
  withWorker<T>(work: () => Promise<T>): Promise<T>;
  /** The same with runs that stand still around the lock. */
  withHeldRuns<T>(work: () => Promise<T>): Promise<T>;
}

export async function workerlessJob(
  server: TestServer,
  settings: Partial<JobScheduleSettings> = {},
): Promise<WorkerlessJob> {
  const { client, taskQueue: prefix } = server;
  const taskQueue = `${prefix}-${randomUUID()}`;
  const upstream = new ScriptedUpstream();
  const jobs = new AgentJobs({ client, taskQueue });
  const handle = await schedulePaused({ jobs, projectId: `project-${randomUUID()}` }, settings);
  const serve = async <T>(bench: JobBench, work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } finally {
      await bench.stop();
    }
  };
  return {
    handle,
    upstream,
    withWorker: async (work) => serve(await startJobBench(server, upstream, { taskQueue }), work),
    withHeldRuns: async (work) => {
      const worker = { workflowBundle: await heldRunsBundle() };
      return serve(await startJobBench(server, upstream, { taskQueue, worker }), work);
    },
  };
}

let bundle: ReturnType<typeof bundleWorkflowCode> | undefined;

/** Made once per test file, which takes a busy machine its time: call it in a hook. */
export function heldRunsBundle(): ReturnType<typeof bundleWorkflowCode> {
  const options = workflowBundleOptions(fileURLToPath(new URL('../../src/', import.meta.url)), '.ts');
  const held = fileURLToPath(new URL('./workflows/held-run.ts', import.meta.url));
  const workflowInterceptorModules = [...options.workflowInterceptorModules, held];
  bundle ??= bundleWorkflowCode({ ...options, workflowInterceptorModules });
  return bundle;
}

/** The handle of the run of an hour. */
export function runOf({ client }: TestServer, { scheduleId }: JobScheduleHandle, hour: string) {
  return client.workflow.getHandle(`${scheduleId}-2026-03-10T${hour}:00:00Z`);
}

type Run = ReturnType<typeof runOf>;

/** Waits until a run stands still there. */
export async function heldAt(run: Run, place: 'betweenLocks' | 'withLock'): Promise<void> {
  await expect.poll(() => run.query('heldAt').catch(() => null)).toBe(place);
}

/** How often a run was told that it is dismissed. */
export async function countDismissals(run: Run): Promise<number> {
  const { events } = await run.fetchHistory();
  const signals = (events ?? []).flatMap(({ workflowExecutionSignaledEventAttributes: signal }) => signal ?? []);
  return signals.filter(({ signalName, input }) => {
    const data = Buffer.from(input?.payloads?.[0]?.data ?? []).toString();
    return signalName === 'lockAnswer' && data.includes('"removed"');
  }).length;
}

/** Has these hours come, and waits until their runs are listed. */
export async function listedHours(server: TestServer, handle: JobScheduleHandle, from: number, to = from) {
  const count = (await runsOf(handle)).length + to - from + 1;
  await runHours(server, handle, from, to);
  await expect.poll(async () => (await runsOf(handle)).length).toBe(count);
}
