/** The error of a call that no worker answered. */
import type { Client } from '@temporalio/client';
import { MEMO } from '../../contract.js';
import { pauseOf, unpauseText } from '../../temporal/open-workflows.js';
import { JobPausedError, JobTerminatedError, NoWorkerError } from '../errors.js';
import { temporalCall, type CallOptions } from '../temporal-call.js';
import { readDescription, readUnbegunInput, textOrNull } from './run-record.js';

const DESCRIBE_TIMEOUT_MS = 3_000;

/** A NoWorkerError, or the error before it: Temporal does not answer, or the workflow never can, or is paused. */
export async function noAnswerError(
  client: Client,
  workflowId: string,
  signal: CallOptions['signal'],
  cause: unknown,
): Promise<Error> {
  try {
    return await temporalCall(client, { signal, timeoutMs: DESCRIBE_TIMEOUT_MS }, async () => {
      const run = await readDescription(client, workflowId);
      const { runId, closeTime, memo, taskQueue } = run;
      const pause = pauseOf(run);
      if (pause) {
        const text = `the workflow is ${pause.text}; ${unpauseText(workflowId)}`;
        return new JobPausedError(workflowId, text, { cause });
      }
      if (closeTime && (await readUnbegunInput(client, { workflowId, runId })) !== null) {
        return new JobTerminatedError(workflowId, 'ended before a worker began it', textOrNull(memo?.[MEMO.jobId]));
      }
      const text = `no worker of the task queue ${JSON.stringify(taskQueue)} answered in time`;
      const remedy = '"agent-jobs doctor" checks the workers, and "agent-jobs attention" lists workflows that fail';
      return new NoWorkerError(workflowId, `${text}: ${remedy}`, { cause });
    });
  } catch (error) {
    return error as Error;
  }
}
