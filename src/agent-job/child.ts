/**
 * What the workflows of other services import: names, types and code that workflows may run. A workflow has a job done
 * as a child that outlives its parent, or joins the job that the key already names. Each call makes the same commands
 * in every release: one child, and one activity if the child's id is taken.
 */
import {
  ActivityFailure,
  CancellationScope,
  ChildWorkflowFailure,
  proxyActivities,
  startChild,
  type ChildWorkflowHandle,
} from '@temporalio/workflow';
import { ApplicationFailure, WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import { DEFAULT_TASK_QUEUE } from '../contract.js';
import type { AgentJobInput, AgentJobResult, JOIN_JOB_ACTIVITY, JoinJobInput } from '../contract.js';
import { endWithoutResult, validated } from './closed-run.js';
import { agentJobStartOptions, type AgentJobPlace, type AgentJobStartOptions } from './start-options.js';

export * from '../contract.js';
export type { AgentJobPlace } from './start-options.js';

/** Options of `startChild` and `executeChild` for a job that goes on whatever becomes of its parent. */
export interface AgentJobChildOptions extends AgentJobStartOptions {
  parentClosePolicy: 'ABANDON';
  cancellationType: 'ABANDON';
}

/** The workflow by its type, for `executeChild(agentJob, …)` and `startChild(agentJob, …)`; it runs in our worker. */
export function agentJob(_input: AgentJobInput): Promise<AgentJobResult> {
  const text = 'agentJob is started as a child: executeChild(agentJob, agentJobChildOptions(input, {key}))';
  throw ApplicationFailure.nonRetryable(text, 'NotAChild');
}

/**
 * Workflow id, memo, search attributes and titles as our own client sets them; the job outlives its parent. Throws the
 * ApplicationFailure `InvalidInput`, which ends a workflow that does not catch it.
 */
export function agentJobChildOptions(input: AgentJobInput, place: AgentJobPlace): AgentJobChildOptions {
  const options = validated(() => agentJobStartOptions(input, place));
  return { ...options, parentClosePolicy: 'ABANDON', cancellationType: 'ABANDON' };
}

/**
 * Has a job done and waits for its result. A key that already names a job, running or ended, makes no second one: the
 * result is that job's. Any parent or caller may have started that job. A cancelled parent stops waiting, and the job
 * goes on. Throws an ApplicationFailure whose `type` is one of `FAILURE` or `JOIN_FAILURE`.
 */
export async function runAgentJob(input: AgentJobInput, place: AgentJobPlace): Promise<AgentJobResult> {
  const options = agentJobChildOptions(input, place);
  const { workflowId, taskQueue } = options;
  const { hidePrompts } = place;
  const child = await startUnlessTaken(options);
  try {
    return await (child?.result() ?? joinActivity(taskQueue)({ workflowId, job: input, hidePrompts }));
  } catch (error) {
    if (CancellationScope.current().consideredCancelled) throw error;
    const isEnd = error instanceof ChildWorkflowFailure || error instanceof ActivityFailure;
    throw isEnd ? endWithoutResult(workflowId, error.cause) : error;
  }
}

/** Null if the workflow id is taken. */
async function startUnlessTaken(options: AgentJobChildOptions): Promise<ChildWorkflowHandle<typeof agentJob> | null> {
  try {
    return await startChild(agentJob, options);
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return null;
    throw error;
  }
}

/** `UPSTREAM_REQUESTS_PER_SECOND` counts this activity, too: polls and writes that wait go before it. */
const LAST = { priorityKey: 5 } as const;

type JoinActivities = Record<typeof JOIN_JOB_ACTIVITY, (input: JoinJobInput) => Promise<AgentJobResult>>;

/** The activity runs in the jobs' worker: the caller's worker needs no activity and no client. */
function joinActivity(taskQueue: string = DEFAULT_TASK_QUEUE): JoinActivities[typeof JOIN_JOB_ACTIVITY] {
  const { joinAgentJob } = proxyActivities<JoinActivities>({
    taskQueue,
    // An attempt starts the job and checks once for its end. More attempts follow while the job runs.
    startToCloseTimeout: '1 minute',
    retry: { initialInterval: '1 second', backoffCoefficient: 2, maximumInterval: '1 minute' },
    cancellationType: 'TRY_CANCEL',
    priority: LAST,
    summary: 'Wait for the job that this key names',
  });
  return joinAgentJob;
}
