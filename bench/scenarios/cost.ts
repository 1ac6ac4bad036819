/** Mixed jobs of some projects: what `agent-jobs cost` says, beside the server's own counter. */
import { setTimeout as pause } from 'node:timers/promises';
import { addCosts, readCost, type Cost } from '../../src/cli/cost-estimate.js';
import { concurrently } from '../../src/client/concurrently.js';
import { listProjectRuns } from '../../src/client/project-runs.js';
import type { AgentJobs } from '../../src/starter.js';
import type { Bench } from '../contender.js';
import type { Figures } from '../figures.js';
import { runMixedJobs } from '../mixed-jobs.js';
import { oursClient } from '../ours.js';

export interface CostWork {
  n: number;
  /** How long the longer jobs of the mix are active. */
  longMs: number;
}

/** The upstream takes only so many creates of a project at once: the jobs are of so many. */
const PROJECTS = 20;
const COUNTER_LOOK_MS = 3_000;
const READERS = 10;

/** Runs the mix, and compares. */
export async function compareCosts(bench: Bench, { n, longMs }: CostWork, tag: string): Promise<Figures> {
  const jobs = oursClient(bench);
  const since = new Date();
  const projects = Array.from({ length: PROJECTS }, (_, i) => `${tag}-${i}`);
  const before = await settledActions(bench);
  const work = { jobs, control: bench.upstream.control, projects, tag, n, longMs };
  const { projects: used } = await runMixedJobs(work);
  const counted = minus(await settledActions(bench), before);
  const costs = await costsOf(jobs, used, since);
  const estimated = costs.billableActions;
  return {
    'mixed jobs': n,
    'actions, counted by the server': counted,
    'actions, agent-jobs cost --project': estimated,
    'deviation %, agent-jobs cost --project': counted === null ? null : (100 * (estimated - counted)) / counted,
    'history events': costs.historyEvents,
  };
}

function minus(after: number | null, before: number | null): number | null {
  return after === null || before === null ? null : after - before;
}

/** The counter once it stands still: it lags behind. */
async function settledActions({ temporal }: Bench): Promise<number | null> {
  for (let before = await temporal.actions(); ;) {
    await pause(COUNTER_LOOK_MS);
    const now = await temporal.actions();
    if (now === before) return now;
    before = now;
  }
}

/** As the command adds them up. */
async function costsOf(jobs: AgentJobs, projects: readonly string[], since: Date): Promise<Cost> {
  const signal = new AbortController().signal;
  const runs = async function* () {
    for (const projectId of projects) yield* listProjectRuns(jobs.client, { projectId, since });
  };
  let sum: Cost | null = null;
  for await (const { cost } of concurrently(runs(), { limit: READERS }, ({ workflowId, runId, workflow }) =>
    readCost({ jobs, signal }, { workflowId, runIds: [runId], workflow }),
  )) {
    if (cost !== null) sum = sum === null ? cost : addCosts(sum, cost);
  }
  if (sum === null) throw new Error('Temporal lists none of the jobs');
  return sum;
}
