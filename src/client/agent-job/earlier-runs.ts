import type { Client } from '@temporalio/client';
import { AGENT_JOB_WORKFLOW } from '../../contract.js';
import { endedRunIdsOf } from '../../temporal/restart-request-id.js';
import { readRun, type RunRecord } from './run-record.js';
import { isUnimplemented } from '../temporal-errors.js';
import { lenientWorkflowClient } from '../../temporal/lenient-workflow-client.js';

/** Runs of a workflow id before the one that was read last. */
export interface EarlierRuns {
  /** Newest first. */
  all: string[];
  /** Those of which the last run does not show that whoever started it knew them: what they left behind has to be read. */
  unknownToLast: string[];
}

/**
 * Lists the closed runs before the last one; null where another is the last one by now. Of a chain that continued as new only
 * the end counts. The list may lag behind a moment, by which a run is missing; what `last` says of itself never does.
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

/** A test server that skips time has no list: there, what the last run tells of itself is all. */
async function listOthers(client: Client, last: RunRecord): Promise<{ runId: string; startedAt: number }[]> {
  const found: { runId: string; startedAt: number }[] = [];
  try {
    for await (const run of lenientWorkflowClient(client).list({ query: toQuery(last.workflowId) })) {
      // Whoever had the id for something else made no job under it.
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
