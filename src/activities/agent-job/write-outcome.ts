/** What only the activity knows about a write's outcome, added to what the upstream client returned. */
import type { WriteOutcome } from '../../upstream/upstream.js';

/** What became of one send, as far as this worker can tell. */
export type SendOutcome = WriteOutcome & {
  /** It was not even sent: others had just been asked to wait, or the key is known to be refused. */
  isHeld?: true;
  /** Of a write in doubt: from then on, in milliseconds of the server's clock, a look upstream can be trusted. */
  lookAfter?: number;
};

/** When a look upstream can be trusted, in milliseconds from the judgement; docs/guarantees.md says what each must outlast. */
const LOOK_AFTER_MS = {
  /** This worker reset the connection, or had an answer: what is in the network has arrived by then, or never will. */
  ownEnd: 30_000,
  /** The kernel of a worker that died goes on to deliver: Linux for up to 102 s. */
  lostWorker: 120_000,
};

/** Adds to an outcome in doubt from when on a look upstream can be trusted. */
export function withLookAfter(outcome: SendOutcome, judgedBy: keyof typeof LOOK_AFTER_MS, now: number): SendOutcome {
  return outcome.kind === 'inDoubt' ? { ...outcome, lookAfter: Math.ceil(now + LOOK_AFTER_MS[judgedBy]) } : outcome;
}
