/** What the end of a send means for the write, and for the run. */
import type { WriteResult } from '../../activities/index.js';
import { FAILURE, type UnknownOutcomeDetails, type UnknownOutcomePolicy } from '../../contract.js';
import { STRANGE_RESULT } from './activity-results.js';
import type { JobRun } from './job-run.js';
import { MAX_SENDS, type PendingWrite } from './pending-write.js';

/** `isStrange`: this release can't read it, so that even policy `retry` does not send again. */
export type SendResult = WriteResult & { isStrange?: true };

/** Takes in how a send ended; `beganAt` in milliseconds. */
export function applyResult(run: JobRun, write: PendingWrite, result: SendResult, beganAt: number): void {
  const now = Date.now();
  if (result.kind !== 'throttled') run.resumeClock();
  switch (result.kind) {
    case 'accepted':
      if (write.identity.kind === 'followUp') return run.followUpDone('sent', result.job);
      return run.jobKnown(result.jobId, result.job);
    case 'rejected':
      return rejected(run, write, `${result.status}${result.error && `: ${result.error}`}`, result);
    case 'throttled':
      write.throttle({ ...result, queued: result.queued ?? null }, now);
      return run.clock.waitForTurn(beganAt);
    case 'unauthorized':
      return write.refuseKey(result.reason, now);
    case 'notDelivered':
      return write.failDelivery(result.reason, now);
    case 'inDoubt':
      // Of a run before a reset or a restore, nobody knows when it sent.
      write.noteDoubt(result.afterReset ? run.startedAt : beganAt);
      return inDoubt(run, write, result);
    default:
      // A kind that nobody treats would be sent again, at once and for ever.
      result satisfies never;
      return run.becomeInDoubt(STRANGE_RESULT);
  }
}

function rejected(run: JobRun, write: PendingWrite, text: string, details: { status: number; error: string }): void {
  const { kind } = write.identity;
  if (write.mayHaveArrived) {
    const reason = `refused with ${text}, but an earlier send may have arrived`;
    if (kind === 'create') failAsUnknownOutcome(run, write, reason);
    else run.followUpDone('unknown', null, reason);
  } else if (kind === 'followUp') {
    run.followUpRejected(text);
  } else {
    const { status, error } = details;
    const message = `the upstream refused to create the job: ${text}`;
    run.failWrite({ kind: 'failed', type: FAILURE.createRejected, message, details: { status, error } });
  }
}

function inDoubt(run: JobRun, write: PendingWrite, result: SendResult & { kind: 'inDoubt' }): void {
  const { reason, lookAfter, confirmationRequestedIn } = result;
  const policy = policyFor(run, result);
  // A cancelled run fails no more and sends no more: its closed state tells what nobody knows.
  if (policy === 'ask' || run.isCancelRequested) return run.becomeInDoubt(reason, lookAfter, confirmationRequestedIn);
  if (policy === 'fail') return failAsUnknownOutcome(run, write, reason);
  if (!write.resend(reason, Date.now())) failAsUnknownOutcome(run, write, `${MAX_SENDS} sends, the last: ${reason}`);
}

function policyFor({ spec }: JobRun, { afterReset, isStrange }: SendResult): UnknownOutcomePolicy {
  if (afterReset || (isStrange && spec.onUnknownOutcome === 'retry')) return 'ask';
  return spec.onUnknownOutcome;
}

/** The run fails, for nobody knows what became of its write. A cancelled run shows its create in doubt instead. */
export function failAsUnknownOutcome(run: JobRun, write: PendingWrite, reason: string): void {
  const { kind, followUpId = null } = write.identity;
  if (run.isCancelRequested && kind === 'create' && !write.inDoubt) return run.becomeInDoubt(reason);
  const details: UnknownOutcomeDetails = { kind, jobId: run.jobId, followUpId, reason };
  const what = kind === 'create' ? 'create' : `follow-up ${followUpId}`;
  const message = `nobody knows whether the upstream took the ${what}: ${reason}`;
  run.failWrite({ kind: 'failed', type: FAILURE.unknownOutcome, message, details }, reason);
}
