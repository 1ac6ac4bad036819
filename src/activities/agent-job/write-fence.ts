/**
 * The write fence. Decides when an attempt may send its last byte, and which writes ask a person first, so that a write
 * is sent at most once, also if a process dies in between.
 *
 * When all but the last byte of the request have left, an *awaited* heartbeat through the Temporal server marks the
 * attempt as "sent". The task token holds the attempt, so the call is a compare-and-set: a stale attempt is refused,
 * and a later attempt that finds the mark does not send again. docs/guarantees.md says what stays
 * between mark and last byte, and agent-job/waits.ts when a read can be trusted to show such a write.
 */
import { activityInfo, ApplicationFailure, Context } from '@temporalio/activity';
import { startStopwatch } from '../../temporal/elapsed-time.js';
import type { WriteOutcome } from '../../contract/write-outcome.js';

/**
 * From before the attempt's first mark to the last byte. Later, the server may have given the attempt up, and the
 * workflow may go by that.
 */
const MAX_SEND_DELAY_MS = 10_000;
/** One call to the server, its own retries included. */
const MARK_TIMEOUT_MS = 5_000;
const FENCE_REFUSED = 'FenceRefused';

interface Mark {
  sent: boolean;
}

/** What is known of a write before it is sent. */
export interface FenceOptions {
  /** An operator reset the workflow: the run before may have sent this write. */
  afterReset: boolean;
  /** Temporal itself started the workflow again, or a Schedule may have; `afterReset` is true then too. */
  repeatedRun?: boolean;
  /** A Schedule started the run. */
  isScheduled?: boolean;
  /** The `confirmationRequest` that a person answered with "send". A later reset or restore asks anew. */
  confirmedInRun?: string | null;
  /** When the write was asked for, in milliseconds of the server's clock. */
  askedAt: number;
  /** The time of the setting `CONFIRM_WRITES_BEFORE`. */
  confirmWritesBefore?: string | undefined;
  /** The run that asked for this write: a reset hands it to a run of another id, without its mark. */
  runId?: string;
}

/**
 * What is known before anything is sent: an outcome in doubt if an earlier attempt, or an earlier run, may have sent
 * this write; otherwise null.
 */
export function checkPriorAttempt({ confirmedInRun, ...asked }: FenceOptions): WriteOutcome | null {
  const [confirmedRun, confirmedTime] = confirmedInRun?.split(' ') ?? [];
  if (isOfLostTime(asked) && confirmedTime !== asked.confirmWritesBefore) {
    return inDoubt('Temporal was restored from a backup: this may have been sent in the time it lost');
  }
  if (isFromAnotherRun(asked) || (asked.afterReset && confirmedRun !== activityInfo().workflowExecution?.runId)) {
    return inDoubt(`${whatHappened(asked)}: the run before may have sent this already`);
  }
  if (mayBeSent(activityInfo().heartbeatDetails)) {
    return inDoubt('the worker that was about to send this died or lost its connection');
  }
  return null;
}

/** A Schedule's run may be the first or not: Temporal may not list the runs before. */
function whatHappened({ repeatedRun, isScheduled }: Partial<FenceOptions>): string {
  if (repeatedRun !== true) return 'the workflow was reset';
  return isScheduled === true ? 'this workflow id may have had a run before' : 'Temporal started this run again';
}

function inDoubt(reason: string): WriteOutcome {
  return { kind: 'inDoubt', reason };
}

/** Details that this release can't read may be the mark of another release. */
function mayBeSent(details: unknown): boolean {
  return details !== undefined && (details as Partial<Mark> | null)?.sent !== false;
}

/** Whether a restore of Temporal may have forgotten the send of this write; true if the write's time is not known. */
function isOfLostTime({ askedAt, confirmWritesBefore }: FenceOptions): boolean {
  return confirmWritesBefore !== undefined && !(askedAt >= Date.parse(confirmWritesBefore));
}

/** Whether a person must be asked, whatever the policy: a reset or a restore may have forgotten that it was sent. */
export function requiresConfirmation(asked: FenceOptions): boolean {
  return asked.afterReset || isFromAnotherRun(asked) || isOfLostTime(asked);
}

/** What a person is asked about now: this run, and the restore if there was one. */
export function confirmationRequest({ confirmWritesBefore }: FenceOptions): string {
  const runId = activityInfo().workflowExecution?.runId ?? '';
  return confirmWritesBefore === undefined ? runId : `${runId} ${confirmWritesBefore}`;
}

/** Whether a reset handed this write, as the run before had asked for it, to the run that it made. */
function isFromAnotherRun({ runId }: FenceOptions): boolean {
  return runId !== undefined && runId !== activityInfo().workflowExecution?.runId;
}

/**
 * The fence of this attempt, a fencing token as Kleppmann describes it: called before the last byte of each of its
 * requests, it marks the attempt as sent, and from then on no other attempt sends. It resolves to the question to ask
 * right before that byte leaves; false means that it is too late for this attempt to send anything.
 */
export function createFence(): () => Promise<() => boolean> {
  const context = Context.current();
  let sinceFirstMark: (() => number) | undefined;
  return async () => {
    const elapsed = (sinceFirstMark ??= startStopwatch());
    await markSent(context);
    return () => elapsed() < MAX_SEND_DELAY_MS;
  };
}

/** Whether it ended because the server did not take the mark. */
export function isFenceRefused(error: unknown): boolean {
  return error instanceof ApplicationFailure && error.type === FENCE_REFUSED;
}

/**
 * Nothing was sent, though the server may hold the mark (its answer was lost, or it asks this attempt to pause); only
 * while the activity runs.
 */
export function clearSent(): void {
  Context.current().heartbeat({ sent: false } satisfies Mark);
}

/**
 * Takes the mark back, confirmed by the server: the upstream has said that it did not accept what was sent. False if
 * the server did not take it.
 */
export async function confirmNotAccepted(): Promise<boolean> {
  return setMark(Context.current(), { sent: false }).then(
    () => true,
    () => false,
  );
}

function setMark({ client, info }: Context, mark: Mark): Promise<void> {
  return client.withDeadline(Date.now() + MARK_TIMEOUT_MS, () => client.activity.heartbeat(info.taskToken, mark));
}

async function markSent(context: Context): Promise<void> {
  try {
    await setMark(context, { sent: true });
  } catch (error) {
    const why = error instanceof Error ? error.name : typeof error;
    throw ApplicationFailure.create({
      message: `nothing was sent: the Temporal server did not take the mark (${why})`,
      type: FENCE_REFUSED,
      ...(error instanceof Error ? { cause: error } : {}),
    });
  }
}
