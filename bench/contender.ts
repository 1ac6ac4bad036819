/** The contenders: our worker and the baseline, on the same server and against the same upstream. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startProcess, type ManagedProcess } from '../src/local/child-process.js';
import type { Budget } from './options.js';
import type { BenchTemporal } from './temporal.js';
import type { BenchUpstream } from './upstream.js';

/** The surroundings of a contender. */
export interface Bench {
  folder: string;
  temporal: BenchTemporal;
  upstream: BenchUpstream;
  budget: Budget;
}

/** When to read a job: as the contract's `polling`, in milliseconds. */
export interface Polling {
  min: number;
  max: number;
  ratio: number;
}

export interface RunningJob {
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
export async function startWorkerProgram(
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
