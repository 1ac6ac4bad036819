/**
 * The contenders, on the same server and against the same upstream: our own worker as it is built, called through the
 * starter as a service would, and a plain Temporal implementation with the SDK's default settings (baseline/).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { startProcess, type ManagedProcess } from '../src/local/child-process.js';
import { AgentJobs } from '../src/starter.js';
import type { Budget, Options } from './options.js';
import type { BenchTemporal, BenchUpstream } from './session.js';

/** The surroundings of a contender. */
export interface Bench {
  folder: string;
  temporal: BenchTemporal;
  upstream: BenchUpstream;
  budget: Budget;
}

/** When to poll a job: as the contract's `polling`, in milliseconds. */
export interface Polling {
  min: number;
  max: number;
  ratio: number;
}

interface RunningJob {
  workflowId: string;
  followUp(prompt: string): Promise<unknown>;
  /** The upstream's id of the job, once the caller has its result. */
  result(): Promise<string>;
}

export interface Contender {
  name: string;
  startWorker(bench: Bench): Promise<ManagedProcess>;
  start(bench: Bench, key: string, polling: Polling): Promise<RunningJob>;
}

interface WorkerProgram {
  program: string;
  env: Record<string, string>;
  /** The text that it writes when it is ready. */
  readyText: string;
}

const READY_TIME_LIMIT_MS = 120_000;

/** Starts a worker's program with these settings and no others, and waits until it is ready. */
async function startWorkerProgram(
  { folder }: Bench,
  name: string,
  { program, env, readyText }: WorkerProgram,
): Promise<ManagedProcess> {
  const logFile = join(folder, `${name}-${Date.now()}.log`);
  const worker = await startProcess({ program: process.execPath, args: [program], env, logFile });
  const deadline = Date.now() + READY_TIME_LIMIT_MS;
  while (!readFileSync(logFile, 'utf8').includes(readyText)) {
    if (worker.hasEnded() || Date.now() > deadline) {
      const words = worker.logTail();
      await worker.stop(0);
      throw new Error(`the worker of ${name} does not run:\n${words}`);
    }
    await pause(100);
  }
  return worker;
}

const OURS = fileURLToPath(new URL('../dist/worker.js', import.meta.url));
/** That of our worker. */
export const TASK_QUEUE = 'bench-ours';
const PROJECT = 'bench';
/** As the image and the compose file set them. */
const PROCESS_SETTINGS = { MALLOC_TRIM_THRESHOLD_: '131072', NODE_OPTIONS: '--max-old-space-size=340' };

/** A client of our worker. */
export function oursClient({ temporal }: Bench): AgentJobs {
  return new AgentJobs({ client: temporal.client, taskQueue: TASK_QUEUE });
}

/** Our worker. */
export const ours: Contender = {
  name: 'agent-jobs',
  startWorker(bench) {
    const { folder, temporal, upstream, budget } = bench;
    const env = {
      ...PROCESS_SETTINGS,
      TEMPORAL_ADDRESS: temporal.address,
      TEMPORAL_NAMESPACE: temporal.namespace,
      AGENT_JOBS_TASK_QUEUE: TASK_QUEUE,
      UPSTREAM_BASE_URL: upstream.url,
      ADMIN_API_KEY: upstream.key,
      SNAPSHOTS_URL: pathToFileURL(`${folder}/snapshots`).href,
      ...(budget === 'unlimited' && { CREATES_PER_HOUR: budget, MESSAGES_PER_HOUR: budget }),
    };
    return startWorkerProgram(bench, 'ours', { program: OURS, env, readyText: 'The worker runs' });
  },
  async start(bench, key, polling) {
    // The sandbox's jobs do not change at a follow-up here: no end must stand, and the baseline waits for none either.
    const input = { projectId: PROJECT, prompt: key, polling, settle: 0 };
    const job = await oursClient(bench).start({ key, ...input });
    return {
      workflowId: job.workflowId,
      followUp: (prompt) => job.followUp(prompt),
      result: async () => (await job.result()).jobId ?? '',
    };
  },
};

const BASELINE = fileURLToPath(new URL('./baseline/worker.mjs', import.meta.url));

type BaselineJob = (input: { prompt: string; minMs: number; maxMs: number; ratio: number }) => Promise<{ id: string }>;

const baseline: Contender = {
  name: 'baseline',
  startWorker(bench) {
    const { temporal, upstream } = bench;
    const env = {
      BENCH_TEMPORAL: temporal.address,
      BENCH_NAMESPACE: temporal.namespace,
      BENCH_UPSTREAM: upstream.url,
      BENCH_KEY: upstream.key,
    };
    return startWorkerProgram(bench, 'baseline', { program: BASELINE, env, readyText: 'the baseline worker runs' });
  },
  async start({ temporal }, key, { min, max, ratio }) {
    const handle = await temporal.client.workflow.start<BaselineJob>('baselineJob', {
      taskQueue: 'bench-baseline',
      workflowId: `baseline-${key}`,
      args: [{ prompt: key, minMs: min, maxMs: max, ratio }],
    });
    return {
      workflowId: handle.workflowId,
      followUp: (prompt) => handle.signal('followUp', prompt),
      result: async () => (await handle.result()).id,
    };
  },
};

/** Both contenders, or the requested one; every second repetition reverses their order. */
export function inOrder({ only }: Options, repetition = 1): Contender[] {
  const both = repetition % 2 === 1 ? [ours, baseline] : [baseline, ours];
  return both.filter(({ name }) => only === undefined || only === name);
}
