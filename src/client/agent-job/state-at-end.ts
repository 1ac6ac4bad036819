/** The last state of a job that has ended while no worker runs, from what Temporal itself knows. */
import type { Client } from '@temporalio/client';
import type { AgentJobResult, JobOutcome, JobState } from '../../contract.js';
import { ENDED_BY, readRunEnd, type RunRecord } from './run-record.js';

/**
 * The state by the result, or the last one that was read, ended. Null where neither is known: a failure tells nothing
 * of follow-ups, and an empty list would be untrue.
 */
export async function stateAtEnd(client: Client, run: RunRecord, last: JobState | null): Promise<JobState | null> {
  const outcome = ENDED_BY[run.status];
  if (outcome !== undefined) return last && ended(last, outcome);
  const end = await readRunEnd(client, run.workflowId, run.runId);
  if ('result' in end) return fromResult(end.result);
  return last && ended(last, end.failureType as JobOutcome | null);
}

function ended(last: JobState, outcome: JobOutcome | null): JobState {
  return { ...last, phase: 'done', waiting: null, outcome };
}

function fromResult({ finishedAt, ...told }: AgentJobResult): JobState {
  const { tags, metadata, decisions } = told as Partial<AgentJobResult>;
  return {
    ...told,
    // Results of older releases lack them.
    ...{ tags: tags ?? [], metadata: metadata ?? {}, decisions: decisions ?? [] },
    ...{ phase: 'done', unknown: null, waiting: null, lastChangeAt: finishedAt },
  };
}
