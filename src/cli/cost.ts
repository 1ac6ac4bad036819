/** `cost`: what jobs have cost on Temporal so far; of one, of a batch, or of a project. */
import type { Command } from 'commander';
import type { ProjectRun } from '../client/project-runs.js';
import { DAY_MS } from '../contract/shared.js';
import { addJobNameOptions, CONCURRENT_JOBS, findJob, type JobNameFlags, readBatch, readTarget } from './targets.js';
import type * as prices from './cost-estimate.js';
import type { Cost, CostRead, CostTarget } from './cost-estimate.js';
import { UsageError } from './exit.js';
import { toWholeNumber } from './options.js';
import { print, printJson, withSession, type Session } from './session.js';
import { ProgressLine } from './terminal.js';
import { countOf, fields, table } from './table.js';

const DEFAULT_DAYS = 7;
const MAX_DAYS = 3_650;
const TELL_EVERY_MS = 5_000;
const UNSEEN =
  'not counted, as they leave no trace: queries, rejected updates, what an attempt of a worker that died had sent';
const HIDDEN =
  'reads, heartbeats and turns are not counted in full: they are encrypted, and PAYLOAD_KEYS_FILE has no key for them';

interface CostFlags extends JobNameFlags {
  batch?: string;
  days?: string;
  json?: boolean;
}

/** Adds `cost`, which shows what jobs have cost on Temporal. */
export function addCost(program: Command): void {
  const command = program
    .command('cost')
    .description('tell what jobs have cost on Temporal so far (an estimate)')
    .argument('[job]', 'its workflow id, or its key where one job has it')
    .option('--batch <label>', 'of all jobs of this batch together')
    .option('--days <number>', `with --project alone: started in the last days (default: ${DEFAULT_DAYS})`)
    .option('--json', 'print a line of JSON for each workflow');
  addJobNameOptions(
    command,
    'the project of the job; alone: of all that was started of it, by type of workflow',
  ).action(async (given: string | undefined, flags: CostFlags) => {
    const read = await toQuestion(given, flags);
    await withSession(command, async (session) => {
      const question = await read(session);
      const sums = await addUp(session, question, flags.json ?? false);
      await question.check?.(sums);
      if (!flags.json) print(sums.text(question.title));
    });
  });
}

/** Whose cost is asked. */
interface Question {
  title: [label: string, value: string][];
  targets: Iterable<CostTarget> | AsyncIterable<CostTarget>;
  /** How many they are, where that is known. */
  count?: number;
  /** Leaves out a chain of runs that began before this time, in milliseconds. */
  since?: number;
  /** Throws where what was found is no answer, or notes what is missing. */
  check?: (sums: Sums) => Promise<void>;
}

/** Checks the flags; what they mean is read of Temporal. */
async function toQuestion(
  given: string | undefined,
  { days, json: _, ...named }: CostFlags,
): Promise<(session: Session) => Promise<Question>> {
  const { project, batch, key, jobId } = named;
  if (project !== undefined && (given ?? batch ?? key ?? jobId) === undefined) {
    const { checkId } = await import('../contract/input-checks.js');
    const [projectId, toldDays] = [checkId(project, '--project'), toDays(days)];
    return (session) => ofProject(session, projectId, toldDays);
  }
  if (days !== undefined) throw new UsageError('--days goes with --project alone');
  const target = await readTarget(given, named);
  if (target.batch !== null) return (session) => ofBatch(session, target.batch);
  return async (session) => {
    const { workflowId } = await findJob(session, target.job);
    return { title: [['Workflow', workflowId]], targets: [{ workflowId, workflow: 'agentJob' }], count: 1 };
  };
}

function toDays(text = String(DEFAULT_DAYS)): number {
  const rule = ` of days, 1 to ${MAX_DAYS.toLocaleString('en-US')}`;
  return toWholeNumber(text, '--days', { min: 1, max: MAX_DAYS, rule });
}

async function ofBatch({ jobs, signal }: Session, batch: string): Promise<Question> {
  const listed = await readBatch(jobs, batch, signal);
  const targets = listed.map(({ workflowId }) => ({ workflowId, workflow: 'agentJob' }) as const);
  return { title: [['Batch', batch]], targets, count: listed.length };
}

/** All workflows of a project that were started in the last days. */
async function ofProject({ jobs, signal }: Session, projectId: string, days: number): Promise<Question> {
  const { listProjectRuns, retentionDays } = await import('../client/project-runs.js');
  const since = new Date(Date.now() - days * DAY_MS);
  const check = async (sums: Sums) => {
    if (sums.isEmpty) {
      const what = `nothing of the project ${JSON.stringify(projectId)} was started`;
      throw new Error(`${what} in the last ${countOf(days, 'day')}; check the id, or give more --days`);
    }
    const kept = await retentionDays(jobs.client);
    if (kept === null || kept >= days) return;
    sums.notes.add(`closed workflows are kept for ${countOf(Math.round(kept), 'day')}: older ones are gone`);
  };
  return {
    title: [
      ['Project', projectId],
      ['Started since', since.toISOString()],
    ],
    targets: projectTargets(listProjectRuns(jobs.client, { projectId, since }, { signal })),
    since: since.getTime(),
    check,
  };
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

/** Reads each workflow, some at a time: each is some requests, so that a batch of thousands takes minutes. */
async function addUp({ jobs, signal }: Session, question: Question, isJson: boolean): Promise<Sums> {
  const { targets, count, since = 0 } = question;
  const { concurrently } = await import('../client/concurrently.js');
  const list = await import('./cost-estimate.js');
  const sums = new Sums(list);
  const progress = new ProgressLine({ everyMs: TELL_EVERY_MS });
  const reads = concurrently(targets, { limit: CONCURRENT_JOBS, signal }, async (target) => ({
    target,
    read: await list.readCost({ jobs, signal }, target).catch((error: Error): null => {
      // By name: the client's classes are loaded only when a command needs them.
      if (error.name === 'JobNotFoundError' && count !== 1) return null;
      throw error;
    }),
  }));
  let seen = 0;
  try {
    for await (const { target, read } of reads) {
      seen += 1;
      if (count === undefined) progress.show(`${countOf(seen, 'workflow')} read`);
      else if (count > 1) progress.show(`${seen} of ${countOf(count, 'job')} read`);
      const line = sums.add(target, read, since);
      if (isJson && line) printJson(line);
    }
  } finally {
    progress.clear();
  }
  return sums;
}

interface TypeCost {
  count: number;
  cost: Cost;
}

/** Adds up, by type of workflow. */
class Sums {
  readonly notes = new Set<string>();
  readonly #prices: typeof prices;
  readonly #types = new Map<string, TypeCost>();

  constructor(list: typeof prices) {
    this.#prices = list;
  }

  get isEmpty(): boolean {
    return this.#types.size === 0;
  }

  /** What it tells of one workflow; null where that has cost nothing in the time. */
  add({ workflowId, workflow, isAlone = false }: CostTarget, read: CostRead | null, since: number): object | null {
    if (read === null || read.chains.length === 0) {
      this.notes.add('what Temporal has deleted since it was listed is not counted');
      return null;
    }
    const chains = read.chains.filter(({ startedAt }) => startedAt >= since || isAlone);
    if (chains.length === 0) return null;
    const cost = chains.map((chain) => chain.cost).reduce(this.#prices.addCosts);
    const earlier = read.isComplete ? [] : ['earlier runs are no longer kept'];
    const notes = [UNSEEN, ...earlier, ...(read.isHidden ? [HIDDEN] : [])];
    for (const note of notes) this.notes.add(note);
    const sum = this.#types.get(workflow);
    this.#types.set(workflow, this.#plus(sum, { count: 1, cost }));
    return { workflowId, workflow, ...cost, notes, source: this.#prices.COST_SOURCE };
  }

  /** For people: by type of workflow, and by kind of action. */
  text(title: Question['title']): string {
    const types = [...this.#types].sort(([a], [b]) => (a < b ? -1 : 1));
    const [first, ...others] = types.map(([, one]) => one);
    if (first === undefined) return fields(title);
    const all = others.reduce<TypeCost>((sum, one) => this.#plus(sum, one), first);
    const rows = others.length === 0 ? types : [...types, ['all', all] as const];
    const notes = [`estimated by ${this.#prices.COST_SOURCE}`, ...this.notes].map((note) => `(${note})`);
    return [fields(title), '', typeTable(rows), '', this.#kindTable(all.cost), ...notes].join('\n');
  }

  #plus(sum: TypeCost | undefined, { count, cost }: TypeCost): TypeCost {
    if (sum === undefined) return { count, cost };
    return { count: sum.count + count, cost: this.#prices.addCosts(sum.cost, cost) };
  }

  #kindTable({ actions }: Cost): string {
    const jobs = this.#types.get('agentJob')?.count ?? 0;
    const counted = Object.entries(actions).filter(([, count]) => count > 0);
    const rows = counted.map(([kind, count]) => [
      kind.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`),
      number(count),
      ...(jobs > 0 ? [each(count, jobs)] : []),
    ]);
    return table(['BILLABLE ACTIONS', 'ALL', ...(jobs > 0 ? ['PER JOB'] : [])], rows);
  }
}

function typeTable(types: readonly (readonly [workflow: string, TypeCost])[]): string {
  const headings = ['WORKFLOW', 'COUNT', 'RUNS', 'EVENTS', 'BYTES', 'READS', 'ACTIONS', 'ACTIONS EACH'];
  const rows = types.map(([workflow, { count, cost }]) => [
    workflow,
    ...[count, cost.runs, cost.historyEvents, cost.historyBytes, cost.reads, cost.billableActions].map(number),
    each(cost.billableActions, count),
  ]);
  return table(headings, rows);
}

/** `1,234`. */
function number(value: number): string {
  return value.toLocaleString('en-US');
}

function each(value: number, count: number): string {
  return (value / count).toFixed(1);
}
