/**
 * Keeps the jobs of one Schedule apart. The lock is a workflow of a fixed id, which the run that holds it has started
 * as its child: of two runs that start it at once, the Temporal server lets one. However a run ends, the server ends
 * its lock. So no run has to give it back, and none can keep it too long.
 */
import {
  CancellationScope,
  condition,
  getExternalWorkflowHandle,
  isCancellation,
  ParentClosePolicy,
  patched,
  setHandler,
  sleep,
  startChild,
  workflowInfo,
} from '@temporalio/workflow';
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  awaitLockSignal,
  lockAnswerSignal,
  RECURRING_JOB_LOCK_WORKFLOW,
  recurringJobLockId,
  type LockAnswer,
  type LockWaiter,
  type RecurringJobLockInput,
  type SkipReason,
} from '../../contract.js';
import { projectAttributes, type RecurringJobSpec } from '../../agent-job/recurring-input.js';
import { answersIn, MAX_WAITING } from './lock-messages.js';

/** A lock that was asked, or that told a run of its turn, has closed by then where nobody holds it. */
const CLOSING_MS = 1_000;
/** A run that hears nothing tries by itself: whoever should have told it may have been ended from outside. */
const TRY_AGAIN_MS = { first: 60_000, max: 900_000 };
/** The patch since which a run heeds the removal of its Schedule until its job is started. */
const REMOVED_ANYWHERE = 'removed-anywhere';

/**
 * Takes the lock of the Schedule for the job; tells why the job must not start where it must not. `onWait` is called
 * before a wait.
 */
export async function takeLock(
  spec: RecurringJobSpec,
  scheduledAt: Date,
  job: string,
  onWait: () => void,
): Promise<SkipReason | null> {
  const inbox: LockAnswer[] = [];
  setHandler(lockAnswerSignal, (message: unknown) => void inbox.push(...answersIn(message)));
  if (isDismissed(inbox)) return 'scheduleRemoved';
  const reason = await tryOrWait(spec, scheduledAt, job, onWait, inbox);
  // A lock that it has got goes to the next one as this run ends.
  return isDismissed(inbox) ? 'scheduleRemoved' : reason;
}

/** Whether it was told that the Schedule was removed; a run of a release that did not heed it here goes on. */
function isDismissed(inbox: LockAnswer[]): boolean {
  return hasRemoval(inbox) && patched(REMOVED_ANYWHERE);
}

function hasRemoval(answers: LockAnswer[]): boolean {
  return answers.some(({ kind }) => kind === 'removed');
}

async function tryOrWait(
  spec: RecurringJobSpec,
  scheduledAt: Date,
  job: string,
  onWait: () => void,
  inbox: LockAnswer[],
): Promise<SkipReason | null> {
  if (await startLock(spec, job, [])) return null;
  if (spec.overlap === 'skip') return tryOnceMore(spec, job);
  onWait();
  return waitForLock(spec, scheduledAt, job, inbox);
}

/** Asks the lock, which closes where the run that held it is gone. */
async function tryOnceMore(spec: RecurringJobSpec, job: string): Promise<SkipReason | null> {
  await askLock(spec, []);
  await untilClosed();
  return (await startLock(spec, job, [])) ? null : 'earlierRun';
}

async function waitForLock(
  spec: RecurringJobSpec,
  scheduledAt: Date,
  job: string,
  inbox: LockAnswer[],
): Promise<SkipReason | null> {
  const until = Date.now() + spec.queueForMs;
  const { workflowId, startTime } = workflowInfo();
  const [scheduled, started] = [scheduledAt.toISOString(), startTime.toISOString()];
  const self: LockWaiter = { workflowId, scheduledAt: scheduled, startedAt: started };
  let behind: LockWaiter[] = [];
  for (let waitMs = TRY_AGAIN_MS.first; ; waitMs = Math.min(2 * waitMs, TRY_AGAIN_MS.max)) {
    if (await askLock(spec, [self, ...behind])) {
      behind = [];
      const leftMs = Math.max(1, Math.min(waitMs, until - Date.now()));
      await condition(() => inbox.length > 0, leftMs, { summary: 'Wait for the job of an earlier run' });
    }
    const answers = inbox.splice(0);
    behind = [...behind, ...answers.flatMap(({ waiting }) => waiting)].slice(0, MAX_WAITING);
    if (hasRemoval(answers)) {
      await handOn(spec, job, behind);
      return 'scheduleRemoved';
    }
    await untilClosed();
    if (await startLock(spec, job, behind)) return null;
    if (Date.now() >= until) return 'queueWait';
  }
}

/** Those behind a run that is dismissed may be of a Schedule that was made anew. A lock that it starts tells them. */
async function handOn(spec: RecurringJobSpec, job: string, behind: LockWaiter[]): Promise<void> {
  if (behind.length === 0 || !patched(REMOVED_ANYWHERE)) return;
  if (!(await askLock(spec, behind))) await startLock(spec, job, behind);
}

function untilClosed(): Promise<void> {
  return sleep(CLOSING_MS, { summary: 'Let the lock close' });
}

/** False where another run holds the lock. */
async function startLock({ projectId, name }: RecurringJobSpec, job: string, waiting: LockWaiter[]): Promise<boolean> {
  const { workflowId, runId } = workflowInfo();
  const input: RecurringJobLockInput = { projectId, name, holder: { workflowId, runId, job }, waiting };
  try {
    // A cancelled run keeps the lock until its job has ended, which it cancels.
    await CancellationScope.nonCancellable(() =>
      startChild<(input: RecurringJobLockInput) => Promise<void>>(RECURRING_JOB_LOCK_WORKFLOW, {
        workflowId: recurringJobLockId(projectId, name),
        args: [input],
        typedSearchAttributes: projectAttributes(projectId),
        parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
        staticSummary: 'One job at a time',
      }),
    );
    return true;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return false;
    throw error;
  }
}

/** Asks the lock to tell these runs when it closes; false where it has closed, or takes no message. */
async function askLock({ projectId, name }: RecurringJobSpec, waiting: LockWaiter[]): Promise<boolean> {
  try {
    await getExternalWorkflowHandle(recurringJobLockId(projectId, name)).signal(awaitLockSignal, { waiting });
    return true;
  } catch (error) {
    if (isCancellation(error)) throw error;
    return false;
  }
}
