/** A follow-up of an operation's caller: queued at once, or answered with its outcome. */
import { randomUUID } from 'node:crypto';
import type { FollowUpAnswer, FollowUpInput } from '../contract.js';
import { asRepeatable } from '../contract/errors.js';
import type { JobHandle } from '../starter.js';
import { type Waiter, whileWanted } from './job-end.js';

interface FollowUpCall extends Waiter {
  readonly job: JobHandle;
  /** How long the answer may wait for the outcome; 0: not at all. */
  readonly waitMs: number;
  /** How long a request to Temporal may take. */
  readonly limitMs: number;
}

type WithId = FollowUpInput & { id: string };

/** A follow-up that waits to be sent, as its caller learns of it. */
export interface Queued {
  id: string;
  state: 'queued';
  checked: boolean;
}

/** A call whose wait is over may still read the outcome, and why there is none. */
const AFTER_WAIT_MS = 20_000;

/** Queues a follow-up; a call that waits, until its outcome is known or this program is about to end. */
export function sendFollowUp(call: FollowUpCall, given: FollowUpInput): Promise<FollowUpAnswer | Queued> {
  const followUp = { ...given, id: given.id ?? randomUUID() };
  return asRepeatable(given.id, call.waitMs > 0 ? awaitOutcome(call, followUp) : queue(call, followUp));
}

async function awaitOutcome(call: FollowUpCall, followUp: WithId): Promise<FollowUpAnswer | Queued> {
  const { job, waitMs } = call;
  const { prompt, ...options } = followUp;
  const outcome = await whileWanted(call, waitMs + AFTER_WAIT_MS, (signal) =>
    job.sendFollowUp(prompt, { ...options, timeoutMs: waitMs, signal }),
  );
  // The same id is taken once: after a wait that was cut short this says that it is queued.
  return outcome ?? queue(call, followUp);
}

async function queue({ job, limitMs, gone: signal }: FollowUpCall, followUp: WithId): Promise<Queued> {
  const { prompt, ...options } = followUp;
  const { id, checked } = await job.followUp(prompt, { ...options, timeoutMs: limitMs, signal });
  return { id, state: 'queued', checked };
}
