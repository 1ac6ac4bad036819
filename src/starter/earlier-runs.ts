import type { Client } from '@temporalio/client';
import { endedRunIdsOf } from './request-after.js';
import { readRun, type RunRecord } from './run-record.js';
import { tolerantWorkflows } from './tolerant-workflows.js';

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
  const found: { runId: string; startedAt: number }[] = [];
  for await (const run of tolerantWorkflows(client).list({ query: toQuery(last.workflowId) })) {
    if (run.workflowId !== last.workflowId || run.runId === last.runId) continue;
    found.push({ runId: run.runId, startedAt: run.startTime.getTime() });
  }
  // Times tell nothing of the order: the server has more than one clock.
  if (found.length > 0 && (await readRun(client, last.workflowId)).runId !== last.runId) return null;
  const listed = found.sort((a, b) => b.startedAt - a.startedAt).map(({ runId }) => runId);
  const knownToLast = endedRunIdsOf(last.requestIds);
  return {
    all: [...new Set([...listed, ...knownToLast])],
    unknownToLast: listed.filter((runId) => !knownToLast.includes(runId)),
  };
}

/** No way to quote some characters was found that a server takes: such an id is looked for by what precedes them. */
function toQuery(workflowId: string): string {
  const [start = ''] = workflowId.split(/["'\\]/, 1);
  const condition = start === workflowId ? `WorkflowId = '${workflowId}'` : `WorkflowId STARTS_WITH '${start}'`;
  return `${condition} AND ExecutionStatus != 'ContinuedAsNew'`;
}
