import {
  CancellationScope,
  condition,
  continueAsNew,
  getExternalWorkflowHandle,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import {
  awaitLockSignal,
  lockAnswerSignal,
  scheduleRemovedSignal,
  type LockAnswer,
  type LockWaiter,
  type RecurringJobLockInput,
} from '../../contract.js';
import { lockDetails } from './details.js';
import { waitersIn } from './lock-messages.js';

/** Bounds what is handed on. A run that is not in the line tries by itself. */
const MAX_WAITING = 1_000;

/**
 * The lock of a recurring job, as long as it is open: a child of the run that holds it, which the server cancels when
 * that run ends. It keeps the line of the runs that wait, and tells the first of them when it closes.
 */
export async function recurringJobLock(input: RecurringJobLockInput): Promise<void> {
  const line = new Line(waitersIn(input));
  let isReleased = false;
  let isRemoved = false;
  const refresh = () => setCurrentDetails(lockDetails(input, line.length));
  setHandler(awaitLockSignal, (message: unknown) => {
    line.add(waitersIn(message));
    refresh();
  });
  setHandler(scheduleRemovedSignal, () => void (isRemoved = true));
  refresh();
  CancellationScope.current().cancelRequested.catch(() => (isReleased = true));
  return CancellationScope.nonCancellable(async () => {
    for (;;) {
      await condition(() => isReleased || isRemoved || workflowInfo().continueAsNewSuggested);
      if (isRemoved) {
        isRemoved = false;
        await dismiss(line);
      } else if (isReleased) {
        return await handOver(line);
      } else {
        return await continueAsNew<typeof recurringJobLock>({ ...input, waiting: line.takeAll() });
      }
      refresh();
    }
  });
}

/** The runs that wait, the earliest scheduled time first. */
class Line {
  #waiters: LockWaiter[] = [];

  constructor(waiting: LockWaiter[]) {
    this.add(waiting);
  }

  get length(): number {
    return this.#waiters.length;
  }

  add(waiting: LockWaiter[]): void {
    const known = new Set(this.#waiters.map(({ workflowId }) => workflowId));
    this.#waiters.push(...waiting.filter(({ workflowId }) => !known.has(workflowId)));
    this.#waiters.sort((a, b) => (a.scheduledAt < b.scheduledAt ? -1 : 1));
    this.#waiters.splice(MAX_WAITING);
  }

  takeFirst(): LockWaiter | undefined {
    return this.#waiters.shift();
  }

  takeAll(): LockWaiter[] {
    return this.#waiters.splice(0);
  }
}

/**
 * Tells the first run of the line, which hands the others on. One that came meanwhile is told too: it asks the next
 * lock.
 */
async function handOver(line: Line): Promise<void> {
  let isHandedOver = false;
  for (let next = line.takeFirst(); next; next = line.takeFirst()) {
    const waiting = isHandedOver ? [] : line.takeAll();
    if (await tell(next, { kind: 'free', waiting })) isHandedOver = true;
    else line.add(waiting);
  }
}

async function dismiss(line: Line): Promise<void> {
  await Promise.all(line.takeAll().map((waiter) => tell(waiter, { kind: 'removed', waiting: [] })));
}

/** False where that run has ended. */
async function tell({ workflowId }: LockWaiter, answer: LockAnswer): Promise<boolean> {
  try {
    await getExternalWorkflowHandle(workflowId).signal(lockAnswerSignal, answer);
    return true;
  } catch {
    return false;
  }
}
