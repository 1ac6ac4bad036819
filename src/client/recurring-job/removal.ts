/** Tells the runs of a removed Schedule that have not got their job yet to start none. */
import type { Client, ScheduleHandle, WorkflowExecutionInfo } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { lockAnswerSignal, recurringJobLockId, scheduleRemovedSignal } from '../../contract.js';
import { orNull } from '../schedules.js';
import { concurrently } from '../concurrently.js';
import { pauseUntilAborted } from '../temporal-call.js';
import { listJobless, type Of } from './runs.js';

/** So much later than it starts a run is listed. */
const LAG_MS = 1_000;
/** Bounds how far this machine's clock may be from the server's. */
const ABOUT_NOW_MS = 60_000;

/** Whether the Schedule starts a run about now, which may not be listed yet; true where it does not tell. */
export function isStarting(handle: ScheduleHandle): Promise<boolean> {
  const isNow = (at: Date | undefined) => Math.abs(Date.now() - Number(at)) < ABOUT_NOW_MS;
  return handle.describe().then(
    ({ info }) => isNow(info.recentActions.at(-1)?.takenAt) || isNow(info.nextActionTimes[0]),
    () => true,
  );
}

/**
 * Tells the lock, which dismisses its line, and each run that has no job: it may be in no line. Looks twice where a run
 * is there or may not be listed yet. One that can't be told hides no other: its error is thrown at last.
 */
export async function dismissRuns(client: Client, of: Of, handle: ScheduleHandle, mayLag: boolean): Promise<void> {
  const lock = client.workflow.getHandle(recurringJobLockId(of.projectId, of.name));
  const lockFailure = await failureOf(lock.signal(scheduleRemovedSignal));
  const told = new Set<string>();
  let failure = await tellRuns(client, of, handle, told);
  if (mayLag || failure || told.size > 0) {
    await pauseUntilAborted(client, LAG_MS, null);
    failure = await tellRuns(client, of, handle, told);
  }
  failure ??= lockFailure;
  if (failure) throw failure;
}

/** Tells those that are not told yet; resolves to the first error. */
async function tellRuns(client: Client, of: Of, handle: ScheduleHandle, told: Set<string>): Promise<Failure> {
  const runs: WorkflowExecutionInfo[] = [];
  for await (const run of listJobless(client, of)) if (!told.has(run.runId)) runs.push(run);
  // Asked after the list: where it was made anew by then, it may have runs of its own there.
  const anew = await orNull(handle.describe());
  const removed = runs.filter(({ startTime }) => !anew || startTime < anew.info.createdAt);
  const tell = async ({ workflowId, runId }: WorkflowExecutionInfo): Promise<Failure> => {
    const run = client.workflow.getHandle(workflowId, runId);
    const failure = await failureOf(run.signal(lockAnswerSignal, { kind: 'removed', waiting: [] }));
    if (!failure) told.add(runId);
    return failure;
  };
  let first: Failure;
  for await (const failure of concurrently(removed, {}, tell)) first ??= failure;
  return first;
}

type Failure = Error | undefined;

/** What the call throws, but for a workflow that has ended. */
async function failureOf(call: Promise<void>): Promise<Failure> {
  try {
    await call;
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) return error as Error;
  }
  return undefined;
}
