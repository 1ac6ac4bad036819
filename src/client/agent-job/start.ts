import { WorkflowExecutionAlreadyStartedError, type Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { AGENT_JOB_WORKFLOW, type AgentJobInput } from '../../contract.js';
import { inputHash } from '../../agent-job/input-hash.js';
import type { AgentJobStartOptions } from '../../agent-job/start-options.js';
import { listEarlierRuns, type EarlierRuns } from './earlier-runs.js';
import { KeyConflictError } from '../errors.js';
import { inBatches } from '../in-batches.js';
import { isJobless, readEnd } from './outcome.js';
import { withRestartRequestId } from '../../temporal/restart-request-id.js';
import { readInputHash, readRun, readStartInput, type RunRecord } from './run-record.js';
import { startAfter } from './start-after.js';
import { startStopwatch } from '../stopwatch.js';

/** Each further round means that somebody else restarted the same key in between, or that a start came too late. */
const MAX_ROUNDS = 10;

type JobWorkflow = (input: AgentJobInput) => Promise<unknown>;

/**
 * Starts the job, or joins the one that the same key and input already name. A key whose last run surely made no job is
 * started again; never one that ended in any other way. Throws KeyConflictError.
 */
export async function startJob(client: Client, options: AgentJobStartOptions): Promise<void> {
  const { workflowId } = options;
  const wanted = inputHash(options.args[0]);
  const jobless: JoblessRuns = new Set();
  for (let round = 1; round <= MAX_ROUNDS; round++) {
    if (await startFirst(client, options)) return;
    const elapsedMs = startStopwatch();
    const run = await readRun(client, workflowId);
    const isSame = (await readInputHash(client, run)) === wanted;
    if (!(await madeNoJob(client, run))) {
      if (isSame) return;
      throw conflict(workflowId, run);
    }
    if (await startAgain(client, options, { run, elapsedMs, wanted, jobless })) return;
  }
  const text = 'others start this key again and again, or Temporal is slow to start it; each time the upstream refuses';
  throw new KeyConflictError(workflowId, text);
}

/** False where any run at all holds the key: where this start succeeds, there is nothing to look up. */
async function startFirst(client: Client, options: AgentJobStartOptions): Promise<boolean> {
  try {
    await client.workflow.start<JobWorkflow>(AGENT_JOB_WORKFLOW, { ...options, workflowIdConflictPolicy: 'FAIL' });
    return true;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return false;
    throw error;
  }
}

/** Ids of closed runs that made no job, which does not change: a key may have been refused a thousand times. */
type JoblessRuns = Set<string>;

interface Restart {
  run: RunRecord;
  elapsedMs: () => number;
  wanted: string;
  jobless: JoblessRuns;
}

/** Goes on from a run that made no job; false where that is no longer the last one, or may not be. */
async function startAgain(
  client: Client,
  options: AgentJobStartOptions,
  { run, elapsedMs, wanted, jobless }: Restart,
): Promise<boolean> {
  const earlier = await listEarlierRuns(client, run);
  if (earlier === null) return false;
  await refuseWhereJobExists(client, run, earlier, jobless);
  const started = await startAfter(client, { last: run, earlierRunIds: earlier.all, elapsedMs }, () =>
    client.workflow
      .start<JobWorkflow>(AGENT_JOB_WORKFLOW, {
        ...options,
        workflowIdConflictPolicy: 'USE_EXISTING',
        workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY',
        ...withRestartRequestId(run.runId),
      })
      .catch(unlessAlreadyStarted),
  );
  if (started === 'tooLate' || started === null) return false;
  return (await readInputHash(client, await readRun(client, run.workflowId))) === wanted;
}

function unlessAlreadyStarted(error: unknown): null {
  if (error instanceof WorkflowExecutionAlreadyStartedError) return null;
  throw error;
}

/** Null where Temporal has deleted the run since it was listed. */
function unlessGone(error: unknown): null {
  if (error instanceof WorkflowNotFoundError) return null;
  throw error;
}

/** An earlier run may have made a job although the last one did not: somebody started a key again that had one. */
async function refuseWhereJobExists(
  client: Client,
  last: RunRecord,
  { unknownToLast }: EarlierRuns,
  jobless: JoblessRuns,
): Promise<void> {
  const unread = unknownToLast.filter((runId) => !jobless.has(runId));
  await inBatches(unread, async (runId) => {
    const end = await readEnd(client, last.workflowId, runId).catch(unlessGone);
    if (end !== null && ('result' in end || !isJobless(end.failureType))) {
      const text = `an earlier run of this key, ${runId}, may have made a job, though its last run made none`;
      throw new KeyConflictError(last.workflowId, `${text}: look at that run, and use another key for a new job`);
    }
    jobless.add(runId);
  });
}

async function madeNoJob(client: Client, run: RunRecord): Promise<boolean> {
  if (run.status !== 'FAILED') return false;
  const end = await readEnd(client, run.workflowId, run.runId);
  if ('result' in end || !isJobless(end.failureType)) return false;
  return !(await goesOnWithEarlierJob(client, run));
}

/** A run that a follow-up attached anew carries the first run's hash, not its own input's: there is a job under its key. */
async function goesOnWithEarlierJob(client: Client, run: RunRecord): Promise<boolean> {
  if (run.memoInputHash === null) return false;
  const input = await readStartInput(client, run.workflowId, run.firstRunId);
  return input?.jobId != null && inputHash(input) !== run.memoInputHash;
}

function conflict(workflowId: string, run: RunRecord): KeyConflictError {
  const text = `this key names a job with another input (workflow ${run.status.toLowerCase()}, job ${run.jobId ?? 'not known'})`;
  return new KeyConflictError(workflowId, `${text}: use another key for a new job`);
}
