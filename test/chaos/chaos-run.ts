/**
 * One run of the crash suite: start everything, load it, disturb it, let it calm down, compare with the upstream's
 * journal.
 */
import { setMaxListeners } from 'node:events';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { AgentJobs } from '../../src/starter.js';
import { agentJobWorkflowId } from '../../src/contract.js';
import { SANDBOX_API_KEY, type FaultRule } from '../../src/testing.js';
import { audit, auditQueues, type AuditResult, type JobCase } from './audit.js';
import { UpstreamJournal } from './upstream-journal.js';
import { Caller, type CallerRecord } from './caller.js';
import { buildsOf } from './builds.js';
import { disturb } from './disturbance.js';
import { ACTIVE_MS } from './faults.js';
import { Draw } from './draw.js';
import type { RunSummary } from './run-summary.js';
import { planJob, type JobPlan } from './job-plan.js';
import { Operator } from './operator.js';
import { planWorkerFaults } from './worker-fault.js';
import { summarizeQueues, summarizeRuns } from './run-summary.js';
import { budgetSettings, rateLimits, type ShortBudget, terminateQueue } from './short-budget.js';
import { count, tally } from './tally.js';
import type { KillableTemporal } from './temporal-server.js';
import { UpstreamProcess } from './upstream-process.js';
import { WorkerFleet } from './worker-fleet.js';

// Hundreds of calls wait on the same few signals.
setMaxListeners(0);

export interface ChaosOptions {
  seed: number;
  /** How long new jobs are started. */
  loadMs: number;
  /** Ends the load earlier. */
  maxJobs?: number;
  /** Jobs under way at once. */
  concurrency: number;
  workers: number;
  faults: readonly FaultRule[];
  /** Mean pause between two faults of whole processes. */
  disturbEveryMs: number;
  /** Each worker gets a fault at one of its first writes, up to this number. */
  workerFaultWithin: number;
  /** Whether workers are suspended too: to some, clocks stand still over a stop. */
  suspends: boolean;
  upstreamTimeout: string;
  /** The upstream takes few writes an hour, and the hour is short; not limited if absent. */
  budget?: ShortBudget | undefined;
  /** A checkout that was built: half of the workers are of it, as in a roll-out that goes back and forth. */
  otherBuild?: string | undefined;
  /** How long the jobs may take to end once nothing disturbs them any more. */
  calmMs: number;
  say: (line: string) => void;
}

export interface ChaosReport extends AuditResult {
  seed: number;
  jobs: number;
  writes: number;
  seconds: number;
  /** Faults of processes, and those that the upstream injected. */
  faults: Map<string, number>;
  endings: Map<string, number>;
  /** Writes in doubt, all policies. */
  inDoubt: number;
  /** How many writes were put before a person for each reason why they were in doubt. */
  asked: Map<string, number>;
  summaries: RunSummary[];
  workersStarted: number;
}

export async function runChaos(temporal: KillableTemporal, options: ChaosOptions): Promise<ChaosReport> {
  const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-chaos-'));
  const run = await ChaosRun.start(temporal, options, folder);
  try {
    return await run.complete();
  } finally {
    await run.close();
  }
}

interface StartedParts {
  folder: string;
  runName: string;
  upstream: UpstreamProcess;
  connection: Connection;
  settings: Record<string, string> | undefined;
  programs: string[] | undefined;
}

class ChaosRun {
  readonly #temporal: KillableTemporal;
  readonly #options: ChaosOptions;
  readonly #runName: string;
  readonly #connection: Connection;
  readonly #client: Client;
  readonly #jobs: AgentJobs;
  readonly #upstream: UpstreamProcess;
  readonly #fleet: WorkerFleet;
  readonly #journal: UpstreamJournal;
  readonly #operator: Operator;
  readonly #plans = new Map<string, JobPlan>();
  readonly #startedAt = Date.now();

  static async start(temporal: KillableTemporal, options: ChaosOptions, folder: string): Promise<ChaosRun> {
    const { seed, faults, budget, otherBuild } = options;
    const runName = `chaos-${seed}-${Date.now().toString(36)}`;
    const limits = budget && ((start: number) => rateLimits(seed, start, budget));
    const upstream = await UpstreamProcess.start({ folder, activeMs: ACTIVE_MS, faults, rateLimits: limits });
    const settings = budget && (await budgetSettings(folder, runName, budget));
    const programs = await buildsOf(folder, budget?.hourMs, otherBuild);
    const connection = await Connection.connect({ address: temporal.address });
    options.say(`seed ${seed}, files in ${folder}`);
    return new ChaosRun(temporal, options, { folder, runName, upstream, connection, settings, programs });
  }

  private constructor(
    temporal: KillableTemporal,
    options: ChaosOptions,
    { folder, runName, upstream, connection, settings, programs }: StartedParts,
  ) {
    this.#temporal = temporal;
    this.#options = options;
    this.#runName = runName;
    this.#connection = connection;
    this.#client = new Client({ connection, namespace: temporal.namespace });
    this.#jobs = new AgentJobs({ client: this.#client, taskQueue: this.#runName });
    this.#upstream = upstream;
    this.#journal = new UpstreamJournal(upstream.journal);
    this.#fleet = new WorkerFleet({
      workers: options.workers,
      folder,
      env: {
        TEMPORAL_ADDRESS: temporal.address,
        TEMPORAL_NAMESPACE: temporal.namespace,
        AGENT_JOBS_TASK_QUEUE: this.#runName,
        UPSTREAM_BASE_URL: upstream.url,
        UPSTREAM_TIMEOUT: options.upstreamTimeout,
        ADMIN_API_KEY: SANDBOX_API_KEY,
        LOG_LEVEL: 'warn',
        ...settings,
      },
      programs,
      workerFault: planWorkerFaults(options),
    });
    this.#operator = new Operator({
      jobs: this.#jobs,
      journal: this.#journal,
      promptOf: (workflowId, followUpId) => this.#promptOf(workflowId, followUpId),
      isUpstreamUp: () => upstream.control.counts(),
      seed: options.seed,
      waitsToLook: options.suspends,
    });
  }

  async complete(): Promise<ChaosReport> {
    const { seed, loadMs, disturbEveryMs, calmMs, budget, say } = this.#options;
    const queues = new Draw(seed, 'queues');
    this.#operator.start();
    const overload = new AbortController();
    const giveUp = new AbortController();
    const progress = setInterval(() => this.#sayProgress(), 30_000);
    const parts = {
      fleet: this.#fleet,
      temporal: this.#temporal,
      upstream: this.#upstream,
      workers: this.#options.workers,
      terminateQueue: budget && (() => terminateQueue(this.#client, this.#runName, queues)),
    };
    const disturbing = disturb(parts, seed, disturbEveryMs, overload.signal);
    const timer = setTimeout(() => overload.abort(), loadMs);
    const callers = await this.#load(overload.signal, giveUp.signal);
    overload.abort();
    clearTimeout(timer);
    const disturbances = await disturbing;
    this.#fleet.calm();
    await this.#upstream.calm();
    say(`${callers.length} jobs started; nothing disturbs them any more`);
    const limit = setTimeout(() => giveUp.abort(), calmMs);
    const records = await Promise.all(callers);
    clearTimeout(limit);
    clearInterval(progress);
    return this.#compare(records, disturbances);
  }

  async close(): Promise<void> {
    await this.#operator.close();
    await this.#fleet.close();
    await this.#upstream.close();
    await this.#connection.close();
  }

  /** Starts callers, at most so many at a time, until the signal or until the last of them has finished. */
  async #load(until: AbortSignal, giveUp: AbortSignal): Promise<Promise<CallerRecord>[]> {
    const { concurrency, maxJobs = Infinity } = this.#options;
    const callers: Promise<CallerRecord>[] = [];
    let underWay = 0;
    while (!until.aborted) {
      if (underWay < concurrency && callers.length < maxJobs) {
        underWay += 1;
        callers.push(this.#call(callers.length + 1, giveUp).finally(() => (underWay -= 1)));
        await pause(5);
      } else if (underWay === 0) break;
      else await pause(20);
    }
    return callers;
  }

  #call(number: number, giveUp: AbortSignal): Promise<CallerRecord> {
    const { seed, budget } = this.#options;
    const plan = planJob({ seed, runName: this.#runName, isBudgetShort: budget !== undefined }, number);
    this.#plans.set(agentJobWorkflowId(plan.projectId, plan.key), plan);
    const { address, namespace } = this.#temporal;
    const place = { address, namespace, taskQueue: this.#runName };
    return new Caller({ jobs: this.#jobs, place }, plan, giveUp).run();
  }

  #promptOf(workflowId: string, followUpId: string | undefined): string {
    const plan = this.#plans.get(workflowId);
    if (followUpId === undefined) return plan?.prompt ?? '';
    return plan?.followUps.find(({ id }) => id === followUpId)?.prompt ?? '';
  }

  async #compare(records: CallerRecord[], disturbances: Map<string, number>): Promise<ChaosReport> {
    this.#options.say('comparing with the journal of the upstream');
    const summaries = await summarizeRuns(this.#client, this.#runName);
    await this.#operator.close();
    this.#journal.refresh();
    const runsOf = new Map<string, RunSummary[]>();
    for (const summary of summaries.toSorted((a, b) => a.startedAt - b.startedAt)) {
      runsOf.set(summary.workflowId, [...(runsOf.get(summary.workflowId) ?? []), summary]);
    }
    const cases: JobCase[] = records.map((caller) => ({ caller, runs: runsOf.get(caller.workflowId) ?? [] }));
    for (const fault of this.#fleet.workerFaults()) count(disturbances, `worker: ${fault}`);
    const result = audit(cases, this.#journal);
    result.violations.push(...auditQueues(await summarizeQueues(this.#client, this.#runName)));
    return {
      ...result,
      seed: this.#options.seed,
      jobs: records.length,
      writes: records.reduce((sum, { accepted }) => sum + 1 + accepted.length, 0),
      seconds: (Date.now() - this.#startedAt) / 1_000,
      faults: new Map([...disturbances, ...this.#upstream.injectedFaults]),
      endings: tally(records.map(({ ending }) => ending ?? 'not known')),
      inDoubt: summaries.flatMap(({ inDoubt }) => inDoubt).length,
      asked: tally([...this.#operator.shown.values()].map(({ unknown }) => unknown.reason)),
      summaries,
      workersStarted: this.#fleet.started,
    };
  }

  #sayProgress(): void {
    this.#journal.refresh();
    const seconds = Math.round((Date.now() - this.#startedAt) / 1_000);
    const { jobs, messages } = this.#journal;
    this.#options.say(
      `${seconds} s: ${this.#plans.size} jobs started, upstream has ${jobs} jobs and ${messages} messages, ` +
        `${this.#operator.shown.size} writes in doubt shown, ${this.#fleet.started} worker processes`,
    );
  }
}
