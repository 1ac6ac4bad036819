import { WorkflowExecutionAlreadyStartedError, type Client } from '@temporalio/client';
import { AGENT_JOB_WORKFLOW, type AgentJobInput } from '../contract.js';
import { inputHash } from '../input-hash.js';
import type { AgentJobStartOptions } from '../start-options.js';
import { KeyConflictError } from './errors.js';
import { isJobless, readEnd } from './outcome.js';
import { requestAfter } from './request-after.js';
import { readInputHash, readRun, readStartInput, type RunRecord } from './run-record.js';

/** Each further round means that somebody else restarted the same key in between. */
const MOST_ROUNDS = 10;

/**
 * Starts the job, or joins the one that the same key and input already name. A key whose last run surely made no job is
 * started again; never one that ended in any other way. Throws KeyConflictError.
 */
export async function startJob(client: Client, options: AgentJobStartOptions): Promise<void> {
  const { workflowId } = options;
  const wanted = inputHash(options.args[0]);
  let endedRunId: string | undefined;
  for (let round = 1; round <= MOST_ROUNDS; round++) {
    const start = await tryStart(client, options, endedRunId);
    if (start === 'new') return;
    const run = await readRun(client, workflowId);
    const isSame = (await readInputHash(client, run)) === wanted;
    if (start === 'joined' && isSame) return;
    if (!(await madeNoJob(client, run))) {
      if (isSame) return;
      throw conflict(workflowId, run);
    }
    endedRunId = run.runId;
  }
  throw new KeyConflictError(workflowId, 'others start this key again and again; each time the upstream refuses');
}

/**
 * `new`: this very start made the run; `joined`: it met one that runs, or that others made after the same ended run; `refused`:
 * a closed run holds the key.
 */
async function tryStart(
  client: Client,
  options: AgentJobStartOptions,
  endedRunId: string | undefined,
): Promise<'new' | 'joined' | 'refused'> {
  try {
    await client.workflow.start<(input: AgentJobInput) => Promise<unknown>>(AGENT_JOB_WORKFLOW, {
      ...options,
      // A first start that meets any run at all fails: where it succeeds, there is nothing to look up.
      ...(endedRunId === undefined
        ? { workflowIdConflictPolicy: 'FAIL' }
        : {
            workflowIdConflictPolicy: 'USE_EXISTING',
            workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY',
            ...requestAfter(endedRunId),
          }),
    });
    return endedRunId === undefined ? 'new' : 'joined';
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return 'refused';
    throw error;
  }
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
