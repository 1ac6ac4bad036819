import {
  CancellationScope,
  condition,
  getExternalWorkflowHandle,
  makeContinueAsNewFunc,
  setCurrentDetails,
  setHandler,
} from '@temporalio/workflow';
import {
  awaitLockSignal,
  lockAnswerSignal,
  scheduleRemovedSignal,
  type LockAnswer,
  type LockWaiter,
  type RecurringJobLockInput,
} from '../../contract.js';
import { isNewRunWanted, nextRunVersion } from '../worker-version.js';
import { lockDetails } from './details.js';
import { holderIn, MAX_WAITING, removalIn, waitersIn } from './lock-messages.js';

/** How long after a check of the holder the next one may follow: each is an event in the holder's history. */
const CHECK_MS = { first: 60_000, max: 3_600_000 };

/**
 * The lock of a recurring job, as long as it is open: a child of the run that holds it, which the server cancels when
 * that run ends. It keeps the line of the runs that wait, and tells the first of them when it closes.
 */
export async function recurringJobLock(input: RecurringJobLockInput): Promise<void> {
  const lock = new Lock(input);
  const show = () => setCurrentDetails(lockDetails(lock.holderJob, lock.line.length));
  setHandler(awaitLockSignal, (message: unknown) => {
    lock.ask(waitersIn(message));
    show();
  });
  setHandler(scheduleRemovedSignal, () => lock.remove());
  CancellationScope.current().cancelRequested.catch(() => lock.release());
  return CancellationScope.nonCancellable(async () => {
    for (;;) {
      show();
      await condition(() => lock.todo() !== null || isNewRunWanted());
      switch (lock.todo()) {
        case 'close':
          return handOver(lock.line);
        case 'dismiss':
          await dismiss(lock.takeRemoved());
          break;
        case 'check':
          await lock.check();
          break;
        default:
          return makeContinueAsNewFunc<typeof recurringJobLock>(nextRunVersion())({ ...input, ...lock.carried() });
      }
    }
  });
}

class Lock {
  readonly line: Line;
  readonly #holder: { workflowId: string; runId: string; job: string } | null;
  #isReleased = false;
  #removed: LockWaiter[] = [];
  #removedAt: string;
  #isAsked = false;
  #checkMs = CHECK_MS.first;
  #nextCheckAt = 0;

  constructor(input: RecurringJobLockInput) {
    this.line = new Line(waitersIn(input));
    this.#holder = holderIn(input);
    this.#removedAt = removalIn(input);
  }

  get holderJob(): string {
    return this.#holder?.job ?? '';
  }

  ask(waiting: LockWaiter[]): void {
    this.line.add(waiting);
    this.#isAsked = true;
    this.#dismissRemoved();
  }

  release(): void {
    this.#isReleased = true;
  }

  remove(): void {
    this.#removedAt = new Date().toISOString();
    this.#dismissRemoved();
  }

  /** A run that started before the removal may ask after it. */
  #dismissRemoved(): void {
    const all = this.line.takeAll();
    this.#removed.push(...all.filter(({ startedAt }) => startedAt <= this.#removedAt));
    this.line.add(all.filter(({ startedAt }) => startedAt > this.#removedAt));
  }

  carried(): Pick<RecurringJobLockInput, 'waiting' | 'removedAt'> {
    return { waiting: this.line.takeAll(), ...(this.#removedAt !== '' && { removedAt: this.#removedAt }) };
  }

  takeRemoved(): LockWaiter[] {
    return this.#removed.splice(0);
  }

  todo(): 'dismiss' | 'close' | 'check' | null {
    if (this.#removed.length > 0) return 'dismiss';
    if (this.#isReleased) return 'close';
    return this.#isAsked && Date.now() >= this.#nextCheckAt ? 'check' : null;
  }

  /** Closes where the holder is gone: the server does not end the children of a run that an operator has reset. */
  async check(): Promise<void> {
    this.#isAsked = false;
    const isHeld = this.#holder !== null && (await tell(this.#holder, { kind: 'held', waiting: [] }));
    if (!isHeld) this.release();
    this.#nextCheckAt = Date.now() + this.#checkMs;
    this.#checkMs = Math.min(2 * this.#checkMs, CHECK_MS.max);
  }
}

/** The runs that wait, the earliest scheduled time first. */
class Line {
  readonly #waiters: LockWaiter[] = [];

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

async function dismiss(waiting: LockWaiter[]): Promise<void> {
  await Promise.all(waiting.map((waiter) => tell(waiter, { kind: 'removed', waiting: [] })));
}

/** False where that run has ended. */
async function tell({ workflowId, runId }: { workflowId: string; runId?: string }, answer: LockAnswer) {
  try {
    await getExternalWorkflowHandle(workflowId, runId).signal(lockAnswerSignal, answer);
    return true;
  } catch {
    return false;
  }
}
