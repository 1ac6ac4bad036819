/** The activity `readJob`: decides whether a job may be the one that a create in doubt has made. */
import { activityInfo, Context } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import type { JobRecord } from '../../contract.js';
import { jobQuery, toSummary } from '../../client/agent-job/list.js';
import { isUnimplemented } from '../../client/temporal-errors.js';
import { lenientWorkflowClient } from '../../temporal/workflow-clients.js';
import { RejectedError, UpstreamError } from '../../upstream/errors.js';
import type { Upstream } from '../../upstream/upstream.js';

/** Which job to read. */
export interface ReadJobInput {
  projectId: string;
  jobId: string;
  /** In milliseconds: when the run first sent its create. Null or absent if unknown. */
  firstSentAt?: number | null;
}

/** Whether the job may be adopted. */
export type ReadJobResult =
  | { kind: 'found' }
  | { kind: 'notFound' }
  /** The job exists, and is hardly the job of this run. */
  | { kind: 'doubtful'; reason: string }
  | { kind: 'failed'; reason: string };

/** The clocks of the upstream and of Temporal may differ by this. */
const CLOCK_TOLERANCE_MS = 300_000;
/** While Temporal is well, a list takes no longer. */
const LIST_TIMEOUT_MS = 5_000;

/** The activity `readJob`: reads a job once and says whether it exists and may be adopted. */
export function createReadJob(
  upstream: Upstream,
  shutdownSignal: AbortSignal,
): (input: ReadJobInput) => Promise<ReadJobResult> {
  return async (input) => {
    try {
      const { job } = await upstream.getJob(input, { signal: shutdownSignal });
      const reason = ageProblem(job, input.firstSentAt ?? null) ?? (await holderProblem(input));
      return reason === null ? { kind: 'found' } : { kind: 'doubtful', reason };
    } catch (error) {
      if (error instanceof RejectedError && [404, 410].includes(error.status)) return { kind: 'notFound' };
      if (error instanceof UpstreamError) return { kind: 'failed', reason: error.reason };
      // The worker shuts down, or Temporal does not answer: another attempt reads.
      throw error;
    }
  };
}

function ageProblem({ createdAt }: JobRecord, firstSentAt: number | null): string | null {
  if (createdAt === null || firstSentAt === null) return null;
  // False if the upstream's text is no time.
  const isOlder = Date.parse(createdAt) < firstSentAt - CLOCK_TOLERANCE_MS;
  const sentAt = new Date(firstSentAt).toISOString();
  return isOlder ? `names a job created at ${createdAt}, before this run first sent its create at ${sentAt}` : null;
}

async function holderProblem({ projectId, jobId }: ReadJobInput): Promise<string | null> {
  const { client } = Context.current();
  const own = activityInfo().workflowExecution?.workflowId;
  const holders = await client.withDeadline(Date.now() + LIST_TIMEOUT_MS, () => jobsHolding(client, projectId, jobId));
  const other = holders.find((workflowId) => workflowId !== own);
  return other === undefined ? null : `names the job of another workflow, ${other}`;
}

/**
 * The workflow ids of the open and ended jobs that hold an upstream's job; the list may lag by a moment. Empty on a
 * test server that skips time, which has no list.
 */
async function jobsHolding(client: Client, projectId: string, jobId: string): Promise<string[]> {
  const found = new Set<string>();
  try {
    for await (const run of lenientWorkflowClient(client).list({ query: jobQuery({ projectId, jobId }) })) {
      const summary = toSummary(run);
      if (summary.projectId === projectId && summary.jobId === jobId) found.add(run.workflowId);
    }
  } catch (error) {
    if (!isUnimplemented(error)) throw error;
  }
  return [...found];
}
