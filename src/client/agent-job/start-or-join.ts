/** Starting a job, or joining the one that the same key and input already name. */
import { randomUUID } from 'node:crypto';
import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { inputHash } from '../../agent-job/input.js';
import type { AgentJobStartOptions } from '../../agent-job/start-options.js';
import { AGENT_JOB_WORKFLOW, type AgentJobInput } from '../../contract.js';
import { startStopwatch } from '../../temporal/elapsed-time.js';
import { restartRequestId, withRequestId, withRestartRequestId } from '../../temporal/restart-request-id.js';
import { concurrently } from '../concurrently.js';
import { KeyConflictError } from '../errors.js';
import { type CallOptions, START_TIMEOUT_MS, temporalCall, throwIfOver } from '../temporal-call.js';
import { isDeadlineExceeded } from '../temporal-errors.js';
import type { StartedRun } from './handle.js';
import {
  createdNoJob,
  type EarlierRuns,
  listEarlierRuns,
  nullIfGone,
  readInputHash,
  readRun,
  readRunEnd,
  readStartInput,
  type RunRecord,
} from './run-record.js';

/** Each further round means that another caller restarted the same key in between, or that a start came too late. */
const MAX_ROUNDS = 10;

type JobWorkflow = (input: AgentJobInput) => Promise<unknown>;

interface StartCall extends CallOptions {
  /** The same for each repetition of this call, so that it knows what it made itself. */
  requestId?: string;
}

/**
 * Starts the job, or joins the one that the same key and input already name. A key whose last run surely created no job
 * is started again, and never one that ended in any other way. Throws KeyConflictError.
 */
export async function startJob(
  client: Client,
  options: AgentJobStartOptions,
  { signal, timeoutMs, requestId = randomUUID() }: StartCall,
): Promise<StartedRun> {
  const limits = { signal, timeoutMs: timeoutMs ?? START_TIMEOUT_MS };
  return temporalCall(client, limits, () => startOrJoin(client, options, requestId));
}

/** Callers that go on from one refused run at once share the next; each counts as its maker. */
async function startOrJoin(client: Client, options: AgentJobStartOptions, requestId: string): Promise<StartedRun> {
  const { workflowId } = options;
  const wanted = inputHash(options.args[0]);
  const runsWithoutJob: RunIds = new Set();
  for (let round = 1; round <= MAX_ROUNDS; round++) {
    throwIfOver(client);
    const made = await startNew(client, options, requestId);
    if (made !== null) return { isNew: true, runId: made };
    const elapsedMs = startStopwatch();
    // Gone: Temporal has deleted the closed run since the start met it.
    const run = await readRun(client, workflowId).catch(nullIfGone);
    if (run === null) continue;
    const isSame = (await readInputHash(client, run)) === wanted;
    if (!(await hasNoJob(client, run))) {
      if (isSame) return { isNew: false, runId: run.runId };
      throw conflict(workflowId, run);
    }
    const followed = await startAgain(client, options, { run, elapsedMs, wanted, runsWithoutJob });
    if (followed !== null) return { isNew: true, runId: followed };
  }
  const text = 'others start this key again and again, or Temporal is slow to start it; each time the upstream refuses';
  throw new KeyConflictError(workflowId, text);
}

/** The id of the run that it made; null where the workflow id is taken. */
async function startNew(client: Client, options: AgentJobStartOptions, requestId: string): Promise<string | null> {
  try {
    const { firstExecutionRunId } = await client.workflow.start<JobWorkflow>(AGENT_JOB_WORKFLOW, {
      ...options,
      ...withRequestId(requestId),
      workflowIdConflictPolicy: 'FAIL',
    });
    return firstExecutionRunId;
  } catch (error) {
    return nullIfAlreadyStarted(error);
  }
}

/** Kept over the rounds: a key may have been refused a thousand times, and how a run ended does not change. */
type RunIds = Set<string>;

interface Restart {
  run: RunRecord;
  elapsedMs: () => number;
  wanted: string;
  runsWithoutJob: RunIds;
}

/** Goes on from a run that created no job, with the run of this id; null where that is or may be no longer the last. */
async function startAgain(
  client: Client,
  options: AgentJobStartOptions,
  { run, elapsedMs, wanted, runsWithoutJob }: Restart,
): Promise<string | null> {
  const earlier = await listEarlierRuns(client, run);
  if (earlier === null) return null;
  await refuseWhereJobExists(client, run, earlier, runsWithoutJob);
  const started = await restartAfter(client, { last: run, earlierRunIds: earlier.all, elapsedMs }, () =>
    client.workflow
      .start<JobWorkflow>(AGENT_JOB_WORKFLOW, {
        ...options,
        workflowIdConflictPolicy: 'USE_EXISTING',
        workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY',
        ...withRestartRequestId(run.runId),
      })
      .catch(nullIfAlreadyStarted),
  );
  if (started === 'tooLate' || started === null) return null;
  const newest = await readRun(client, run.workflowId);
  return (await readInputHash(client, newest)) === wanted ? newest.runId : null;
}

function nullIfAlreadyStarted(error: unknown): null {
  if (error instanceof WorkflowExecutionAlreadyStartedError) return null;
  throw error;
}

/** An earlier run may have created a job although the last one did not: a caller started a key again that had one. */
async function refuseWhereJobExists(
  client: Client,
  last: RunRecord,
  { unknownToLast }: EarlierRuns,
  runsWithoutJob: RunIds,
): Promise<void> {
  const unread = unknownToLast.filter((runId) => !runsWithoutJob.has(runId));
  const read = async (runId: string) => ({
    runId,
    end: await readRunEnd(client, last.workflowId, runId).catch(nullIfGone),
  });
  for await (const { runId, end } of concurrently(unread, {}, read)) {
    if (end !== null && !createdNoJob(end)) {
      const text = `an earlier run of this key, ${runId}, may have made a job, though its last run made none`;
      throw new KeyConflictError(last.workflowId, `${text}: look at that run, and use another key for a new job`);
    }
    runsWithoutJob.add(runId);
  }
}

async function hasNoJob(client: Client, run: RunRecord): Promise<boolean> {
  if (run.status !== 'FAILED') return false;
  if (!createdNoJob(await readRunEnd(client, run.workflowId, run.runId))) return false;
  return !(await goesOnWithEarlierJob(client, run));
}

/**
 * A run that a follow-up attached anew carries the first run's hash, not its own input's: there is a job under its key.
 */
async function goesOnWithEarlierJob(client: Client, run: RunRecord): Promise<boolean> {
  if (run.memoInputHash === null) return false;
  const input = await readStartInput(client, run.workflowId, run.firstRunId);
  return input?.jobId != null && inputHash(input) !== run.memoInputHash;
}

function conflict(workflowId: string, run: RunRecord): KeyConflictError {
  const job = `workflow ${run.status.toLowerCase()}, job ${run.jobId ?? 'not known'}`;
  const text = `this key names a job with another input (${job}): use another key for a new job`;
  return new KeyConflictError(workflowId, text);
}

// Starts that continue from a closed run. They use what was read of that run, so they must not be sent once another
// run has followed.

/** From the read of a closed run to the start that goes on from it: after that it may no longer be the last run. */
const START_WITHIN_MS = 5_000;
const ATTACH_TIMEOUT_MS = 2_000;
/**
 * Each is one request and one event in the new run's history; a caller that missed more restarts meets the time limit.
 */
const MAX_ATTACHED_REQUEST_IDS = 20;

/** What a restart rests on: the last run, those before it, and the time since the last one was read. */
interface RestartBasis {
  last: RunRecord;
  /** Newest first. */
  earlierRunIds: string[];
  elapsedMs: () => number;
}

/**
 * Sends a start in time, or tells that it is too late: it was not sent, or got no response, or one with a closed run.
 */
export async function restartAfter<T>(
  client: Client,
  basis: RestartBasis,
  start: () => Promise<T>,
): Promise<T | 'tooLate'> {
  throwIfOver(client);
  const leftMs = START_WITHIN_MS - basis.elapsedMs();
  if (leftMs <= 0) return 'tooLate';
  try {
    return await client.withDeadline(Date.now() + leftMs, start);
  } catch (error) {
    if (isDeadlineExceeded(error) || isAnsweredWithClosedRun(error)) return 'tooLate';
    throw error;
  } finally {
    // Best effort: without it the time limit alone guards the start.
    const deadline = Date.now() + ATTACH_TIMEOUT_MS;
    await client.withDeadline(deadline, () => attachEarlierRequestIds(client, basis)).catch(() => {});
  }
}

/** An update-with-start whose start Temporal answered with an earlier run, which can't take the update any more. */
function isAnsweredWithClosedRun(error: unknown): boolean {
  return error instanceof Error && error.message.includes('StartDeduped');
}

/**
 * A start that goes on from an older run than `last` may reach the server late. It would make a run that does not know
 * what the later runs did. So the request ids of such starts are attached to the new run while it is open: Temporal
 * then answers them with this run, even after it has closed. A server that can't attach ids answers each with the open
 * run, which harms nothing. See temporal/restart-request-id.ts.
 */
async function attachEarlierRequestIds(client: Client, { last, earlierRunIds }: RestartBasis): Promise<void> {
  if (earlierRunIds.length === 0) return;
  const { workflowId, isRunning, createdBy, taskQueue } = await readRun(client, last.workflowId);
  if (!isRunning || createdBy !== restartRequestId(last.runId)) return;
  const attach = (runId: string) =>
    client.workflow.start(AGENT_JOB_WORKFLOW, {
      workflowId,
      taskQueue,
      // It meets the run that runs, or nothing: it never makes one.
      workflowIdConflictPolicy: 'USE_EXISTING',
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
      ...withRestartRequestId(runId, { attachRequestId: true }),
    });
  await Promise.allSettled(earlierRunIds.slice(0, MAX_ATTACHED_REQUEST_IDS).map(attach));
}
