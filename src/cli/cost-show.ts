/** Shows what workflows cost: one job, those of a batch, or those of a project. */
import type { ProjectRun } from '../client/project-runs.js';
import { readBatch, CONCURRENT_JOBS } from './batch.js';
import { addCosts, COSTED_WORKFLOWS, estimateChains, type CostedWorkflow, type JobCost } from './cost-estimate.js';
import { readCost, type CostRead, type CostTarget } from './cost-read.js';
import { COST_SOURCE, costText, projectCostText, type TypeCost } from './cost-text.js';
import { ProgressLine } from './progress-line.js';
import { print, printJson, type Session } from './session.js';
import { countOf } from './text.js';

const TELL_EVERY_MS = 5_000;
const DAY_MS = 86_400_000;

/** No workflow of the project was started in the time. */
class NoProjectRunsError extends Error {
  override readonly name = 'NoProjectRunsError';
}

const HIDDEN =
  'reads, heartbeats and turns are not counted in full: they are encrypted, and PAYLOAD_KEYS_FILE has no key for them';

/** What the estimate of a workflow leaves out. */
function notesOn({ isComplete, isHidden }: Pick<CostRead, 'isComplete' | 'isHidden'>): string[] {
  return [
    'not counted, as they leave no trace: queries, rejected updates, what an attempt of a worker that died had sent',
    ...(isComplete ? [] : ['earlier runs are no longer kept']),
    ...(isHidden ? [HIDDEN] : []),
  ];
}

/** Of one job. */
export async function showJobCost(session: Session, workflowId: string, isJson: boolean): Promise<void> {
  const read = await readCost(session, { workflowId, workflow: 'agentJob' });
  const cost = estimateChains(read.chains);
  const notes = notesOn(read);
  if (isJson) printJson({ workflowId, ...cost, notes, source: COST_SOURCE });
  else print(costText([['Workflow', workflowId]], cost, notes));
}

/** Each job is some requests: a batch of thousands takes minutes. */
export async function showBatchCost(session: Session, batch: string, isJson: boolean): Promise<void> {
  const listed = await readBatch(session.jobs, batch, session.signal);
  const targets = listed.map(({ workflowId }) => ({ workflowId, workflow: 'agentJob' }) as const);
  const sums = await addUp(session, targets, { isJson, of: ` of ${countOf(listed.length, 'job')}` });
  const sum = sums.sum();
  if (isJson || sum === null) return;
  const whose = [['Batch', batch] as const, ['Jobs', String(sums.count)] as const];
  print(costText(whose, sum, sums.notes));
}

/** All workflows of a project that were started in the last days. */
export async function showProjectCost(
  session: Session,
  { projectId, days }: { projectId: string; days: number },
  isJson: boolean,
): Promise<void> {
  const { listProjectRuns, retentionDays } = await import('../client/project-runs.js');
  const { jobs, signal } = session;
  const since = new Date(Date.now() - days * DAY_MS);
  const sums = await addUp(session, projectTargets(listProjectRuns(jobs.client, { projectId, since }, { signal })), {
    isJson,
    since: since.getTime(),
  });
  const sum = sums.sum();
  if (sum === null) {
    const when = `in the last ${countOf(days, 'day')}`;
    throw new NoProjectRunsError(
      `nothing of the project ${JSON.stringify(projectId)} was started ${when}; check the id, or give more --days`,
    );
  }
  if (isJson) return;
  const kept = await retentionDays(jobs.client);
  if (kept !== null && kept < days)
    sums.notes.add(`closed workflows are kept for ${countOf(Math.round(kept), 'day')}: older ones are gone`);
  const whose = [['Project', projectId] as const, ['Started since', since.toISOString()] as const];
  print(projectCostText(whose, { byType: sums.byType(), sum }, sums.notes));
}

/** A job may have several chains of runs: it is told once they are all listed. */
async function* projectTargets(runs: AsyncIterable<ProjectRun>): AsyncGenerator<CostTarget, void, undefined> {
  const chainsOf = new Map<string, string[]>();
  for await (const { workflowId, runId, workflow } of runs) {
    if (workflow === 'agentJob') chainsOf.set(workflowId, [...(chainsOf.get(workflowId) ?? []), runId]);
    else yield { workflowId, runIds: [runId], workflow, isAlone: workflow === 'requestQueue' };
  }
  for (const [workflowId, runIds] of chainsOf) yield { workflowId, runIds, workflow: 'agentJob' };
}

interface AddUpOptions {
  /** Prints a line for each workflow. */
  isJson: boolean;
  /** Ends the line of progress, where it is known how many there are. */
  of?: string;
  /** Leaves out a chain of runs that began before this time, in milliseconds. */
  since?: number;
}

/** Reads each workflow, some at a time. */
async function addUp(
  { jobs, signal }: Session,
  targets: Iterable<CostTarget> | AsyncIterable<CostTarget>,
  { isJson, of = '', since = 0 }: AddUpOptions,
): Promise<Sums> {
  const { concurrently } = await import('../client/concurrently.js');
  const sums = new Sums();
  const progress = new ProgressLine({ everyMs: TELL_EVERY_MS });
  const read = concurrently(targets, { limit: CONCURRENT_JOBS, signal }, async (target) => ({
    target,
    read: await readCost({ jobs, signal }, target).catch(whereGone),
  }));
  let seen = 0;
  try {
    for await (const { target, read: found } of read) {
      seen += 1;
      progress.show(`${of === '' ? countOf(seen, 'workflow') : seen}${of} read`);
      if (found === null) sums.notes.add('what Temporal has deleted since it was listed is not counted');
      else {
        const chains = found.chains.filter(({ startedAt }) => startedAt >= since || target.isAlone);
        if (chains.length === 0) continue;
        const cost = estimateChains(chains);
        const notes = notesOn(found);
        sums.add(target.workflow, cost, notes);
        const { workflowId, workflow } = target;
        const type = since > 0 ? { workflow } : {};
        if (isJson) printJson({ workflowId, ...type, ...cost, notes, source: COST_SOURCE });
      }
    }
  } finally {
    progress.clear();
  }
  return sums;
}

/** By name: the client's classes are loaded only when a command needs them. */
function whereGone(error: Error): null {
  if (error.name === 'JobNotFoundError' || error.name === 'WorkflowNotFoundError') return null;
  throw error;
}

class Sums {
  readonly notes = new Set<string>();
  readonly #types = new Map<CostedWorkflow, TypeCost>();

  get count(): number {
    return this.byType().reduce((all, { count }) => all + count, 0);
  }

  add(workflow: CostedWorkflow, cost: JobCost, notes: readonly string[]): void {
    notes.forEach((note) => this.notes.add(note));
    const before = this.#types.get(workflow);
    this.#types.set(workflow, {
      workflow,
      count: (before?.count ?? 0) + 1,
      cost: before ? addCosts(before.cost, cost) : cost,
    });
  }

  /** In the order of `COSTED_WORKFLOWS`. */
  byType(): TypeCost[] {
    return COSTED_WORKFLOWS.flatMap((workflow) => this.#types.get(workflow) ?? []);
  }

  /** Null where there is none. */
  sum(): JobCost | null {
    return this.byType()
      .map(({ cost }) => cost)
      .reduce<JobCost | null>((all, cost) => (all === null ? cost : addCosts(all, cost)), null);
  }
}
