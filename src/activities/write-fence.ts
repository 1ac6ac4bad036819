/**
 * The write fence: a write is sent at most once, whoever dies in between.
 *
 * Before the bytes leave, an *awaited* heartbeat through the Temporal server marks the attempt as "sent". The task token holds
 * the attempt, so the call is a compare-and-set: a stale attempt is refused, and a later attempt that finds the mark does
 * not send again. What stays between mark and last byte is told in docs/guarantees.md.
 */
import { activityInfo, ApplicationFailure, Context } from '@temporalio/activity';
import type { WriteOutcome } from './write-outcome.js';

/** From before the mark to the last byte; later, the server may have given the attempt up and told the workflow so. */
const LATEST_SEND_MS = 10_000;
/** One call to the server, its own retries included. */
const MARK_TIMEOUT_MS = 5_000;

interface Mark {
  sent: boolean;
}

export interface FenceOptions {
  /** The workflow was reset by an operator: the run before may have done this write. */
  resetRun: boolean;
  /** Temporal itself started the workflow again, by a retry policy or a cron schedule; `resetRun` is true then too. */
  repeatedRun?: boolean;
  /** The run in which a person was asked because of a reset, and said to send; a further reset repeats the decision, not the question. */
  confirmedIn?: string | null;
  /** The workflow run that asked for this write: a reset hands what was pending then to a run of another id, without its mark. */
  runId?: string;
}

/** What is known before anything is sent: an unknown outcome where an earlier attempt, or an earlier run, may have sent this write; else null. */
export function unknownBefore({ confirmedIn, ...asked }: FenceOptions): WriteOutcome | null {
  if (isFromAnotherRun(asked) || (asked.resetRun && confirmedIn !== activityInfo().workflowExecution?.runId)) {
    const what = asked.repeatedRun === true ? 'Temporal started this run again' : 'the workflow was reset';
    return { kind: 'unknown', reason: `${what}: the run before may have sent this already` };
  }
  if (mayBeMarked(activityInfo().heartbeatDetails)) {
    return { kind: 'unknown', reason: 'the worker that was about to send this died or lost its connection' };
  }
  return null;
}

/** Details that this release can't read may be the mark of another release. */
function mayBeMarked(details: unknown): boolean {
  return details !== undefined && (details as Partial<Mark> | null)?.sent !== false;
}

/** Whether a reset handed this write, as the run before had asked for it, to the run that it made. */
export function isFromAnotherRun({ runId }: Pick<FenceOptions, 'runId'>): boolean {
  return runId !== undefined && runId !== activityInfo().workflowExecution?.runId;
}

/**
 * Raises the fence for this attempt: from here on no other attempt sends. Answers with the question to ask right before the
 * first byte leaves; false means that it is too late for this attempt to send anything.
 */
export async function raiseFence(): Promise<() => boolean> {
  const startedAt = performance.now();
  await markSent();
  return () => performance.now() - startedAt < LATEST_SEND_MS;
}

async function markSent(): Promise<void> {
  const { client, info } = Context.current();
  try {
    await client.withDeadline(Date.now() + MARK_TIMEOUT_MS, () =>
      client.activity.heartbeat(info.taskToken, { sent: true } satisfies Mark),
    );
  } catch (error) {
    // Nothing was sent. The server may hold the mark all the same (its answer was lost, or it asks this attempt to pause): take it back.
    Context.current().heartbeat({ sent: false } satisfies Mark);
    const why = error instanceof Error ? error.name : typeof error;
    throw ApplicationFailure.create({
      message: `nothing was sent: the Temporal server did not take the mark (${why})`,
      type: 'FenceRefused',
      ...(error instanceof Error ? { cause: error } : {}),
    });
  }
}
