/**
 * Decides the next step of a write: send it, or wait for a time, a worker or a person, until it is resolved. Reports to
 * the queue what no activity reports. write-transitions.ts decides what becomes of a write.
 */
import {
  ActivityCancellationType,
  ActivityFailure,
  CancellationScope,
  getExternalWorkflowHandle,
  proxyActivities,
  workflowInfo,
} from '@temporalio/workflow';
import type { JobActivities, WriteInput } from '../../activities/agent-job/job-activities.js';
import { MEMO, reportRequestSignal, requestQueueId, type QueueName, type Turn } from '../../contract.js';
import { plainMarkdown } from '../../agent-job/web-ui-text.js';
import type { WriteOutcome } from '../../contract/write-outcome.js';
import type { WaitPoint } from './continue-as-new.js';
import { readWriteOutcome } from './activity-results.js';
import { logWrite } from './dashboard.js';
import type { JobRun } from './job-run.js';
import { lifeOf } from './life.js';
import { waitEndsAt } from './write-transitions.js';
import {
  inDoubtOf,
  interruptionOf,
  isOverdue,
  mayHaveArrived,
  mustAsk,
  notBeforeOf,
  operationOf,
  queuedOf,
  type Write,
} from './write.js';

/**
 * The server accepts the fence only within 30 s of the attempt's start, and the last byte leaves at most 10 s later. So
 * it leaves before the attempt ends, even if the worker stood still. After the fence, 30 s hold one exchange (at most
 * 20 s).
 */
const WRITE_ATTEMPT = { heartbeatTimeout: '30 seconds', startToCloseTimeout: '45 seconds' } as const;
/**
 * If the upstream's rate is limited, a write goes before the polls (priority 2 to 5) that wait in the same task queue.
 */
const BEFORE_POLLS = { priorityKey: 1 } as const;
/** A new attempt only ever follows a worker that died, or a fence that could not be raised. */
const RETRY = { initialInterval: '1 second', backoffCoefficient: 2, maximumInterval: '10 seconds' } as const;
/** The wait of a held write that a person ended from outside begins again after this time. */
const ASK_AGAIN_MS = 1_000;
/** Temporal shows at most 200 bytes of a summary. */
const SUMMARY_BYTES = 200;

const { awaitTry } = proxyActivities<JobActivities>({
  // An attempt asks its worker alone.
  startToCloseTimeout: '10 seconds',
  // The waits come with each attempt; these are for attempts that end without one.
  retry: { initialInterval: '2 seconds', backoffCoefficient: 1 },
  // It sends nothing: the server drops it at once, whether a worker runs or not.
  cancellationType: ActivityCancellationType.TRY_CANCEL,
  summary: 'Wait until the write may be tried',
});

const WRITE = { ...WRITE_ATTEMPT, retry: RETRY, priority: BEFORE_POLLS };
const { createJob } = proxyActivities<JobActivities>({ ...WRITE, summary: 'Create the job' });
const { sendMessage } = proxyActivities<JobActivities>({ ...WRITE, summary: 'Send a follow-up' });

/** Starts the activity of a write; what is written is the caller's. */
type Send = (input: SendInput) => Promise<unknown>;
type SendInput = Omit<WriteInput, 'prompt'>;

/** Creates the job; returns its id. */
export function createRemoteJob(run: JobRun, waitPoint: WaitPoint, prompt: string): Promise<string> {
  run.beginWrite({ kind: 'create', askedAt: run.startedAt, requiresConfirmation: false });
  const send: Send = (input) => createJob({ ...input, prompt });
  return untilResolved(run, waitPoint, send, () => run.jobId);
}

/** Sends follow-ups in the order queued, one at a time, while the run lasts. */
export async function sendFollowUps(run: JobRun, waitPoint: WaitPoint, jobId: string): Promise<never> {
  for (;;) {
    await waitPoint.waitUntil(() => run.followUps.next !== undefined && !waitPoint.mustYield());
    const next = run.followUps.next;
    if (!next) continue;
    const { id: followUpId, prompt, askedAt, requiresConfirmation = false } = next;
    const priority = next.priority && { priority: next.priority };
    run.beginWrite({ kind: 'followUp', followUpId, askedAt, requiresConfirmation, ...priority });
    const send: Send = (input) => sendMessage({ ...input, jobId, prompt, jobCreatedAt: run.createdAt });
    await untilResolved(run, waitPoint, send, () => run.write === null || null);
  }
}

/** Takes the write from step to step until what it is to bring is there: never if the run ends before. */
async function untilResolved<T>(run: JobRun, waitPoint: WaitPoint, send: Send, brought: () => T | null): Promise<T> {
  for (;;) {
    const result = brought();
    if (result !== null) return result;
    const { write } = run;
    if (!write || waitPoint.mustYield()) await waitPoint.waitUntil(() => run.write !== null && !waitPoint.mustYield());
    else if (inDoubtOf(write)) await decision(run, waitPoint, write);
    else if (notBeforeOf(write) > Date.now()) await waitToSend(run, waitPoint, write);
    else if (mustAsk(write)) await waitForTry(run, waitPoint, write);
    else {
      const input = sendInput(run, write);
      const beganAt = Date.now();
      run.apply({ kind: 'send' });
      const outcome = await trySend(() => waitPoint.perform(() => send(input)));
      const sent = run.write;
      // In one step: no query sees a write that is over and its outcome not known.
      run.apply({ kind: 'sendEnded', outcome: shownOutcome(outcome), beganAt });
      giveBackUnused(run, sent, input.turn);
      logWrite(run, write, outcome);
    }
  }
}

/** Gives back a turn that came while the write was sent, unless the write waits again and will use it. */
function giveBackUnused({ write, spec }: JobRun, sent: Write | null, used: Turn | null): void {
  if (!sent?.turn || sent.turn.id === used?.id || write?.turn === sent.turn) return;
  giveBack(sent.turn, spec.projectId);
}

function sendInput({ spec, isRepeated }: JobRun, write: Write): SendInput {
  const { askedAt, priority = spec.priority, turn } = write;
  const confirmed = write.isConfirmed ? write.toConfirm : null;
  const asked = { projectId: spec.projectId, priority, askedAt, life: lifeOf(write, isRepeated), confirmed };
  return { ...asked, turn, isOverdue: isOverdue(write) };
}

async function trySend(send: () => Promise<unknown>): Promise<WriteOutcome> {
  try {
    return readWriteOutcome(await send());
  } catch (error) {
    if (!(error instanceof ActivityFailure)) throw error;
    return { kind: 'inDoubt', reason: `the activity failed: ${error.cause?.message ?? error.message}` };
  }
}

/** What the job shows: with the answer's own text, which may repeat the prompt, unless prompts are hidden. */
function shownOutcome(outcome: WriteOutcome): WriteOutcome {
  const isHidden = workflowInfo().memo?.[MEMO.hidePrompts] === true;
  if (outcome.kind === 'rejected' && isHidden) return { ...outcome, error: '' };
  return 'text' in outcome && !isHidden ? { ...outcome, reason: `${outcome.reason}${outcome.text ?? ''}` } : outcome;
}

/** A durable timer, which ends early when the write's time is over. */
async function waitToSend(run: JobRun, waitPoint: WaitPoint, write: Write): Promise<void> {
  const notBefore = notBeforeOf(write);
  const endsAt = waitEndsAt(write, run.situation, run.deadline);
  const isOver = () => waitPoint.mustYield() || run.write !== write;
  await waitPoint.waitUntil(isOver, Math.min(notBefore, endsAt) - Date.now(), summaryOf(write));
  if (run.write !== write) return;
  // A worker may wake long after either time.
  if (Date.now() > endsAt || (Date.now() === endsAt && notBefore > endsAt)) expire(run, write);
}

function summaryOf(write: Write): string {
  const why = interruptionOf(write)?.reason ?? 'not taken';
  const queued = queuedOf(write);
  const place = queued?.position === undefined ? '' : ` (place ${queued.position})`;
  return plainMarkdown(
    queued ? `Wait for a turn${place}, then ask again: ${why}` : `Send again: ${why}`,
    SUMMARY_BYTES,
  );
}

/** The run expires with a write that surely was never sent. One that may have arrived ends its own wait alone. */
function expire(run: JobRun, write: Write): void {
  if (mayHaveArrived(write)) run.apply({ kind: 'timeOver' });
  else run.expire();
}

/** The write's prompt stays out of this wait, and so does its fence: whatever ends it, nothing was sent. */
async function waitForTry(run: JobRun, waitPoint: WaitPoint, write: Write): Promise<void> {
  const endsAt = waitEndsAt(write, run.situation, run.deadline);
  const leftMs = endsAt - Date.now();
  const mayTry = leftMs > 0 && (await isLetTry(run, waitPoint, { write, forMs: leftMs }));
  // A worker that was away may answer too late.
  if (Date.now() > endsAt || (Date.now() === endsAt && !mayTry)) expire(run, write);
  else if (mayTry) run.apply({ kind: 'mayTry' });
}

async function isLetTry(
  run: JobRun,
  waitPoint: WaitPoint,
  { write, forMs }: { write: Write; forMs: number },
): Promise<boolean> {
  const { projectId } = run.spec;
  const scope = new CancellationScope();
  try {
    return await scope.run(() => {
      const isLet = awaitTry({ projectId, operation: operationOf(write) }).then(() => true);
      const isOver = Promise.resolve(waitPoint.waitUntil(waitPoint.mustYield, forMs, 'Deadline')).then(() => false);
      return Promise.race([isLet, isOver]);
    });
  } catch (error) {
    if (!(error instanceof ActivityFailure)) throw error;
    // A person ended it from outside.
    run.apply({ kind: 'postponed', notBefore: Date.now() + ASK_AGAIN_MS });
    return false;
  } finally {
    scope.cancel();
  }
}

async function decision(run: JobRun, waitPoint: WaitPoint, write: Write): Promise<void> {
  const decideBy = write.state.kind === 'inDoubt' ? write.state.decideBy : null;
  // The timer is the judge: a second reading of the clock could differ when the run is replayed.
  const isInTime = await waitPoint.waitUntil(
    () => run.write !== write || waitPoint.mustYield(),
    (decideBy ?? Infinity) - Date.now(),
    'A person decides',
  );
  if (isInTime === false && run.write === write) run.apply({ kind: 'timeOver' });
}

/** Gives back a turn that no write waits for: its queue was reset, or gave it after the write was sent without one. */
export function giveBack({ id: turn, operation }: Turn, projectId: string): void {
  const report = { turn, outcome: 'unsent', at: Date.now() } as const;
  const queue = getExternalWorkflowHandle(requestQueueId({ operation, projectId } as QueueName));
  // There may be no such queue.
  CancellationScope.nonCancellable(() => queue.signal(reportRequestSignal, report)).catch(() => {});
}
