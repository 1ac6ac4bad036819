/**
 * Repeats queries that a worker could not answer for one reason alone: its copy of the run was spoilt by that very
 * query, and is thrown away (src/workflows/stale-copy.ts). Asked again, the run is read from its history. A client of
 * another make sees the error once.
 */
import { isGrpcServiceError, WorkflowClient, type Client } from '@temporalio/client';
import type { QueryDefinition } from '@temporalio/common';
import { STALE_COPY } from '../contract/shared.js';
import { workflowOptionsOf } from './workflow-clients.js';

/** Another worker may have spoilt its copy too; then something else is wrong. */
const MOST_TRIES = 3;

/** Asks a workflow by a query that changes nothing. */
export async function queryAgain<Answer>(query: () => Promise<Answer>): Promise<Answer> {
  for (let tries = 1; ; tries++) {
    try {
      return await query();
    } catch (error) {
      if (tries === MOST_TRIES || !isOfStaleCopy(error)) throw error;
    }
  }
}

/** Asks a run, or the newest, whether or not it is closed: the caller's client may refuse queries of closed ones. */
export function askWorkflow<Answer, Args extends unknown[]>(
  client: Client,
  { workflowId, runId }: { workflowId: string; runId?: string | undefined },
  query: QueryDefinition<Answer, Args>,
  ...args: Args
): Promise<Answer> {
  const handle = new WorkflowClient(workflowOptionsOf(client)).getHandle(workflowId, runId);
  return queryAgain(() => handle.query(query, ...args));
}

/** The SDK wraps gRPC's error in its own, and takes a failed query for one that the workflow does not know. */
function isOfStaleCopy(error: unknown): boolean {
  for (let inner = error; inner instanceof Error; inner = inner.cause) {
    if (inner.message.includes(STALE_COPY)) return true;
    if (isGrpcServiceError(inner) && inner.details.includes(STALE_COPY)) return true;
  }
  return false;
}
