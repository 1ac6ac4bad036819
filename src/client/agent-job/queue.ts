/** The queues in which writes and exports wait for their turn, as their workflows report them. */
import { type Client, QueryRejectedError } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { queueNameOf, REQUEST_QUEUE_WORKFLOW, requestQueueId, requestQueueStateQuery } from '../../contract.js';
import type { QueueName, RequestQueueState } from '../../contract.js';
import { IS_OPEN } from '../../temporal/visibility.js';
import { type CallOptions, checkNames } from '../settings.js';
import { concurrently } from '../concurrently.js';
import { listWorkflows, temporalCall } from '../temporal-call.js';
import { isNoAnswer } from '../temporal-errors.js';
import { askRunning, noAnswerError } from './call-job.js';

/** Which queues to read; what is left out does not restrict. */
export interface QueueFilter {
  projectId?: string | null | undefined;
}

/** A queue that runs. If its state could not be read, `state` is null and `problem` says why. */
export type QueueReport = QueueName & {
  workflowId: string;
  state: RequestQueueState | null;
  problem?: string;
};

/**
 * Reads the queues that run: both of a project, or all of the namespace, with the queue of the exports. A queue runs
 * only while the upstream holds requests back, or a budget is set.
 */
export async function* listQueues(
  client: Client,
  filter: QueueFilter = {},
  options: CallOptions = {},
): AsyncGenerator<QueueReport, void, undefined> {
  checkNames(filter, 'filter', { projectId: true });
  const { projectId } = filter;
  const names = projectId == null ? runningQueues(client, options) : queuesOf(projectId);
  for await (const report of concurrently(names, {}, (name) => readQueue(client, name, options)))
    if (report) yield report;
}

function queuesOf(projectId: string): QueueName[] {
  return [
    { operation: 'create', projectId },
    { operation: 'message', projectId },
  ];
}

async function* runningQueues(client: Client, options: CallOptions): AsyncGenerator<QueueName, void, undefined> {
  const query = `WorkflowType = '${REQUEST_QUEUE_WORKFLOW}' AND ${IS_OPEN}`;
  for await (const { workflowId } of listWorkflows(client, query, options)) {
    const name = queueNameOf(workflowId);
    if (name) yield name;
  }
}

/** Reads one queue; null if that queue does not run. */
async function readQueue(client: Client, name: QueueName, options: CallOptions): Promise<QueueReport | null> {
  const workflowId = requestQueueId(name);
  try {
    const ask = () => askRunning(client, workflowId, requestQueueStateQuery, Date.now());
    const state = await temporalCall(client, options, ask);
    return { ...name, workflowId, state };
  } catch (error) {
    options.signal?.throwIfAborted();
    if (!isNoAnswer(error)) {
      if (error instanceof QueryRejectedError || error instanceof WorkflowNotFoundError) return null;
      throw error;
    }
    const { message } = await noAnswerError(client, workflowId, options.signal, error);
    return { ...name, workflowId, state: null, problem: message };
  }
}
