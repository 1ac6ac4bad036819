/** `cost`: what jobs have cost on Temporal so far; of one, of a batch, or of a project. */
import type { Command } from 'commander';
import type { ProjectRun } from '../client/project-runs.js';
import { CONCURRENT_JOBS, readBatch, readTarget } from './batch.js';
import type * as prices from './cost-estimate.js';
import type { ActionKind, CostedWorkflow, JobCost } from './cost-estimate.js';
import type { CostRead, CostTarget } from './cost-read.js';
import { UsageError } from './exit.js';
import { findJob } from './job-name.js';
import { ProgressLine } from './terminal.js';
import { print, printJson, type Session, withSession } from './session.js';
import { countOf, fields, table } from './text.js';

const DEFAULT_DAYS = 7;
const MAX_DAYS = 3_650;
const DAY_MS = 86_400_000;
const TELL_EVERY_MS = 5_000;
const HIDDEN =
  'reads, heartbeats and turns are not counted in full: they are encrypted, and PAYLOAD_KEYS_FILE has no key for them';

interface CostFlags {
  batch?: string;
  project?: string;
  days?: string;
  json?: boolean;
}

/** No workflow of the project was started in the time. */
class NoProjectRunsError extends Error {
  override readonly name = 'NoProjectRunsError';
}

/** Adds `cost`, which shows what jobs have cost on Temporal. */
export function addCost(program: Command): void {
  const command = program
    .command('cost')
    .description('tell what jobs have cost on Temporal so far: history, and billable actions (an estimate)')
    .argument('[workflow-id]', 'the job')
    .option('--batch <label>', 'of all jobs of this batch together')
    .option('--project <id>', 'of all that was started of this project, by type of workflow')
    .option('--days <number>', `with --project: started in the last days (default: ${DEFAULT_DAYS})`)
    .option('--json', 'print a line of JSON for each workflow')
    .action((given: string | undefined, flags: CostFlags) => cost(command, given, flags));
}

async function cost(command: Command, given: string | undefined, flags: CostFlags): Promise<void> {
  const { json: isJson = false, project, days, batch } = flags;
  if (project === undefined && days !== undefined) throw new UsageError('--days goes with --project');
  if ([given, batch, project].filter((named) => named !== undefined).length !== 1) {
    throw new UsageError('give a workflow id, --batch or --project, one of the three');
  }
  if (project !== undefined) {
    const { checkId } = await import('../contract/input-checks.js');
    const asked = { projectId: checkId(project, '--project'), days: toDays(days) };
    return withSession(command, (session) => showProjectCost(session, asked, isJson));
  }
  const target = await readTarget(given, { batch });
  await withSession(command, async (session) => {
    if (target.batch !== null) return showBatchCost(session, target.batch, isJson);
    const { workflowId } = await findJob(session, target.job);
    const { readCost } = await import('./cost-read.js');
    const sums = await Sums.create(isJson);
    const job = { workflowId, workflow: 'agentJob' } as const;
    sums.add(job, await readCost(session, job));
    sums.print([['Workflow', workflowId]]);
  });
}

function toDays(text: string | undefined): number {
  if (text === undefined) return DEFAULT_DAYS;
  const days = Number(text);
  if (/^\d+$/.test(text) && days >= 1 && days <= MAX_DAYS) return days;
  throw new UsageError(`--days must be a whole number of days, 1 to ${MAX_DAYS.toLocaleString('en-US')}`);
}

/** Each job is some requests: a batch of thousands takes minutes. */
async function showBatchCost(session: Session, batch: string, isJson: boolean): Promise<void> {
  const listed = await readBatch(session.jobs, batch, session.signal);
  const targets = listed.map(({ workflowId }) => ({ workflowId, workflow: 'agentJob' }) as const);
  const sums = await addUp(session, targets, { isJson, of: ` of ${countOf(listed.length, 'job')}` });
  sums.print([['Batch', batch]]);
}

/** All workflows of a project that were started in the last days. */
async function showProjectCost(
  session: Session,
  { projectId, days }: { projectId: string; days: number },
  isJson: boolean,
): Promise<void> {
  const { listProjectRuns, retentionDays } = await import('../client/project-runs.js');
  const { jobs, signal } = session;
  const since = new Date(Date.now() - days * DAY_MS);
  const targets = projectTargets(listProjectRuns(jobs.client, { projectId, since }, { signal }));
  const sums = await addUp(session, targets, { isJson, since: since.getTime() });
  if (sums.isEmpty) {
    const when = `in the last ${countOf(days, 'day')}`;
    throw new NoProjectRunsError(
      `nothing of the project ${JSON.stringify(projectId)} was started ${when}; check the id, or give more --days`,
    );
  }
  const kept = await retentionDays(jobs.client);
  if (kept !== null && kept < days)
    sums.notes.add(`closed workflows are kept for ${countOf(Math.round(kept), 'day')}: older ones are gone`);
  sums.print([
    ['Project', projectId],
    ['Started since', since.toISOString()],
  ]);
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
  const { readCost } = await import('./cost-read.js');
  const sums = await Sums.create(isJson);
  const progress = new ProgressLine({ everyMs: TELL_EVERY_MS });
  const read = concurrently(targets, { limit: CONCURRENT_JOBS, signal }, async (target) => ({
    target,
    read: await readCost({ jobs, signal }, target).catch(nullIfGone),
  }));
  let seen = 0;
  try {
    for await (const { target, read: found } of read) {
      seen += 1;
      progress.show(`${of === '' ? countOf(seen, 'workflow') : seen}${of} read`);
      if (found === null) sums.notes.add('what Temporal has deleted since it was listed is not counted');
      else {
        const chains = found.chains.filter(({ startedAt }) => startedAt >= since || target.isAlone);
        if (chains.length > 0) sums.add(target, { ...found, chains });
      }
    }
  } finally {
    progress.clear();
  }
  return sums;
}

/** By name: the client's classes are loaded only when a command needs them. */
function nullIfGone(error: Error): null {
  if (error.name === 'JobNotFoundError' || error.name === 'WorkflowNotFoundError') return null;
  throw error;
}

/** What the workflows of one type cost together. */
interface TypeCost {
  workflow: CostedWorkflow | 'all';
  count: number;
  cost: JobCost;
}

/** Adds up, by type of workflow; with `--json` each workflow is a line as it comes. */
class Sums {
  readonly notes = new Set<string>();
  readonly #isJson: boolean;
  readonly #prices: typeof prices;
  readonly #types = new Map<string, TypeCost>();

  private constructor(isJson: boolean, list: typeof prices) {
    this.#isJson = isJson;
    this.#prices = list;
  }

  static async create(isJson: boolean): Promise<Sums> {
    return new Sums(isJson, await import('./cost-estimate.js'));
  }

  get isEmpty(): boolean {
    return this.#types.size === 0;
  }

  add({ workflowId, workflow }: CostTarget, read: CostRead): void {
    const notes = notesOn(read);
    const found = this.#prices.estimateChains(read.chains);
    if (this.#isJson) printJson({ workflowId, workflow, ...found, notes, source: this.#prices.COST_SOURCE });
    notes.forEach((note) => this.notes.add(note));
    this.#types.set(workflow, this.#plus(this.#types.get(workflow), { workflow, count: 1, cost: found }));
  }

  /** For people: by type of workflow, and by kind of action. */
  print(whose: readonly (readonly [label: string, value: string])[]): void {
    const byType = this.#prices.COSTED_WORKFLOWS.flatMap((workflow) => this.#types.get(workflow) ?? []);
    const [first, ...others] = byType;
    if (this.#isJson || first === undefined) return;
    const all = others.reduce((sum, one) => this.#plus(sum, one), { ...first, workflow: 'all' as const });
    const rows = others.length === 0 ? byType : [...byType, all];
    const notes = [`estimated by ${this.#prices.COST_SOURCE}`, ...this.notes].map((note) => `(${note})`);
    print([fields(whose), '', typeTable(rows), '', this.#kindTable(all), ...notes].join('\n'));
  }

  #plus(sum: TypeCost | undefined, { workflow, count, cost: one }: TypeCost): TypeCost {
    if (sum === undefined) return { workflow, count, cost: one };
    return { ...sum, count: sum.count + count, cost: this.#prices.addCosts(sum.cost, one) };
  }

  #kindTable({ cost: { actions } }: TypeCost): string {
    const jobs = this.#types.get('agentJob')?.count ?? 0;
    const kinds = Object.entries(this.#prices.ACTION_KINDS) as [ActionKind, string][];
    const rows = kinds.flatMap(([kind, label]) =>
      actions[kind] > 0 ? [[label, number(actions[kind]), ...perJob(actions[kind], jobs)]] : [],
    );
    return table(['BILLABLE ACTIONS', 'ALL', ...(jobs > 0 ? ['PER JOB'] : [])], rows);
  }
}

/** What the estimate of a workflow leaves out. */
function notesOn({ isComplete, isHidden }: CostRead): string[] {
  return [
    'not counted, as they leave no trace: queries, rejected updates, what an attempt of a worker that died had sent',
    ...(isComplete ? [] : ['earlier runs are no longer kept']),
    ...(isHidden ? [HIDDEN] : []),
  ];
}

function typeTable(rows: readonly TypeCost[]): string {
  const headings = ['WORKFLOW', 'COUNT', 'RUNS', 'EVENTS', 'BYTES', 'READS', 'ACTIONS', 'ACTIONS EACH'];
  const cells = rows.map(({ workflow, count, cost }) => [
    workflow,
    ...[count, cost.runs, cost.historyEvents, cost.historyBytes, cost.reads, cost.billableActions].map(number),
    ...perJob(cost.billableActions, count),
  ]);
  return table(headings, cells);
}

/** `1,234`. */
function number(value: number): string {
  return value.toLocaleString('en-US');
}

function perJob(value: number, jobs: number): string[] {
  return jobs > 0 ? [(value / jobs).toFixed(1)] : [];
}
