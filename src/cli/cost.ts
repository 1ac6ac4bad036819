/** `cost`: what jobs have cost on Temporal so far; of one, of a batch, or of a project. */
import type { Command } from 'commander';
import { concurrently } from '../client/concurrently.js';
import type { ProjectRun } from '../client/project-runs.js';
import { DAY_MS } from '../contract/shared.js';
import { addJobNameOptions, findJob, type JobNameFlags, readBatch, readTarget } from './targets.js';
import type { Cost, CostTarget } from './cost-estimate.js';
import { UsageError } from './exit.js';
import { toWholeNumber } from './options.js';
import { print, printJson, withSession, type Session } from './session.js';
import { ProgressLine } from './terminal.js';
import { countOf, fields, table } from './table.js';

const DEFAULT_DAYS = 7;
const MAX_DAYS = 3_650;
const TELL_EVERY_MS = 5_000;

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
  ).action(async (given: string | undefined, { json = false, ...flags }: CostFlags) => {
    const toQuestion = await readQuestion(given, flags);
    await withSession(command, async (session) => {
      const question = await toQuestion(session);
      const sums = await addUp(session, question, json);
      if (sums.types.size === 0 && question.nothing !== undefined) throw new Error(question.nothing);
      if (!json) print(textOf(question, sums));
    });
  });
}

/** Whose cost is asked. */
interface Question {
  title: [label: string, value: string][];
  targets: Iterable<CostTarget> | AsyncIterable<CostTarget>;
  isOneJob?: boolean;
  /** What the answer leaves out. */
  note?: string | undefined;
  /** The error where nothing was found. */
  nothing?: string;
}

/** Checks the flags; what they mean is read of Temporal. */
async function readQuestion(
  given: string | undefined,
  { days, ...named }: CostFlags,
): Promise<(session: Session) => Promise<Question>> {
  const { project, batch, key, jobId } = named;
  if (project !== undefined && (given ?? batch ?? key ?? jobId) === undefined) {
    const { checkId } = await import('../contract/input-checks.js');
    const projectId = checkId(project, '--project');
    const rule = ` of days, 1 to ${MAX_DAYS.toLocaleString('en-US')}`;
    const asked = toWholeNumber(days ?? String(DEFAULT_DAYS), '--days', { min: 1, max: MAX_DAYS, rule });
    return (session) => ofProject(session, projectId, asked);
  }
  if (days !== undefined) throw new UsageError('--days goes with --project alone');
  const target = await readTarget(given, named);
  const workflow = 'agentJob';
  if (target.batch === null) {
    return async (session) => {
      const { workflowId } = await findJob(session, target.job);
      return { title: [['Workflow', workflowId]], targets: [{ workflowId, workflow }], isOneJob: true };
    };
  }
  return async ({ jobs, signal }) => {
    const listed = await readBatch(jobs, target.batch, signal);
    const targets = listed.map(({ workflowId }) => ({ workflowId, workflow, isListed: true }) as const);
    return { title: [['Batch', target.batch]], targets };
  };
}

/** All workflows of a project that were started in the last days. */
async function ofProject({ jobs, signal }: Session, projectId: string, days: number): Promise<Question> {
  const { listProjectRuns, retentionDays } = await import('../client/project-runs.js');
  const since = new Date(Date.now() - days * DAY_MS);
  const kept = await retentionDays(jobs.client);
  const what = `nothing of the project ${JSON.stringify(projectId)} was started in the last ${countOf(days, 'day')}`;
  return {
    title: [
      ['Project', projectId],
      ['Started since', since.toISOString()],
    ],
    targets: projectTargets(listProjectRuns(jobs.client, { projectId, since }, { signal }), since.getTime()),
    note:
      kept === null || kept >= days
        ? undefined
        : `closed workflows are kept for ${countOf(Math.round(kept), 'day')}: older ones are gone`,
    nothing: `${what}; check the id, or give more --days`,
  };
}

/** A job may have several chains of runs: it is told once they are all listed. */
async function* projectTargets(runs: AsyncIterable<ProjectRun>, since: number): AsyncGenerator<CostTarget> {
  const chainsOf = new Map<string, string[]>();
  for await (const { workflowId, runId, workflow } of runs) {
    if (workflow === 'agentJob') chainsOf.set(workflowId, [...(chainsOf.get(workflowId) ?? []), runId]);
    else yield { workflowId, runIds: [runId], workflow, since };
  }
  for (const [workflowId, runIds] of chainsOf) yield { workflowId, runIds, workflow: 'agentJob', since };
}

interface TypeCost {
  count: number;
  cost: Cost;
}

interface Sums {
  types: Map<string, TypeCost>;
  all: TypeCost | undefined;
  notes: Set<string>;
}

/** Reads each workflow, some at a time: each is some requests, so that a batch of thousands takes minutes. */
async function addUp({ jobs, signal }: Session, { targets, isOneJob, note }: Question, isJson: boolean): Promise<Sums> {
  const { addCosts, COST_SOURCE, readCost } = await import('./cost-estimate.js');
  const plus = (sum: TypeCost | undefined, cost: Cost) =>
    sum ? { count: sum.count + 1, cost: addCosts(sum.cost, cost) } : { count: 1, cost };
  const sums: Sums = { types: new Map(), all: undefined, notes: new Set([`estimated by ${COST_SOURCE}`]) };
  const progress = new ProgressLine({ everyMs: TELL_EVERY_MS });
  const reads = concurrently(targets, { signal }, async (target) => ({
    ...target,
    ...(await readCost({ jobs, signal }, target)),
  }));
  let seen = 0;
  try {
    for await (const { workflowId, workflow, cost, notes } of reads) {
      seen += 1;
      if (!isOneJob) progress.show(`${countOf(seen, 'workflow')} read`);
      for (const one of notes) sums.notes.add(one);
      if (cost === null) continue;
      sums.types.set(workflow, plus(sums.types.get(workflow), cost));
      sums.all = plus(sums.all, cost);
      if (isJson) printJson({ workflowId, workflowType: workflow, ...cost, notes, source: COST_SOURCE });
    }
  } finally {
    progress.clear();
  }
  if (note !== undefined) sums.notes.add(note);
  return sums;
}

/** For people: by type of workflow, and by kind of action. */
function textOf({ title }: Question, { types, all, notes }: Sums): string {
  if (all === undefined) return fields(title);
  const named = [...types].sort(([a], [b]) => (a < b ? -1 : 1));
  const rows = named.length === 1 ? named : [...named, ['all', all] as const];
  const told = [...notes].map((note) => `(${note})`);
  const jobs = types.get('agentJob')?.count;
  return [fields(title), '', typeTable(rows), '', kindTable(all.cost, jobs), ...told].join('\n');
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

function kindTable({ actions }: Cost, jobs: number | undefined): string {
  const rows = Object.entries(actions)
    .filter(([, count]) => count > 0)
    .map(([kind, count]) => [
      kind.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`),
      number(count),
      ...(jobs === undefined ? [] : [each(count, jobs)]),
    ]);
  return table(['BILLABLE ACTIONS', 'ALL', ...(jobs === undefined ? [] : ['PER JOB'])], rows);
}

/** `1,234`. */
function number(value: number): string {
  return value.toLocaleString('en-US');
}

function each(value: number, count: number): string {
  return (value / count).toFixed(1);
}
