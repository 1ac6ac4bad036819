import type { Client } from '@temporalio/client';
import { AGENT_JOB_WORKFLOW } from '../../contract.js';
import { lenientWorkflowClient } from '../../temporal/workflow-clients.js';
import { endedRunIdsOf } from '../../temporal/restart-request-id.js';
import { isUnimplemented } from '../temporal-errors.js';
import { readRun, type RunRecord } from './run-record.js';

/** The closed runs of a workflow id before its newest run. */
export interface EarlierRuns {
  /** Newest first, as far as the list shows them. */
  all: string[];
  /** Those that whoever started the newest run may not have seen: how they ended must be read. */
  unknownToLast: string[];
}

/**
 * Lists the closed runs before the last one; null where another is the last one by now. A chain that continued as new
 * counts by its end alone. The list may lag by a moment, so that a run is missing; what `last` tells of itself never
 * lags.
 */
export async function listEarlierRuns(client: Client, last: RunRecord): Promise<EarlierRuns | null> {
  const found = await listOthers(client, last);
  // Times tell nothing of the order: the server has more than one clock.
  if (found.length > 0 && (await readRun(client, last.workflowId)).runId !== last.runId) return null;
  const listed = found.sort((a, b) => b.startedAt - a.startedAt).map(({ runId }) => runId);
  const knownToLast = endedRunIdsOf(last.requestIds);
  return {
    all: [...new Set([...listed, ...knownToLast])],
    unknownToLast: listed.filter((runId) => !knownToLast.includes(runId)),
  };
}

/** Empty on a test server that skips time, which has no list: there, what the last run tells of itself is all. */
async function listOthers(client: Client, last: RunRecord): Promise<{ runId: string; startedAt: number }[]> {
  const found: { runId: string; startedAt: number }[] = [];
  try {
    for await (const run of lenientWorkflowClient(client).list({ query: toQuery(last.workflowId) })) {
      // A workflow of another type has created no job under this id.
      if (run.workflowId !== last.workflowId || run.type !== AGENT_JOB_WORKFLOW || run.runId === last.runId) continue;
      found.push({ runId: run.runId, startedAt: run.startTime.getTime() });
    }
  } catch (error) {
    if (!isUnimplemented(error)) throw error;
  }
  return found;
}

/** No way to quote some characters was found that a server takes: such an id is looked for by what precedes them. */
function toQuery(workflowId: string): string {
  const [start = ''] = workflowId.split(/["'\\\0]/, 1);
  const condition = start === workflowId ? `WorkflowId = '${workflowId}'` : `WorkflowId STARTS_WITH '${start}'`;
  return `${condition} AND WorkflowType = '${AGENT_JOB_WORKFLOW}' AND ExecutionStatus != 'ContinuedAsNew'`;
}
