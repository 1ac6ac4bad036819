import type { Client, WorkflowExecutionDescription, WorkflowHandle } from '@temporalio/client';
import type { Command } from 'commander';
import { estimateCost, type CostedRun, type CostInput, type JobCost, type PendingActivity } from './cost-estimate.js';
import { print, printJson, withSession, type Session } from './session.js';
import { fields } from './text.js';

/** A long job has many pages of history. */
const HISTORIES_MS = 60_000;
const SOURCE = 'https://docs.temporal.io/cloud/actions';

/** Adds `cost`, which shows what a job has cost on Temporal. */
export function addCost(program: Command): void {
  const command = program
    .command('cost')
    .description('tell what a job has cost on Temporal so far: history, and billable actions (an estimate)')
    .argument('<workflow-id>', 'the job')
    .option('--json', 'print JSON')
    .addHelpText('after', `\nActions are counted by the rules of ${SOURCE}`)
    .action((workflowId: string, { json }: { json?: boolean }) =>
      withSession(command, async (session) => {
        const { input, isComplete } = await readCost(session, workflowId);
        const cost = estimateCost(input);
        const notes = notesOn(input, isComplete);
        if (json) printJson({ workflowId, ...cost, notes, source: SOURCE });
        else print(formatCost(workflowId, cost, notes));
      }),
    );
}

/** Everything that Temporal still has of the newest chain of runs. */
async function readCost(
  { jobs, signal }: Session,
  workflowId: string,
): Promise<{ input: CostInput; isComplete: boolean }> {
  const { readRun } = await import('../client/agent-job/run-record.js');
  const { temporalCall } = await import('../client/temporal-call.js');
  return temporalCall(jobs.client, { signal, timeoutMs: HISTORIES_MS }, async () => {
    const newest = await readRun(jobs.client, workflowId);
    const { runs, isComplete } = await readRuns(jobs.client, workflowId, newest.runId);
    const described = await jobs.client.workflow.getHandle(workflowId, newest.runId).describe();
    const polls = await readPolls({ jobs, signal }, workflowId);
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

function formatCost(workflowId: string, cost: JobCost, notes: string[]): string {
  const { actions } = cost;
  const lines = fields([
    ['Workflow', workflowId],
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
    ['  search attributes', String(actions.searchAttributeUpserts)],
    ['  memo', String(actions.memoUpserts)],
  ]);
  return [lines, ...notes.map((note) => `(${note})`)].join('\n');
}
