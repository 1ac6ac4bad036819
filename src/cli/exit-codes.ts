/** What `wait` (and `--wait`) answer to a shell; see docs/contract.md. */
export const EXIT = {
  ok: 0,
  /** Anything that is not about the job's end: no connection, no such job, refused. */
  error: 1,
  /** A wrong command or value; usage was shown. */
  usage: 2,
  failed: 3,
  timedOut: 4,
  lost: 5,
  abandoned: 6,
  /** The job failed as InvalidInput or CreateRejected: surely no job was made. */
  notCreated: 7,
  /** The job failed as UnknownOutcome. */
  unknownOutcome: 8,
  /** Canceled or terminated. */
  canceled: 9,
  /** The wait was interrupted by Ctrl-C; the job goes on. */
  interrupted: 130,
} as const;
