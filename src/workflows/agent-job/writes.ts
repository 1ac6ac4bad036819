/** Writes: the create and the follow-ups, each sent once, waited for, asked about and settled. */
import {
  ActivityCancellationType,
  ActivityFailure,
  CancellationScope,
  proxyActivities,
  workflowInfo,
} from '@temporalio/workflow';
import type { JobActivities, WriteResult } from '../../activities/index.js';
import { FAILURE, type UnknownOutcomeDetails, type UnknownOutcomePolicy } from '../../contract.js';
import { plainMarkdown } from '../../agent-job/markdown.js';
import {
  keyWaitMs,
  LONGEST_RETRY_AFTER_MS,
  NEXT_TURN_MS,
  notTakenWaitMs,
  resendWaitMs,
  spreadWaitMs,
  TURN_MS,
} from '../../agent-job/poll-plan.js';
import { readWriteResult, STRANGE_RESULT } from './activity-results.js';
import { logWrite } from './log.js';
import type { JobRun } from './job-run.js';
import type { Obstacle, WriteProgress } from './run-data.js';
import type { Turn } from './wait-point.js';

/**
 * The server takes the fence within 30 s of the attempt's start alone, and the last byte leaves at most 10 s later: in time before the
 * attempt's end, however long its worker stood still. From the fence on, 30 s hold one exchange (at most 20 s) and some slack.
 */
const WRITE_ATTEMPT = { heartbeatTimeout: '30 seconds', startToCloseTimeout: '45 seconds' } as const;
/** Where the upstream's rate is limited, a write goes before the thousands of reads (by default 3) that wait in the same queue. */
const BEFORE_READS = { priorityKey: 1 } as const;
/** A new attempt only ever follows a worker that died, or a fence that could not be raised. */
const RETRY = { initialInterval: '1 second', backoffCoefficient: 2, maximumInterval: '10 seconds' } as const;
/** Temporal shows at most so much of a summary. */
const SUMMARY_BYTES = 200;
/** Policy `retry`. */
const MOST_SENDS = 5;

const { awaitTurn } = proxyActivities<JobActivities>({
  // An attempt asks its worker, and at most reads once from the upstream.
  startToCloseTimeout: '40 seconds',
  // The waits come with each attempt; these are for attempts that end without one.
  retry: { initialInterval: '2 seconds', backoffCoefficient: 1 },
  // It sends nothing: the server drops it at once, whether a worker runs or not.
  cancellationType: ActivityCancellationType.TRY_CANCEL,
  summary: 'Wait for a turn to send',
});

const WRITE = { ...WRITE_ATTEMPT, retry: RETRY, priority: BEFORE_READS };
const { createJob } = proxyActivities<JobActivities>({ ...WRITE, summary: 'Create the job' });
const { sendMessage } = proxyActivities<JobActivities>({ ...WRITE, summary: 'Send a follow-up' });

/** Creates the job; returns once its id is known. */
export async function createRemoteJob(run: JobRun, turn: Turn): Promise<void> {
  run.beginWrite({ kind: 'create', askedAt: run.data.startedAt, requiresConfirmation: false });
  await settle(run, turn);
}

/** Sends follow-ups in the order queued, one at a time, for as long as the run lasts. */
export async function sendFollowUps(run: JobRun, turn: Turn): Promise<never> {
  for (;;) {
    await turn.until(() => run.followUps.next !== undefined && !turn.isOver());
    const next = run.followUps.next;
    if (!next) continue;
    run.beginWrite({
      kind: 'followUp',
      followUpId: next.id,
      askedAt: next.askedAt,
      requiresConfirmation: next.requiresConfirmation === true,
    });
    await settle(run, turn);
  }
}

/** Returns when the present write is settled: never, where the run ends before. */
async function settle(run: JobRun, turn: Turn): Promise<void> {
  for (let write = run.data.write; write; write = run.data.write) {
    if (turn.isOver()) await turn.until(() => !turn.isOver());
    else if (run.data.unknown) await decision(run, turn);
    else if (write.notBefore > Date.now()) await waitToSend(run, turn, write);
    else if (needsTurn(write)) await waitForTurn(run, turn, write);
    else {
      run.isInFlight = true;
      const result = await send(run, turn, write);
      // In one step: nobody sees a write that is over and its outcome not known.
      run.isInFlight = false;
      const { trouble } = run.data;
      apply(run, write, result);
      logWrite(run, write, result, trouble);
    }
  }
}

/** `isStrange`: this release can't read it, so that even policy `retry` does not send again. */
type SendResult = WriteResult & { isStrange?: true };

async function send(run: JobRun, turn: Turn, write: WriteProgress): Promise<SendResult> {
  const { spec, data, followUps } = run;
  const { askedAt } = write;
  const confirmedInRun = write.confirmed ? write.confirmationRequestedIn : null;
  const repeatedRun = data.isRepeated === true;
  const afterReset = write.requiresConfirmation || isResetRun() || repeatedRun;
  const { runId } = workflowInfo();
  const { turnUntil } = write;
  const input = { projectId: spec.projectId, confirmedInRun, askedAt, afterReset, repeatedRun, runId, turnUntil };
  try {
    const result: unknown = await turn.perform(() =>
      write.kind === 'create'
        ? createJob({ ...input, prompt: spec.prompt ?? '' })
        : sendMessage({ ...input, jobId: data.jobId ?? '', prompt: followUps.next?.prompt ?? '' }),
    );
    return readWriteResult(result) ?? { kind: 'inDoubt', reason: STRANGE_RESULT, afterReset: false, isStrange: true };
  } catch (error) {
    if (!(error instanceof ActivityFailure)) throw error;
    return {
      kind: 'inDoubt',
      reason: `the activity failed: ${error.cause?.message ?? error.message}`,
      afterReset: false,
    };
  }
}

/** Only an argument of an activity may depend on this: replay does not compare arguments. */
export function isResetRun(): boolean {
  return workflowInfo().runId !== workflowInfo().originalExecutionRunId;
}

function apply(run: JobRun, write: WriteProgress, result: SendResult): void {
  const hadTurn = write.turnUntil !== undefined;
  delete write.turnUntil;
  write.isHeldUp = result.kind !== 'inDoubt';
  switch (result.kind) {
    case 'accepted':
      if (write.kind === 'followUp') run.followUpDone('sent', result.job);
      else run.jobKnown(result.jobId, result.job);
      return;
    case 'rejected':
      return rejected(run, write, `${result.status}${result.error && `: ${result.error}`}`, result);
    case 'throttled':
      if (result.isHeld) {
        // The worker that held it back knows more than the one that gave it a turn.
        if (hadTurn) {
          write.notBefore = Date.now() + Math.min(result.retryAfterMs ?? NEXT_TURN_MS, LONGEST_RETRY_AFTER_MS);
        }
      } else {
        write.refusals += 1;
        const waitMs = notTakenWaitMs(write.refusals, result.retryAfterMs);
        write.notBefore = Date.now() + spreadWaitMs(waitMs, Math.random());
      }
      return waits(run, write, 'rateLimit', result.reason);
    case 'unauthorized':
      write.unauthorized = (write.unauthorized ?? 0) + 1;
      // Workers may have different keys: one gives turns for ever, another is refused.
      if (hadTurn) write.notBefore = Date.now() + keyWaitMs(write.unauthorized);
      return waits(run, write, 'key', result.reason);
    case 'notDelivered':
      write.notDelivered += 1;
      write.notBefore = Date.now() + resendWaitMs(write.notDelivered);
      return waits(run, write, 'upstream', result.reason);
    case 'inDoubt':
      write.wait = null;
      write.confirmationRequestedIn = result.confirmationRequestedIn ?? null;
      return unknown(run, write, result);
    default:
      // A kind that nobody treats would be sent again, at once and for ever.
      result satisfies never;
      return run.becomeUnknown(STRANGE_RESULT);
  }
}

function waits(run: JobRun, write: WriteProgress, what: Obstacle['for'], reason: string): void {
  const since = write.wait?.for === what ? write.wait.since : Date.now();
  write.wait = { for: what, since, reason };
  run.data.trouble = reason;
}

function rejected(run: JobRun, write: WriteProgress, text: string, details: { status: number; error: string }): void {
  if (run.mayHaveArrived) {
    const reason = `refused with ${text}, but an earlier send may have arrived`;
    if (write.kind === 'create') failAsUnknown(run, write, reason);
    else run.followUpDone('unknown', null, reason);
  } else if (write.kind === 'followUp') {
    run.followUpRejected(text);
  } else {
    const { status, error } = details;
    const message = `the upstream refused to create the job: ${text}`;
    run.stop({ kind: 'failed', type: FAILURE.createRejected, message, details: { status, error } });
  }
}

function unknown(run: JobRun, write: WriteProgress, result: SendResult & { kind: 'inDoubt' }): void {
  const { reason } = result;
  const policy = policyFor(run, result);
  // A cancelled run fails no more and sends no more: its closed state tells what nobody knows.
  if (policy === 'ask' || run.isCancelRequested) return run.becomeUnknown(reason, result.lookAfter);
  if (policy === 'fail') return failAsUnknown(run, write, reason);
  write.unknownSends += 1;
  write.inDoubtSince ??= Date.now();
  if (write.unknownSends >= MOST_SENDS) return failAsUnknown(run, write, `${MOST_SENDS} sends, the last: ${reason}`);
  write.notBefore = Date.now() + resendWaitMs(write.unknownSends);
  waits(run, write, 'upstream', reason);
}

function policyFor({ spec }: JobRun, { afterReset, isStrange }: SendResult): UnknownOutcomePolicy {
  if (afterReset || (isStrange && spec.onUnknownOutcome === 'retry')) return 'ask';
  return spec.onUnknownOutcome;
}

function failAsUnknown(run: JobRun, write: WriteProgress, reason: string): void {
  const { kind, followUpId = null } = write;
  const details: UnknownOutcomeDetails = { kind, jobId: run.data.jobId, followUpId, reason };
  const what = kind === 'create' ? 'create' : `follow-up ${followUpId}`;
  run.stop({
    kind: 'failed',
    type: FAILURE.unknownOutcome,
    message: `nobody knows whether the upstream took the ${what}: ${reason}`,
    details,
  });
  if (kind === 'followUp') {
    run.followUps.settle('unknown', reason);
    run.data.write = null;
  }
}

/** A durable timer, which ends early where the write's time is over. */
async function waitToSend(run: JobRun, turn: Turn, write: WriteProgress): Promise<void> {
  const summary = plainMarkdown(`Send again: ${run.data.trouble ?? 'not taken'}`, SUMMARY_BYTES);
  const endsAt = expiresAt(run, write);
  await turn.until(turn.isOver, Math.min(write.notBefore, endsAt) - Date.now(), summary);
  // A worker may wake long after either time.
  if (Date.now() > endsAt || (Date.now() === endsAt && write.notBefore > endsAt)) expire(run, write);
}

/** When a write that is not in flight is given up here. The deadline ends the wait of a create; the watch sees to it for a follow-up. `decideWithin` ends that of a write in doubt. */
function expiresAt({ data, spec }: JobRun, { kind, unknownSends, isHeldUp, inDoubtSince }: WriteProgress): number {
  // The next of a few sends of policy `retry` is near.
  if (unknownSends > 0 && isHeldUp !== true) return Infinity;
  const deadlineAt = kind === 'create' ? data.deadlineAt : Infinity;
  if (spec.decideWithinMs === null || inDoubtSince == null) return deadlineAt;
  return Math.min(deadlineAt, inDoubtSince + spec.decideWithinMs);
}

/** What was surely never sent expires with the run; of what may have arrived nobody knows. */
function expire(run: JobRun, write: WriteProgress): void {
  const reason = `${run.data.trouble ?? 'not taken'}; an earlier send may have arrived, and the time for this one is over`;
  if (!run.mayHaveArrived) run.data.hasExpired = true;
  else if (write.kind === 'create') failAsUnknown(run, write, reason);
  else run.followUpDone('unknown', null, reason);
}

/** Others of the project may wait too: a worker tells whose turn it is. */
function needsTurn({ wait, turnUntil = 0 }: WriteProgress): boolean {
  return (wait?.for === 'rateLimit' || wait?.for === 'key') && turnUntil <= Date.now();
}

/** The write's prompt stays out of this wait, and so does its fence: whatever ends it, nothing was sent. */
async function waitForTurn(run: JobRun, turn: Turn, write: WriteProgress): Promise<void> {
  const endsAt = expiresAt(run, write);
  const leftMs = endsAt - Date.now();
  const isGiven = leftMs > 0 && (await hasTurn(run, turn, write, leftMs));
  // A turn that comes too late, as for a worker that was away, is none.
  if (Date.now() > endsAt || (Date.now() === endsAt && !isGiven)) expire(run, write);
  else if (isGiven) write.turnUntil = Date.now() + TURN_MS;
}

async function hasTurn({ spec, data }: JobRun, turn: Turn, write: WriteProgress, forMs: number): Promise<boolean> {
  const operation = write.kind === 'create' ? 'create' : 'message';
  const scope = new CancellationScope();
  try {
    return await scope.run(() => {
      const given = awaitTurn({ projectId: spec.projectId, operation, jobId: data.jobId }).then(() => true);
      return Promise.race([given, turn.until(turn.isOver, forMs, 'Deadline').then(() => false)]);
    });
  } catch (error) {
    if (!(error instanceof ActivityFailure)) throw error;
    // Somebody ended it from outside.
    write.notBefore = Date.now() + NEXT_TURN_MS;
    return false;
  } finally {
    scope.cancel();
  }
}

async function decision(run: JobRun, turn: Turn): Promise<void> {
  const { data } = run;
  const leftMs = (data.decideBy ?? Infinity) - Date.now();
  // The timer is the judge: a second look at the clock could differ when the run is replayed.
  const isInTime = await turn.until(() => data.unknown === null || turn.isOver(), leftMs, 'A person decides');
  if (isInTime !== false || !data.unknown || !data.write) return;
  if (data.unknown.kind === 'followUp') run.resolveUnknown({ action: 'abandon' });
  else failAsUnknown(run, data.write, `${data.unknown.reason}; nobody decided in time`);
}
