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
import { answersIn } from './lock-messages.js';

/** The lock that told a run of its turn has closed by then. */
const HAND_OVER_MS = 1_000;
/** A run that hears nothing tries by itself: whoever held the lock may have been terminated before it told anybody. */
const TRY_AGAIN_MS = { first: 60_000, max: 3_600_000 };

/** Takes the lock of the Schedule for the job; tells why not where it does not. `onWait` is called before a wait. */
export async function takeLock(
  spec: RecurringJobSpec,
  scheduledAt: Date,
  jobWorkflowId: string,
  onWait: () => void,
): Promise<SkipReason | null> {
  const inbox: LockAnswer[] = [];
  setHandler(lockAnswerSignal, (message: unknown) => void inbox.push(...answersIn(message)));
  const until = Date.now() + spec.queueForMs;
  const self: LockWaiter = { workflowId: workflowInfo().workflowId, scheduledAt: scheduledAt.toISOString() };
  let behind: LockWaiter[] = [];
  for (let waitMs = TRY_AGAIN_MS.first; ; waitMs = Math.min(2 * waitMs, TRY_AGAIN_MS.max)) {
    if (await startLock(spec, jobWorkflowId, behind)) return null;
    if (spec.overlap === 'skip') return 'earlierRun';
    onWait();
    if (!(await standInLine(spec, [self, ...behind]))) {
      await sleep(HAND_OVER_MS);
      continue;
    }
    behind = [];
    await condition(() => inbox.length > 0, Math.max(1, Math.min(waitMs, until - Date.now())));
    const answers = inbox.splice(0);
    if (answers.some(({ kind }) => kind === 'removed')) return 'scheduleRemoved';
    if (answers.length === 0 && Date.now() >= until) return 'queueWait';
    behind = answers.flatMap(({ waiting }) => waiting);
    if (answers.length > 0) await sleep(HAND_OVER_MS);
  }
}

/** False where another run holds the lock. */
async function startLock(
  { projectId, name }: RecurringJobSpec,
  holder: string,
  waiting: LockWaiter[],
): Promise<boolean> {
  const input: RecurringJobLockInput = { projectId, name, holder, waiting };
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

/** False where the lock has closed meanwhile, or takes no message. */
async function standInLine({ projectId, name }: RecurringJobSpec, waiting: LockWaiter[]): Promise<boolean> {
  try {
    await getExternalWorkflowHandle(recurringJobLockId(projectId, name)).signal(awaitLockSignal, { waiting });
    return true;
  } catch (error) {
    if (isCancellation(error)) throw error;
    return false;
  }
}
