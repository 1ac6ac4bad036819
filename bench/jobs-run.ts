/** Runs a number of jobs at once and measures their cost. */
import { setTimeout as pause } from 'node:timers/promises';
import type { ManagedProcess } from '../src/local/child-process.js';
import type { Bench, Contender, Polling, RunningJob } from './contender.js';
import { mean, quantile, type Figures, uniqueTag } from './figures.js';
import { cpuMs, ownCpuMs, watchMemory } from './processes.js';

export interface JobsWork {
  /** Of the scenario. */
  name: string;
  n: number;
  polling: Polling;
  /** How long each job stays active upstream. */
  activeMs: number;
  /** Each job gets one follow-up this long after its start. */
  followUpAfterMs?: number;
}

/** The server's counters lag behind by up to this much. */
const COUNTER_LAG_MS = 2_500;
const IDLE_LOOK_MS = 2_000;
const SAMPLED_HISTORIES = 50;

/** CPU time used so far by the caller, the worker and the server. */
interface CpuUse {
  caller: number;
  worker: number;
  server: number;
}

export function cpuUse({ temporal }: Bench, worker: ManagedProcess): CpuUse {
  return { caller: ownCpuMs(), worker: cpuMs([worker.pid]), server: cpuMs(temporal.pids) };
}

export function cpuBetween(before: CpuUse, after: CpuUse): CpuUse & { all: number } {
  const caller = after.caller - before.caller;
  const worker = after.worker - before.worker;
  const server = after.server - before.server;
  return { caller, worker, server, all: caller + worker + server };
}

/** Starts the jobs, sends their follow-ups, awaits every result, and measures. */
export async function runJobs(
  bench: Bench,
  contender: Contender,
  worker: ManagedProcess,
  work: JobsWork,
): Promise<Figures> {
  const { upstream, temporal } = bench;
  await upstream.control.setScript({ activeMs: work.activeMs, followUp: 'ignore' });
  await upstream.countAnew();
  const idleCores = await idleRate(bench, worker);
  const actionsBefore = await temporal.actions();
  const peakMemory = watchMemory([worker.pid], 2_000);
  const before = cpuUse(bench, worker);
  const startedAt = Date.now();
  const ended = await Promise.all(
    Array.from({ length: work.n }, () => oneJob(bench, contender, work, uniqueTag('job'))),
  );
  const wallMs = Date.now() - startedAt;
  const cpu = cpuBetween(before, cpuUse(bench, worker));
  const memory = peakMemory();
  await pause(COUNTER_LAG_MS);
  const actionsAfter = await temporal.actions();
  const requests = await upstream.requests();
  const latencies = await detectionMs(bench, work, ended);
  const perJob = (total: number) => total / work.n;
  return {
    'jobs per second': perSecond(work.n, wallMs),
    'CPU ms per job': perJob(cpu.all),
    'CPU ms per job, caller': perJob(cpu.caller),
    'CPU ms per job, worker': perJob(cpu.worker),
    'CPU ms per job, server': perJob(cpu.server),
    'detection p50 ms': quantile(latencies, 0.5),
    'detection p95 ms': quantile(latencies, 0.95),
    'reads per job': perJob(requests.get),
    'creates per job': perJob(requests.create),
    'messages per job': perJob(requests.message),
    ...(await historySizes(bench, ended)),
    'billable actions per job': perJob(actionsAfter - actionsBefore),
    'worker peak memory MiB': memory,
    'idle CPU ms per second': idleCores,
    'wall ms': wallMs,
  };
}

interface EndedJob {
  workflowId: string;
  jobId: string;
  at: number;
}

async function oneJob(bench: Bench, contender: Contender, work: JobsWork, key: string): Promise<EndedJob> {
  const job: RunningJob = await contender.start(bench, key, work.polling);
  const result = job.result();
  const { followUpAfterMs } = work;
  const followUp =
    followUpAfterMs === undefined ? undefined : pause(followUpAfterMs).then(() => job.followUp('and add a test'));
  const jobId = await result;
  const at = Date.now();
  await followUp;
  return { workflowId: job.workflowId, jobId, at };
}

/** From the moment that the upstream shows the end until the caller has the result. */
async function detectionMs({ upstream }: Bench, { activeMs }: JobsWork, ended: EndedJob[]): Promise<number[]> {
  const createdAt = await upstream.createdAt();
  return ended.map(({ jobId, at }) => at - ((createdAt.get(jobId) ?? NaN) + activeMs));
}

async function historySizes({ temporal }: Bench, ended: EndedJob[]): Promise<Figures> {
  const described = await Promise.all(
    ended
      .slice(0, SAMPLED_HISTORIES)
      .map(({ workflowId }) => temporal.client.workflow.getHandle(workflowId).describe()),
  );
  return {
    'history events per job': mean(described.map(({ historyLength }) => historyLength)),
    'history bytes per job': mean(described.map(({ historySize }) => historySize ?? 0)),
  };
}

async function idleRate(bench: Bench, worker: ManagedProcess): Promise<number> {
  const before = cpuUse(bench, worker);
  await pause(IDLE_LOOK_MS);
  return cpuBetween(before, cpuUse(bench, worker)).all / (IDLE_LOOK_MS / 1_000);
}

function perSecond(n: number, wallMs: number): number {
  return n / (wallMs / 1_000);
}
