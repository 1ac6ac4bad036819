/** Sends the create and the follow-ups, step by step, until each is settled. pending-write.ts owns their state. */
import {
  ActivityCancellationType,
  ActivityFailure,
  CancellationScope,
  proxyActivities,
  workflowInfo,
} from '@temporalio/workflow';
import type { JobActivities, WriteResult } from '../../activities/index.js';
import { plainMarkdown } from '../../agent-job/markdown.js';
import { isResetRun } from './continue-as-new.js';
import { readWriteResult, STRANGE_RESULT } from './activity-results.js';
import { logWrite } from './log.js';
import type { JobRun } from './job-run.js';
import type { PendingWrite } from './pending-write.js';
import { applyResult, failAsUnknownOutcome, type SendResult } from './write-results.js';
import type { WaitPoint } from './wait-point.js';

/**
 * The server accepts the fence only within 30 s of the attempt's start, and the last byte leaves at most 10 s later. So
 * it leaves before the attempt ends, even if the worker stood still. After the fence, 30 s hold one exchange (at most
 * 20 s).
 */
const WRITE_ATTEMPT = { heartbeatTimeout: '30 seconds', startToCloseTimeout: '45 seconds' } as const;
/**
 * Where the upstream's rate is limited, a write goes before the polls (priority 2 to 5) that wait in the same task
 * queue.
 */
const BEFORE_READS = { priorityKey: 1 } as const;
/** A new attempt only ever follows a worker that died, or a fence that could not be raised. */
const RETRY = { initialInterval: '1 second', backoffCoefficient: 2, maximumInterval: '10 seconds' } as const;
/** The wait for a key that somebody ended from outside begins again so soon. */
const ASK_AGAIN_MS = 1_000;
/** Temporal shows at most so much of a summary. */
const SUMMARY_BYTES = 200;

const { awaitKey } = proxyActivities<JobActivities>({
  // An attempt asks its worker, and at most reads once from the upstream.
  startToCloseTimeout: '40 seconds',
  // The waits come with each attempt; these are for attempts that end without one.
  retry: { initialInterval: '2 seconds', backoffCoefficient: 1 },
  // It sends nothing: the server drops it at once, whether a worker runs or not.
  cancellationType: ActivityCancellationType.TRY_CANCEL,
  summary: 'Wait for the project’s key',
});

const WRITE = { ...WRITE_ATTEMPT, retry: RETRY, priority: BEFORE_READS };
const { createJob } = proxyActivities<JobActivities>({ ...WRITE, summary: 'Create the job' });
const { sendMessage } = proxyActivities<JobActivities>({ ...WRITE, summary: 'Send a follow-up' });

/** Starts the activity of a write; what is written is the caller's. */
type Send = (input: Omit<Parameters<JobActivities['createJob']>[0], 'prompt'>) => Promise<WriteResult>;

/** Creates the job; returns its id. */
export async function createRemoteJob(run: JobRun, waitPoint: WaitPoint, prompt: string): Promise<string> {
  const write = run.beginWrite({ kind: 'create', askedAt: run.startedAt, requiresConfirmation: false });
  const send: Send = (input) => createJob({ ...input, prompt });
  const jobId = await settle(run, waitPoint, write, send, () => run.jobId);
  return jobId;
}

/** Sends follow-ups in the order queued, one at a time, for as long as the run lasts. */
export async function sendFollowUps(run: JobRun, waitPoint: WaitPoint, jobId: string): Promise<never> {
  for (;;) {
    await waitPoint.waitUntil(() => run.followUps.next !== undefined && !waitPoint.mustYield());
    const next = run.followUps.next;
    if (!next) continue;
    const { id: followUpId, prompt, askedAt, requiresConfirmation = false } = next;
    const priority = next.priority && { priority: next.priority };
    const write = run.beginWrite({ kind: 'followUp', followUpId, askedAt, requiresConfirmation, ...priority });
    const send: Send = (input) => sendMessage({ ...input, jobId, prompt });
    await settle(run, waitPoint, write, send, () => write.isSettled || null);
  }
}

/** Takes a write from step to step until what it is to bring is there: never, where the run ends before. */
async function settle<T>(
  run: JobRun,
  waitPoint: WaitPoint,
  write: PendingWrite,
  send: Send,
  outcome: () => T | null,
): Promise<T> {
  for (;;) {
    const settled = outcome();
    if (settled !== null) return settled;
    if (waitPoint.mustYield()) await waitPoint.waitUntil(() => !waitPoint.mustYield());
    else if (write.inDoubt) await decision(run, waitPoint, write);
    else if (write.notBefore > Date.now()) await waitToSend(run, waitPoint, write);
    else if (write.needsKey) await waitForKey(run, waitPoint, write);
    else {
      const input = sendInput(run, write);
      const before = write.interruption;
      const beganAt = Date.now();
      write.startSending();
      const result = await trySend(() => waitPoint.perform(() => send(input)));
      // In one step: nobody sees a write that is over and its outcome not known.
      applyResult(run, write, result, beganAt);
      logWrite(run, write, result, before);
    }
  }
}

function sendInput({ spec, isRepeated: repeatedRun }: JobRun, write: PendingWrite): Parameters<Send>[0] {
  const { identity, confirmedInRun, turn } = write;
  const { askedAt, requiresConfirmation, priority = spec.priority } = identity;
  const afterReset = requiresConfirmation || isResetRun() || repeatedRun;
  const { runId } = workflowInfo();
  const asked = { projectId: spec.projectId, priority, askedAt, confirmedInRun, afterReset, repeatedRun, runId };
  return { ...asked, turn: turn?.turn, turnUntil: turn?.until, isOverdue: write.isOverdue };
}

async function trySend(send: () => Promise<unknown>): Promise<SendResult> {
  try {
    const result = await send();
    return readWriteResult(result) ?? { kind: 'inDoubt', reason: STRANGE_RESULT, afterReset: false, isStrange: true };
  } catch (error) {
    if (!(error instanceof ActivityFailure)) throw error;
    const reason = `the activity failed: ${error.cause?.message ?? error.message}`;
    return { kind: 'inDoubt', reason, afterReset: false };
  }
}

/** A durable timer, which ends early where the write's time is over. */
async function waitToSend(run: JobRun, waitPoint: WaitPoint, write: PendingWrite): Promise<void> {
  const { notBefore } = write;
  const endsAt = expiresAt(run, write);
  const isOver = () => waitPoint.mustYield() || write.turn !== null || write.notBefore !== notBefore;
  await waitPoint.waitUntil(isOver, Math.min(notBefore, endsAt) - Date.now(), summaryOf(write));
  if (write.turn || write.notBefore !== notBefore) return;
  // A worker may wake long after either time.
  if (Date.now() > endsAt || (Date.now() === endsAt && notBefore > endsAt)) expire(run, write);
}

function summaryOf({ interruption, queued }: PendingWrite): string {
  const why = interruption?.reason ?? 'not taken';
  const place = queued?.position === undefined ? '' : ` (place ${queued.position})`;
  return plainMarkdown(
    queued ? `Wait for a turn${place}, then ask again: ${why}` : `Send again: ${why}`,
    SUMMARY_BYTES,
  );
}

/**
 * When a write that waits is given up. The deadline and `startWithin` end the wait of a create; for a follow-up, the
 * poll loop checks the deadline. `decideWithin` ends the wait of a write in doubt. A create that may have arrived has
 * had its first turn.
 */
function expiresAt({ clock, spec, startedAt }: JobRun, write: PendingWrite): number {
  const { identity, isHeldUp, inDoubtSince, mayHaveArrived, countsAsInFlight } = write;
  // The next of a few sends of policy `retry` is near.
  if (!isHeldUp) return Infinity;
  const isCreate = identity.kind === 'create';
  const deadlineAt = isCreate && !clock.isStopped && !countsAsInFlight ? clock.deadlineAt : Infinity;
  const startBy = isCreate && !mayHaveArrived ? startedAt + (spec.startWithinMs ?? Infinity) : Infinity;
  const decideBy = inDoubtSince === null ? Infinity : inDoubtSince + (spec.decideWithinMs ?? Infinity);
  return Math.min(deadlineAt, startBy, decideBy);
}

/** What was surely never sent expires with the run; of what may have arrived nobody knows. */
function expire(run: JobRun, write: PendingWrite): void {
  const why = write.interruption?.reason ?? 'not taken';
  const reason = `${why}; an earlier send may have arrived, and the time for this one is over`;
  if (!write.mayHaveArrived) return run.clock.expire();
  if (write.identity.kind === 'create') return failAsUnknownOutcome(run, write, reason);
  run.resumeClock();
  run.followUpDone('unknown', null, reason);
}

/** The write's prompt stays out of this wait, and so does its fence: whatever ends it, nothing was sent. */
async function waitForKey(run: JobRun, waitPoint: WaitPoint, write: PendingWrite): Promise<void> {
  const endsAt = expiresAt(run, write);
  const leftMs = endsAt - Date.now();
  const isFound = leftMs > 0 && (await isKeyFound(run, waitPoint, write, leftMs));
  // One that is found too late, as by a worker that was away, is of no use.
  if (Date.now() > endsAt || (Date.now() === endsAt && !isFound)) expire(run, write);
  else if (isFound) write.foundKey();
}

async function isKeyFound(
  { spec, jobId }: JobRun,
  waitPoint: WaitPoint,
  write: PendingWrite,
  forMs: number,
): Promise<boolean> {
  const scope = new CancellationScope();
  try {
    return await scope.run(() => {
      const found = awaitKey({ projectId: spec.projectId, jobId }).then(() => true);
      return Promise.race([found, waitPoint.waitUntil(waitPoint.mustYield, forMs, 'Deadline').then(() => false)]);
    });
  } catch (error) {
    if (!(error instanceof ActivityFailure)) throw error;
    // Somebody ended it from outside.
    write.postpone(Date.now() + ASK_AGAIN_MS);
    return false;
  } finally {
    scope.cancel();
  }
}

async function decision(run: JobRun, waitPoint: WaitPoint, write: PendingWrite): Promise<void> {
  const leftMs = (write.decideBy ?? Infinity) - Date.now();
  // The timer is the judge: a second look at the clock could differ when the run is replayed.
  const isInTime = await waitPoint.waitUntil(
    () => write.inDoubt === null || waitPoint.mustYield(),
    leftMs,
    'A person decides',
  );
  const { inDoubt } = write;
  if (isInTime !== false || !inDoubt || write.isSettled) return;
  if (inDoubt.kind === 'followUp') run.resolveUnknown({ action: 'abandon' }, 'time');
  else failAsUnknownOutcome(run, write, `${inDoubt.reason}; nobody decided in time`);
}
