/** The workflows of a project, of all types, as Temporal's visibility lists them. */
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import {
  AGENT_JOB_WORKFLOW,
  RECURRING_JOB_WORKFLOW,
  REQUEST_QUEUE_WORKFLOW,
  requestQueueId,
  SEARCH_ATTRIBUTE,
  VISITOR_EXPORT_WORKFLOW,
  visitorExportScheduleId,
} from '../contract.js';
import { equals, quoted } from './visibility-query.js';
import { listWorkflows, type CallOptions } from './temporal-call.js';

/** One run of a workflow. */
export interface ProjectRun {
  workflowId: string;
  runId: string;
  workflow: (typeof BY_PROJECT)[number] | typeof REQUEST_QUEUE_WORKFLOW | typeof VISITOR_EXPORT_WORKFLOW;
}

const BY_PROJECT = [AGENT_JOB_WORKFLOW, RECURRING_JOB_WORKFLOW] as const;
const PROJECT = defineSearchAttributeKey(SEARCH_ATTRIBUTE.project, SearchAttributeType.KEYWORD);

/**
 * Lists the newest run of each chain of a project that began after a time, and each run of its queues that began after
 * it or is open. An export counts where it has an id of our own client.
 */
export async function* listProjectRuns(
  client: Client,
  { projectId, since }: { projectId: string; since: Date },
  options: CallOptions = {},
): AsyncGenerator<ProjectRun, void, undefined> {
  const isNew = `StartTime >= ${quoted(since.toISOString())}`;
  const isNewest = `ExecutionStatus != 'ContinuedAsNew'`;
  for (const workflow of BY_PROJECT) {
    const conditions = [typeIs(workflow), isNewest, isNew, equals(SEARCH_ATTRIBUTE.project, projectId)];
    const isOfProject = (run: WorkflowExecutionInfo) => run.typedSearchAttributes.get(PROJECT) === projectId;
    yield* runsOf(client, workflow, { conditions, isAsked: isOfProject }, options);
  }
  const queues = (['create', 'message'] as const).map((operation) => quoted(requestQueueId({ operation, projectId })));
  const isOfQueue = `WorkflowId IN (${queues.join(', ')})`;
  const conditions = [typeIs(REQUEST_QUEUE_WORKFLOW), isOfQueue, `(${isNew} OR ExecutionStatus = 'Running')`];
  yield* runsOf(client, REQUEST_QUEUE_WORKFLOW, { conditions }, options);
  const id = visitorExportScheduleId(projectId);
  const exports = [typeIs(VISITOR_EXPORT_WORKFLOW), isNewest, isNew, `WorkflowId STARTS_WITH ${quoted(id)}`];
  // By its range, or by the time of the Schedule; another project's id may begin in the same way.
  const isExport = (run: WorkflowExecutionInfo) =>
    /^(\/|-\d{4}-\d\d-\d\dT[\d:]+Z$)/.test(run.workflowId.slice(id.length));
  yield* runsOf(client, VISITOR_EXPORT_WORKFLOW, { conditions: exports, isAsked: isExport }, options);
}

async function* runsOf<W extends ProjectRun['workflow']>(
  client: Client,
  workflow: W,
  { conditions, isAsked = () => true }: { conditions: string[]; isAsked?: (run: WorkflowExecutionInfo) => boolean },
  options: CallOptions,
): AsyncGenerator<ProjectRun, void, undefined> {
  for await (const run of listWorkflows(client, conditions.join(' AND '), options)) {
    const { workflowId, runId } = run;
    if (isAsked(run)) yield { workflowId, runId, workflow };
  }
}

function typeIs(workflow: string): string {
  return `WorkflowType = ${quoted(workflow)}`;
}

/** For how many days the namespace keeps closed workflows; null where it can't be read. */
export async function retentionDays(client: Client): Promise<number | null> {
  const { namespace } = client.options;
  try {
    const { config } = await client.workflowService.describeNamespace({ namespace });
    const seconds = config?.workflowExecutionRetentionTtl?.seconds;
    return seconds ? Number(seconds.toString()) / 86_400 : null;
  } catch {
    return null;
  }
}
