/** Runs a number of jobs at once, measures their cost, and says what the jobs of each scenario do. */
import { setTimeout as pause } from 'node:timers/promises';
import type { ManagedProcess } from '../src/local/child-process.js';
import type { Bench, Contender, Polling } from './contenders.js';
import type { Options } from './options.js';
import { cpuMs, ownCpuMs, watchMemory } from './processes.js';
import { mean, quantile, type Figures, type Measured, uniqueTag } from './results.js';

interface JobsWork {
  /** The scenario's name. */
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
    'jobs per second': work.n / (wallMs / 1_000),
    'CPU ms per job': perJob(cpu.all),
    'CPU ms per job, caller': perJob(cpu.caller),
    'CPU ms per job, worker': perJob(cpu.worker),
    'CPU ms per job, server': perJob(cpu.server),
    'detection p50 ms': quantile(latencies, 0.5),
    'detection p95 ms': quantile(latencies, 0.95),
    'polls per job': perJob(requests.get),
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
  const job = await contender.start(bench, key, work.polling);
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

const every = (ms: number) => ({ min: ms, max: ms, ratio: 0 });

/** Jobs that start at once and end almost at once: throughput, and the cost of a job with one poll. */
export function drain({ n }: Pick<Options, 'n'>): JobsWork {
  // A job that is done in its create's answer would not be polled at all.
  return { name: 'drain', n, polling: every(1_000), activeMs: 10 };
}

/** Few jobs with many polls, one every 2 seconds: latency without saturation, and the cost of a further poll. */
export function steady({ steady: n, steadyMs: activeMs }: Options): JobsWork {
  return { name: 'steady', n, polling: every(2_000), activeMs };
}

/** A typical job: ten minutes, the default polling plan, one follow-up half way. */
export function tenMinutes({ ten: n, tenMs: activeMs }: Options): JobsWork {
  const polling = { min: 2_000, max: 60_000, ratio: 0.1 };
  return { name: 'ten minutes', n, polling, activeMs, followUpAfterMs: activeMs / 2 };
}

/** The cost of a further poll: steady minus drain, per poll of difference; CPU without that of idle processes. */
export function furtherPoll(few: Measured, many: Measured): Measured {
  const polls = figure(many, 'polls per job') - figure(few, 'polls per job');
  const perPoll = (of: (measured: Measured) => number) => (of(many) - of(few)) / polls;
  const figures: Figures = {
    'CPU ms': perPoll(busyCpuMs),
    'history events': perPoll((measured) => figure(measured, 'history events per job')),
    'history bytes': perPoll((measured) => figure(measured, 'history bytes per job')),
    'billable actions': perPoll((measured) => figure(measured, 'billable actions per job')),
  };
  return { ...many, scenario: 'a further poll', figures };
}

function busyCpuMs(measured: Measured): number {
  const jobs = (figure(measured, 'jobs per second') * figure(measured, 'wall ms')) / 1_000;
  const idleMs = (figure(measured, 'idle CPU ms per second') * figure(measured, 'wall ms')) / 1_000;
  return figure(measured, 'CPU ms per job') - idleMs / jobs;
}

function figure({ figures }: Measured, name: string): number {
  return figures[name] ?? NaN;
}
