/** The activities of `agentJob`: each wraps one HTTP call. */
import { activityInfo } from '@temporalio/activity';
import type { Metrics, WriteOperation } from '../metrics.js';
import type { Upstream, WriteOptions, WriteOutcome } from '../../upstream/upstream.js';
import { createAwaitTurn, type AwaitTurnInput } from './await-turn.js';
import { KeyHealth } from './key-health.js';
import { createReadJob, type ReadJobInput, type ReadJobResult } from './read-job.js';
import { startServerClock } from '../../temporal/server-clock.js';
import { Turns } from './turns.js';
import { createWatchJob, type WatchJobInput, type WatchJobResult } from './poll-job.js';
import {
  createFence,
  isFenceRefused,
  requiresConfirmation,
  questionOf,
  takeMarkBack,
  checkPriorAttempt,
  type FenceOptions,
} from './write-fence.js';
import { withLookAfter, type SendOutcome } from './write-outcome.js';

interface WriteInput extends Omit<FenceOptions, 'confirmWritesBefore'> {
  projectId: string;
  prompt: string;
  /** Until when the write may be sent past others that wait; absent where it was given no turn. */
  turnUntil?: number | undefined;
}

export type CreateJobInput = WriteInput;

export interface SendMessageInput extends WriteInput {
  jobId: string;
}

/** A write's outcome, whether a reset or a restore may have forgotten it, and what a person is asked about where one may have. */
export type WriteResult = SendOutcome & { afterReset: boolean; confirmationRequestedIn?: string };

export interface JobActivitiesDependencies {
  upstream: Upstream;
  /** Aborted when the worker begins to shut down: reads stop at once, writes are finished. */
  shutdownSignal: AbortSignal;
  metrics: Metrics;
  /** Writes asked for before this time (ISO 8601) ask a person: Temporal was restored, and may have forgotten that they were sent. */
  confirmWritesBefore?: string | undefined;
  /** While waits are short, an attempt of `watchJob` reads for so long, in milliseconds; default 0: once. */
  stayMs?: number;
  /** The time by which a closed lane opens, in milliseconds; default `performance.now`. */
  laneClock?: () => number;
  /** What is known of the projects' keys; default: what these activities find out. */
  keyHealth?: KeyHealth;
  /** How many of the writes that wait may ask for a turn in a second. */
  asksPerSecond?: number;
}

export interface JobActivities {
  createJob(input: CreateJobInput): Promise<WriteResult>;
  sendMessage(input: SendMessageInput): Promise<WriteResult>;
  watchJob(input: WatchJobInput): Promise<WatchJobResult>;
  awaitTurn(input: AwaitTurnInput): Promise<void>;
  readJob(input: ReadJobInput): Promise<ReadJobResult>;
}

/** The activities of `agentJob`. They never fail for what the upstream does: its answers are their results. */
export function createJobActivities({
  upstream: given,
  shutdownSignal,
  metrics,
  confirmWritesBefore,
  stayMs = 0,
  laneClock: now,
  keyHealth = new KeyHealth({ upstream: given, metrics, ...(now && { now }) }),
  asksPerSecond,
}: JobActivitiesDependencies): JobActivities {
  const { upstream } = keyHealth;
  const turns = new Turns(keyHealth, { ...(now && { now }), ...(asksPerSecond && { asksPerSecond }) });

  async function write(operation: WriteOperation, input: WriteInput, send: Send): Promise<WriteResult> {
    const now = startServerClock();
    const { projectId, turnUntil = 0 } = input;
    const turn = { operation, projectId, holder: activityInfo().workflowExecution?.workflowId ?? '' };
    const asked = { ...input, confirmWritesBefore };
    const before = checkPriorAttempt(asked);
    const outcome = before
      ? withLookAfter(before, 'lostWorker', now())
      : withLookAfter(await turns.send(turn, now() < turnUntil, () => sendFenced(send)), 'ownEnd', now());
    if (!outcome.isHeld) metrics.writeEnded(operation, outcome.kind);
    // The server's clock stands at the time when it scheduled the attempt; only this worker's knows how long that had to wait.
    const settledAt = Math.max(now(), Date.now());
    if (isSettled(outcome)) metrics.writeSettled(operation, (settledAt - input.askedAt) / 1_000);
    const afterReset = requiresConfirmation(asked);
    return { ...outcome, afterReset, ...(afterReset && { confirmationRequestedIn: questionOf(asked) }) };
  }

  return {
    createJob: (input) => write('create', input, (options) => upstream.createJob(input, options)),
    sendMessage: (input) => write('message', input, (options) => upstream.sendMessage(input, options)),
    watchJob: createWatchJob({ upstream, shutdownSignal, stayMs, metrics }),
    awaitTurn: createAwaitTurn(turns),
    readJob: createReadJob(upstream, shutdownSignal),
  };
}

type Send = (options: WriteOptions) => Promise<WriteOutcome>;

async function sendFenced(send: Send): Promise<WriteOutcome> {
  try {
    return await send({ beforeLastByte: createFence() });
  } catch (error) {
    if (isFenceRefused(error)) {
      takeMarkBack();
      throw error;
    }
    // The upstream client promises to throw nothing else: in doubt is the only safe guess about a write.
    return { kind: 'inDoubt', reason: `unexpected: ${error instanceof Error ? error.name : typeof error}` };
  }
}

function isSettled({ kind }: WriteOutcome): boolean {
  return kind === 'accepted' || kind === 'rejected';
}
