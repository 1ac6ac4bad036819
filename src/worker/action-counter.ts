/**
 * Counts the billable actions that this worker causes: the attempts that it begins, and the calls that it makes to the
 * Temporal server. What a workflow commands, and what callers do, it does not see; docs/operations.md tells which.
 */
import type { ActivityInterceptorsFactory, NativeConnection } from '@temporalio/worker';
import type { ActionKind, Metrics } from '../activities/metrics.js';
import { AGENT_JOB_WORKFLOW, REQUEST_QUEUE_WORKFLOW, requestQueueId } from '../contract.js';

type Counting = Pick<Metrics, 'actionCaused'>;

/** The calls that are actions, by their names in the SDK. */
const CALLS = {
  recordActivityTaskHeartbeat: 'heartbeats',
  signalWorkflowExecution: 'signals',
  signalWithStartWorkflowExecution: 'signals',
  queryWorkflow: 'queries',
} satisfies Partial<Record<keyof NativeConnection['workflowService'], ActionKind>>;

const QUEUE_ID = requestQueueId({ operation: 'visitors', projectId: null }).replace(/visitors$/, '');

/** An interceptor that counts each attempt which begins here. */
export function countAttempts(metrics: Counting): ActivityInterceptorsFactory {
  return ({ info }) => ({
    inbound: {
      execute(input, next) {
        metrics.actionCaused(info.workflowType ?? '', info.attempt === 1 ? 'activities' : 'activityRetries');
        return next(input);
      },
    },
  });
}

/** Counts each of those calls that the server takes. The SDK has no interceptor of heartbeats that are awaited. */
export function countCalls({ workflowService }: Pick<NativeConnection, 'workflowService'>, metrics: Counting): void {
  const service = workflowService as unknown as Record<string, (request: object) => Promise<unknown>>;
  for (const [name, kind] of Object.entries(CALLS)) {
    const call = service[name]?.bind(workflowService);
    if (!call) continue;
    service[name] = async (request) => {
      const answer = await call(request);
      metrics.actionCaused(toldWorkflow(request), kind);
      return answer;
    };
  }
}

/** The workflow that a call is made to: a queue, or else a job. */
function toldWorkflow(request: {
  workflowId?: string | null;
  workflowExecution?: { workflowId?: string | null } | null;
  execution?: { workflowId?: string | null } | null;
}): string {
  const id = request.workflowId ?? request.workflowExecution?.workflowId ?? request.execution?.workflowId ?? '';
  return id.startsWith(QUEUE_ID) ? REQUEST_QUEUE_WORKFLOW : AGENT_JOB_WORKFLOW;
}
