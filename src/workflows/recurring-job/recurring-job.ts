import {
  ApplicationFailure,
  CancellationScope,
  isCancellation,
  log,
  ParentClosePolicy,
  setCurrentDetails,
  startChild,
  upsertMemo,
  workflowInfo,
} from '@temporalio/workflow';
import {
  CancelledFailure,
  defineSearchAttributeKey,
  SearchAttributeType,
  TerminatedFailure,
  WorkflowExecutionAlreadyStartedError,
  TimeoutFailure,
} from '@temporalio/common';
import { refusing } from '../../agent-job/end-without-result.js';
import {
  AGENT_JOB_WORKFLOW,
  recurringJobKey,
  RECURRING_RUN_MEMO,
  type AgentJobInput,
  type AgentJobResult,
  type RecurringJobInput,
  type RecurringJobResult,
  type RecurringJobRun,
} from '../../contract.js';
import { HIDE_PROMPTS_MEMO } from '../../contract/shared.js';
import { InvalidInputError } from '../../contract/input-checks.js';
import { plainMarkdown } from '../../agent-job/markdown.js';
import type { AgentJobStartOptions } from '../../agent-job/start-options.js';
import { parseRecurringJob, recurringJobStart, type RecurringJobSpec } from '../../agent-job/recurring-input.js';
import { goOnWithAnyVersion } from '../worker-version.js';

const SCHEDULED_AT = defineSearchAttributeKey('TemporalScheduledStartTime', SearchAttributeType.DATETIME);

/** What a run is about: it follows from the input and the scheduled time alone. */
interface Plan {
  spec: RecurringJobSpec;
  scheduledAt: Date;
  job: AgentJobStartOptions;
}

/**
 * One scheduled time of a recurring job: starts its job and stays open until that ends, so that the Schedule's own
 * overlap policy keeps the jobs apart. The same time again starts no second job. Names, shapes and fates:
 * docs/recurring-jobs.md.
 */
export async function recurringJob(input: RecurringJobInput): Promise<RecurringJobResult> {
  // It waits for its job, and has nothing to hand on. A change of this workflow needs `patched`.
  goOnWithAnyVersion();
  const plan = refusing(() => planOf(input));
  const end = runOf(plan, await runJob(plan));
  const { projectId, name, fate, outcome } = end;
  log.info('A run of a recurring job has ended', { projectId, name, fate, outcome });
  return show(end);
}

function planOf(input: RecurringJobInput): Plan {
  const { typedSearchAttributes, taskQueue, memo } = workflowInfo();
  const scheduledAt = typedSearchAttributes.get(SCHEDULED_AT);
  if (!scheduledAt) {
    throw new InvalidInputError('recurringJob', 'must be started by a Schedule, which tells the scheduled time');
  }
  const spec = parseRecurringJob(input);
  return {
    spec,
    scheduledAt,
    job: recurringJobStart(spec, scheduledAt, { taskQueue, hidePrompts: memo?.[HIDE_PROMPTS_MEMO] === true }),
  };
}

type JobWorkflow = (input: AgentJobInput) => Promise<AgentJobResult>;
type End = Pick<RecurringJobRun<'ended' | 'exists'>, 'fate'> & Partial<Pick<RecurringJobRun, 'outcome'>>;

/** Starts the job and waits for its end; a key that is taken starts none. */
async function runJob(plan: Plan): Promise<End> {
  try {
    const child = await startChild<JobWorkflow>(AGENT_JOB_WORKFLOW, {
      ...plan.job,
      // A run that is terminated leaves its job alone. One that is cancelled cancels it and waits for its end.
      parentClosePolicy: ParentClosePolicy.ABANDON,
    });
    show(runOf(plan, { fate: 'running' }));
    return { fate: 'ended', outcome: await outcomeOf(child.result()) };
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return { fate: 'exists' };
    throw error;
  }
}

async function outcomeOf(result: Promise<AgentJobResult>): Promise<string> {
  try {
    return (await result).outcome;
  } catch (error) {
    if (isCancellation(error) && CancellationScope.current().consideredCancelled) throw error;
    return kindOf((error as { cause?: unknown }).cause);
  }
}

/** How a job ended that has no result, in the words of the query `jobState`. */
function kindOf(cause: unknown): string {
  if (cause instanceof CancelledFailure) return 'Canceled';
  if (cause instanceof TerminatedFailure) return 'Terminated';
  if (cause instanceof TimeoutFailure) return 'TimedOut';
  return (cause instanceof ApplicationFailure && cause.type) || 'Failed';
}

function runOf<Fate extends RecurringJobRun['fate']>(
  { spec, scheduledAt, job }: Plan,
  end: { fate: Fate } & Partial<RecurringJobRun>,
): RecurringJobRun<Fate> {
  const { projectId, name } = spec;
  const key = recurringJobKey(name, scheduledAt);
  const at = scheduledAt.toISOString();
  return { projectId, name, scheduledAt: at, key, workflowId: job.workflowId, outcome: null, ...end };
}

/** Shows operators how the run stands: the memo is in lists, the details are on its page. */
function show<Run extends RecurringJobRun>(run: Run): Run {
  upsertMemo({ [RECURRING_RUN_MEMO]: run });
  setCurrentDetails(runDetails(run));
  return run;
}

/** Markdown for the page of a run in the web UI. */
function runDetails({ name, projectId, scheduledAt, workflowId, fate, outcome }: RecurringJobRun): string {
  const fates: Record<RecurringJobRun['fate'], string> = {
    running: '**Runs**: see the job',
    exists: '**Started no job**: a job of this key had been started before',
    ended: `**Ended**: ${plainMarkdown(outcome ?? '')}`,
  };
  const lines = [
    `**Recurring job** ${plainMarkdown(name)} of ${plainMarkdown(projectId)}`,
    `**Scheduled** ${scheduledAt}`,
    `**Job** ${plainMarkdown(workflowId)}`,
    fates[fate],
  ];
  return lines.join('\n\n');
}
