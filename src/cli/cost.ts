import type { Client, WorkflowExecutionDescription, WorkflowHandle } from '@temporalio/client';
import type { Command } from 'commander';
import {
  addCosts,
  estimateCost,
  type CostedRun,
  type CostInput,
  type JobCost,
  type PendingActivity,
} from './cost-estimate.js';
import { CONCURRENT_JOBS, readBatch, readTarget } from './batch.js';
import { ProgressLine } from './progress-line.js';
import { print, printJson, withSession, type Session } from './session.js';
import { countOf, fields } from './text.js';

/** A long job has many pages of history. */
const HISTORIES_MS = 60_000;
const TELL_EVERY_MS = 5_000;
const SOURCE = 'https://docs.temporal.io/cloud/actions';

/** Adds `cost`, which shows what a job has cost on Temporal. */
export function addCost(program: Command): void {
  const command = program
    .command('cost')
    .description('tell what a job has cost on Temporal so far: history, and billable actions (an estimate)')
    .argument('[workflow-id]', 'the job')
    .option('--batch <label>', 'of all jobs of this batch together')
    .option('--json', 'print JSON')
    .addHelpText('after', `\nActions are counted by the rules of ${SOURCE}`)
    .action(async (given: string | undefined, { json = false, batch }: { json?: boolean; batch?: string }) => {
      const target = await readTarget(given, batch);
      await withSession(command, async (session) => {
        if (target.batch !== null) return showBatchCost(session, target.batch, json);
        const { workflowId } = target;
        const { input, isComplete } = await readCost(session, workflowId);
        const cost = estimateCost(input);
        const notes = notesOn(input, isComplete);
        if (json) printJson({ workflowId, ...cost, notes, source: SOURCE });
        else print(formatCost([['Workflow', workflowId]], cost, notes));
      });
    });
}

/** Each job is some requests: a batch of thousands takes minutes. */
async function showBatchCost({ jobs, signal }: Session, batch: string, isJson: boolean): Promise<void> {
  const listed = await readBatch(jobs, batch, signal);
  const { concurrently } = await import('../client/concurrently.js');
  const progress = new ProgressLine({ everyMs: TELL_EVERY_MS });
  const worker: WorkerPresence = { answers: true };
  const costs = concurrently(listed, { limit: CONCURRENT_JOBS, signal }, async ({ workflowId }) => {
    const { input, isComplete } = await readCost({ jobs, signal }, workflowId, worker);
    return { workflowId, cost: estimateCost(input), notes: notesOn(input, isComplete) };
  });
  const sum = { jobs: 0, cost: null as JobCost | null, notes: new Set<string>() };
  for await (const { workflowId, cost, notes } of costs) {
    sum.jobs += 1;
    sum.cost = sum.cost === null ? cost : addCosts(sum.cost, cost);
    notes.forEach((note) => sum.notes.add(note));
    progress.show(`${sum.jobs} of ${countOf(listed.length, 'job')}`);
    if (isJson) printJson({ workflowId, ...cost, notes, source: SOURCE });
  }
  progress.clear();
  if (isJson || sum.cost === null) return;
  const whose = [['Batch', batch] as const, ['Jobs', String(sum.jobs)] as const];
  print(formatCost(whose, sum.cost, [...sum.notes]));
}

/** Whether a worker answered so far: the other jobs of a batch need not wait for one that is not there. */
interface WorkerPresence {
  answers: boolean;
}

/** Everything that Temporal still has of the newest chain of runs. */
async function readCost(
  { jobs, signal }: Pick<Session, 'jobs' | 'signal'>,
  workflowId: string,
  worker: WorkerPresence = { answers: true },
): Promise<{ input: CostInput; isComplete: boolean }> {
  const { readRun } = await import('../client/agent-job/run-record.js');
  const { temporalCall } = await import('../client/temporal-call.js');
  return temporalCall(jobs.client, { signal, timeoutMs: HISTORIES_MS }, async () => {
    const newest = await readRun(jobs.client, workflowId);
    const { runs, isComplete } = await readRuns(jobs.client, workflowId, newest.runId);
    const described = await jobs.client.workflow.getHandle(workflowId, newest.runId).describe();
    const polls = worker.answers ? await readPolls({ jobs, signal }, workflowId) : null;
    worker.answers &&= polls !== null;
    return { input: { runs, pending: pendingOf(described), polls }, isComplete };
  });
}

/** From the newest run back to the first one that is still kept. */
async function readRuns(
  client: Client,
  workflowId: string,
  newestRunId: string,
): Promise<{ runs: CostedRun[]; isComplete: boolean }> {
  const runs: CostedRun[] = [];
  for (let runId: string | undefined = newestRunId; runId;) {
    const handle: WorkflowHandle = client.workflow.getHandle(workflowId, runId);
    try {
      const events = (await handle.fetchHistory()).events ?? [];
      runs.push({ events, bytes: (await handle.describe()).historySize ?? 0 });
      runId = events[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? undefined;
    } catch (error) {
      if (runs.length === 0 || (error as Error).name !== 'WorkflowNotFoundError') throw error;
      return { runs, isComplete: false };
    }
  }
  return { runs, isComplete: true };
}

function pendingOf({ raw }: WorkflowExecutionDescription): PendingActivity[] {
  return (raw.pendingActivities ?? []).map(({ activityType, attempt }) => ({
    name: activityType?.name ?? '',
    attempt: attempt ?? 1,
  }));
}

async function readPolls(
  { jobs, signal }: Pick<Session, 'jobs' | 'signal'>,
  workflowId: string,
): Promise<number | null> {
  const { NoWorkerError } = await import('../client/errors.js');
  try {
    return (await jobs.handle(workflowId).state({ signal })).polls;
  } catch (error) {
    if (!(error instanceof NoWorkerError)) throw error;
    return null;
  }
}

function notesOn({ polls }: CostInput, isComplete: boolean): string[] {
  return [
    'not counted, as they leave no trace: queries, rejected updates, heartbeats between the attempts of a watch',
    ...(polls === null ? ['no worker answered: reads that were cut short are not counted'] : []),
    ...(isComplete ? [] : ['earlier runs are no longer kept']),
  ];
}

function formatCost(whose: readonly (readonly [string, string])[], cost: JobCost, notes: string[]): string {
  const { actions } = cost;
  const lines = fields([
    ...whose,
    ['Runs', String(cost.runs)],
    ['History events', String(cost.historyEvents)],
    ['History bytes', String(cost.historyBytes)],
    ['Reads', String(cost.reads)],
    ['Billable actions', `${cost.billableActions} (estimated by ${SOURCE})`],
    ['  starts', String(actions.starts)],
    ['  activities', String(actions.activities)],
    ['  activity retries', String(actions.activityRetries)],
    ['  heartbeats', String(actions.heartbeats)],
    ['  timers', String(actions.timers)],
    ['  signals', String(actions.signals)],
    ['  updates', String(actions.updates)],
    ['  queue messages', String(actions.queueMessages)],
    ['  turn reports', String(actions.turnReports)],
    ['  search attributes', String(actions.searchAttributeUpserts)],
    ['  memo', String(actions.memoUpserts)],
  ]);
  return [lines, ...notes.map((note) => `(${note})`)].join('\n');
}
