/**
 * The write fence. Decides when an attempt may send its last byte, and which writes ask a person first, so that a write
 * is sent at most once, also if a process dies in between.
 *
 * When all but the last byte of the request have left, an *awaited* heartbeat through the Temporal server marks the
 * attempt as "sent". The task token holds the attempt, so the call is a compare-and-set: a stale attempt fails,
 * and a later attempt that finds the mark does not send again. docs/guarantees.md says what stays
 * between mark and last byte, and agent-job/waits.ts when a check of the upstream surely shows such a write.
 */
import { activityInfo, ApplicationFailure, Context } from '@temporalio/activity';
import { startStopwatch } from '../../temporal/elapsed-time.js';
import type { Confirmation, Life, WriteOutcome } from '../../contract/write-outcome.js';

/** From before the first mark to the last byte: later, the workflow may know that the attempt was given up. */
const MAX_SEND_DELAY_MS = 10_000;
/** One call to the server, its own retries included. */
const MARK_TIMEOUT_MS = 5_000;
const FENCE_REFUSED = 'FenceRefused';

interface Mark {
  sent: boolean;
}

/** What is known of a write before it is sent. */
export interface AskedWrite {
  /** When the write was asked for, in milliseconds of the server's clock. */
  askedAt: number;
  /** The life that sends it. A reset hands the activity to a run of another id, without its mark. */
  life: Life;
  /** What a person confirmed; null if none did. A later reset or restore asks anew. */
  confirmed: Confirmation | null;
  /** The time of the setting `CONFIRM_WRITES_BEFORE`. */
  confirmWritesBefore?: string | undefined;
}

const WHAT_HAPPENED = {
  reset: 'the workflow was reset',
  repeated: 'Temporal started this run again',
  // Temporal may not list the runs before.
  scheduled: 'this workflow id may have had a run before',
} as const;

/**
 * What is known before anything is sent: an outcome in doubt if an earlier attempt, or an earlier run, may have sent
 * this write; otherwise null.
 */
export function checkPriorAttempt(asked: AskedWrite): WriteOutcome | null {
  const { life, confirmed, confirmWritesBefore } = asked;
  if (isOfLostTime(asked) && confirmed?.confirmWritesBefore !== confirmWritesBefore) {
    return inDoubt('Temporal was restored from a backup: this may have been sent in the time it lost');
  }
  if (life.runId !== ownRunId() || (life.doubt && confirmed?.runId !== ownRunId())) {
    return inDoubt(`${WHAT_HAPPENED[life.doubt ?? 'reset']}: the run before may have sent this already`);
  }
  if (mayBeSent(activityInfo().heartbeatDetails)) {
    return inDoubt('the worker that was about to send this died or lost its connection');
  }
  return null;
}

function inDoubt(reason: string): WriteOutcome {
  return { kind: 'inDoubt', reason };
}

/** Details that this release can't read may be the mark of another release. */
function mayBeSent(details: unknown): boolean {
  return details !== undefined && (details as Partial<Mark> | null)?.sent !== false;
}

/** Whether a restore of Temporal may have forgotten the send of this write; true if the write's time is not known. */
function isOfLostTime({ askedAt, confirmWritesBefore }: AskedWrite): boolean {
  return confirmWritesBefore !== undefined && !(askedAt >= Date.parse(confirmWritesBefore));
}

/** What a person must confirm, whatever the policy; null if no life before and no restore may have sent it. */
export function toBeConfirmed(asked: AskedWrite): Confirmation | null {
  const { life, confirmWritesBefore } = asked;
  const isInDoubt = life.doubt || life.runId !== ownRunId() || isOfLostTime(asked);
  return isInDoubt ? { runId: ownRunId(), confirmWritesBefore } : null;
}

function ownRunId(): string {
  return activityInfo().workflowExecution?.runId ?? '';
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
 * Nothing was sent, though the server may hold the mark: its answer was lost, or it asks this attempt to pause. Only
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
