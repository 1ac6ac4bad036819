/** Which workflow tasks of a run failed because of a bug in workflow code. */
import type { Client } from '@temporalio/client';
import { Worker } from '@temporalio/worker';
import { STALE_COPY } from '../../src/contract/shared.js';
import { loadWorkflowBundle } from '../../src/temporal/workflow-bundle.js';

export type History = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>;

/**
 * Temporal repeats a task if a message came in with the very task that ended the run (1, 31), a worker or the
 * server left (13, 17, 18), the server could not give the history as it started again, or a worker threw a copy away
 * that a query had spoilt (src/temporal/private/stale-copy.ts).
 */
const BENIGN = new RegExp(`^((1|13|17|18|31):|14: (Fetching history failed|${STALE_COPY}))`);
/** The history did not fit the worker's copy of the run. */
const NON_DETERMINISTIC = /^24:/;

/**
 * The failures that are bugs, by cause. The SDK may find out a spoilt copy before our code does: the history then fits
 * the workflow code.
 */
export async function bugsIn(workflowId: string, history: History): Promise<string[]> {
  const failures = failuresOf(history).filter((text) => !BENIGN.test(text));
  const others = failures.filter((text) => !NON_DETERMINISTIC.test(text));
  if (others.length === failures.length || !(await fitsCode(workflowId, history))) return failures;
  return others;
}

function failuresOf({ events }: History): string[] {
  return (events ?? []).flatMap(({ workflowTaskFailedEventAttributes: failed }) =>
    failed ? [`${failed.cause}: ${failed.failure?.message ?? ''}`.slice(0, 200)] : [],
  );
}

async function fitsCode(workflowId: string, history: History): Promise<boolean> {
  for await (const { error } of Worker.runReplayHistories(loadWorkflowBundle(), [{ workflowId, history }]))
    return error === undefined;
  return false;
}
