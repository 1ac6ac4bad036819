/** What a command answers to a shell; see docs/contract.md. */
export const EXIT = {
  ok: 0,
  /** Anything that has no code of its own: no such job, it has ended, refused. */
  error: 1,
  /** A wrong command or value; usage was shown. */
  usage: 2,
  failed: 3,
  timedOut: 4,
  lost: 5,
  abandoned: 6,
  /** The job failed as InvalidInput or CreateRejected: no job was made. */
  notCreated: 7,
  /** The job failed as UnknownOutcome. */
  unknownOutcome: 8,
  /** Canceled or terminated. */
  canceled: 9,
  /** `follow-up --wait`: the follow-up is not sent (yet): `queued`, `rejected`, `unknown` or `abandoned`. */
  notSent: 10,
  /** Temporal did not answer: the same command may work later. */
  unavailable: 11,
  /** No worker answered: none polls, it is busy, or the job's workflow task fails; the error tells which. */
  noWorker: 12,
  /** Of many jobs not all: `wait --batch`, `cancel --batch`, `follow-up --batch`, `start --from`. */
  notAll: 13,
  /** The wait was interrupted by Ctrl-C; the job goes on. */
  interrupted: 130,
} as const;

/** A wrong value: the command's usage is shown and the exit code is `EXIT.usage`. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/**
 * Marks an error of the client as one after which the same command does harm: it would make up another id, or settle
 * another write. Throws it on.
 */
export function throwNotRetryable(error: unknown): never {
  if (error instanceof Error && 'retryable' in error) Object.assign(error, { retryable: false });
  throw error;
}

/** Ctrl-C: the exit code is `EXIT.interrupted`. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
  constructor(what: 'job' | 'jobs' | 'export' | 'same command') {
    super(`interrupted; the ${what} ${what === 'jobs' ? 'go' : 'goes'} on`);
  }
}
