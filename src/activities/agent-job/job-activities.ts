/** The activities of `agentJob`, each around one HTTP call. Decides what of a write's outcome its workflow learns. */
import { activityInfo } from '@temporalio/activity';
import type { JOIN_JOB_ACTIVITY } from '../../contract.js';
import type { Metrics, WriteOperation } from '../metrics.js';
import type { WriteOutcome } from '../../contract/write-outcome.js';
import type { Upstream, WriteOptions } from '../../upstream/upstream.js';
import { arrivedBy } from '../../agent-job/waits.js';
import { surelyDoubted } from './earlier-run.js';
import { KeyHealth } from './key-health.js';
import { startClock, tryLater, type AttemptClock, type MachineClock } from '../../temporal/activity-attempt.js';
import { Budgets } from './budgets.js';
import { Gate } from './gate.js';
import { joinAgentJob } from './join-job.js';
import { usableTurn, type TurnRequest } from '../turns.js';
import { createPollJob, type HeldPolls } from './held-polls.js';
import type { PollJobInput, PollJobResult } from './poll-attempt.js';
import { createReadJob, type ReadJobInput, type ReadJobResult } from './read-job.js';
import {
  createFence,
  isFenceRefused,
  toBeConfirmed,
  clearSent,
  checkPriorAttempt,
  type AskedWrite,
} from './write-fence.js';

/** A write that a workflow asks for. */
export interface WriteInput extends Omit<AskedWrite, 'confirmWritesBefore'>, TurnRequest {
  projectId: string;
  prompt: string;
  /** When the job was created, in milliseconds; null if another than this workflow created it. */
  jobCreatedAt?: number | null;
}

interface SendMessageInput extends WriteInput {
  jobId: string;
}

interface JobActivitiesDependencies {
  upstream: Upstream;
  /** Aborted when the worker begins to shut down: polls stop at once, writes are finished. */
  shutdownSignal: AbortSignal;
  metrics: Metrics;
  /** A person confirms writes asked for before this time (ISO 8601): a restored Temporal may have forgotten them. */
  confirmWritesBefore?: string | undefined;
  /** Goes on to poll after the first poll of an attempt; default none: each poll is an attempt. */
  heldPolls?: HeldPolls | null;
  /** Default: the clocks of this machine. */
  machine?: MachineClock;
  /** What is known of the projects' keys; default: what these activities find out. */
  keyHealth?: KeyHealth;
  /** The budgets that are set; default: none. */
  budgets?: Budgets;
}

/** Which writes are held. */
interface AwaitTryInput {
  operation: WriteOperation;
  projectId: string;
}

/** What the workflow `agentJob` asks of a worker. */
export interface JobActivities {
  createJob(input: WriteInput): Promise<WriteOutcome>;
  sendMessage(input: SendMessageInput): Promise<WriteOutcome>;
  pollJob(input: PollJobInput): Promise<PollJobResult>;
  awaitTry(input: AwaitTryInput): Promise<void>;
  readJob(input: ReadJobInput): Promise<ReadJobResult>;
}

/** What workflows of other services ask for. */
type JoinActivities = Record<typeof JOIN_JOB_ACTIVITY, typeof joinAgentJob>;

/** The activities of `agentJob`. They never fail for what the upstream does: its responses are their results. */
export function createJobActivities({
  upstream,
  shutdownSignal,
  metrics,
  confirmWritesBefore,
  heldPolls = null,
  machine,
  keyHealth = new KeyHealth({ upstream, ...(machine && { now: machine.monotonic }) }),
  budgets = new Budgets(),
}: JobActivitiesDependencies): JobActivities & JoinActivities {
  const gate = new Gate({ keys: keyHealth, budgets, shutdownSignal });

  async function write(operation: WriteOperation, input: WriteInput, send: Send): Promise<WriteOutcome> {
    const clock = startClock(machine);
    const asked = { ...input, confirmWritesBefore };
    const wanted = { ...input, operation, workflowId: ownWorkflowId(), clock };
    const before = checkPriorAttempt(asked);
    if (!before && mayBeLate(wanted)) throw tryLater('StillWaiting', 'its turn may be over', 'asks again', 0);
    const outcome = before ?? mayBeKnownLater(await gate.send(wanted, () => sendFenced(send)), input, clock.server());
    if (!isHeld(outcome)) metrics.writeEnded(operation, outcome.kind);
    if (outcome.kind === 'accepted' || outcome.kind === 'rejected')
      metrics.writeEndedAfter(operation, (clock.late() - input.askedAt) / 1_000);
    if (outcome.kind !== 'inDoubt') return outcome;
    const lookAfter = arrivedBy(before ? 'lostWorker' : 'ownEnd', clock.server());
    const toConfirm = toBeConfirmed(asked);
    return { ...outcome, lookAfter, ...(toConfirm && { toConfirm }) };
  }

  return {
    createJob: async (given) => {
      const input = { ...given, life: await surelyDoubted(given.life) };
      return write('create', input, (options) => upstream.createJob(input, options));
    },
    sendMessage: (input) => write('message', input, (options) => upstream.sendMessage(input, options)),
    pollJob: createPollJob({ upstream, shutdownSignal, heldPolls, metrics }),
    awaitTry: (input) => awaitTry(keyHealth, input),
    readJob: createReadJob(upstream, shutdownSignal),
    joinAgentJob,
  };
}

type Send = (options: WriteOptions) => Promise<WriteOutcome>;

/**
 * An attempt that waited for a worker takes its turn for valid long after it ended. If this machine's clock is past
 * the turn, another attempt decides: it is scheduled now.
 */
function mayBeLate(wanted: TurnRequest & { clock: AttemptClock }): boolean {
  const turn = usableTurn(wanted);
  return turn !== null && wanted.clock.late() >= turn.until && activityInfo().attempt === 1;
}

async function sendFenced(send: Send): Promise<WriteOutcome> {
  const fence = createFence();
  try {
    return await send({ beforeLastByte: fence });
  } catch (error) {
    if (isFenceRefused(error)) {
      clearSent();
      throw error;
    }
    // The upstream client promises to throw nothing else: in doubt is the only safe guess about a write.
    return { kind: 'inDoubt', reason: `unexpected: ${error instanceof Error ? error.name : typeof error}` };
  }
}

/** In this time after a create its job may be unknown to a part of the upstream. */
const NEW_JOB_MS = 60_000;

/** A 404 right after the create is not final: the write is sent again, as one that was not delivered. */
function mayBeKnownLater(outcome: WriteOutcome, { jobCreatedAt }: WriteInput, now: number): WriteOutcome {
  const isNew = typeof jobCreatedAt === 'number' && now - jobCreatedAt < NEW_JOB_MS;
  if (!isNew || outcome.kind !== 'rejected' || outcome.status !== 404) return outcome;
  return { kind: 'notDelivered', reason: 'upstream answered 404' };
}

/** The write was not sent. */
function isHeld(outcome: WriteOutcome): boolean {
  return outcome.kind === 'held' || ('isHeld' in outcome && outcome.isHeld === true);
}

/**
 * The activity `awaitTry`: it returns once a write that is held may try. It sends nothing and knows no prompt, so it
 * may be cancelled at any moment; its waits are kept by the server and cost no history.
 */
async function awaitTry(keys: KeyHealth, { operation, projectId }: AwaitTryInput): Promise<void> {
  const held = await keys.ask({ operation, projectId, workflowId: ownWorkflowId() });
  if (held) throw tryLater('StillWaiting', held.reason, 'asks again', held.askAgainMs);
}

function ownWorkflowId(): string {
  return activityInfo().workflowExecution?.workflowId ?? '';
}
