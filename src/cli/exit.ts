/** What a command answers to a shell, and what that means; docs/commands.md has the same table. */
const CODES = {
  ok: [0, 'completed or archived'],
  error: [1, 'any other error: no such job, it has ended, refused'],
  usage: [2, 'a wrong command or value; the usage was shown'],
  failed: [3, 'failed'],
  timedOut: [4, 'timedOut'],
  lost: [5, 'lost'],
  abandoned: [6, 'abandoned'],
  notCreated: [7, 'InvalidInput or CreateRejected: there is surely no job'],
  unknownOutcome: [8, 'UnknownOutcome'],
  canceled: [9, 'cancelled or terminated'],
  notSent: [10, 'follow-up --wait: not sent'],
  unavailable: [11, 'Temporal did not answer; the same command may work later'],
  noWorker: [12, 'no worker answered; the error says why'],
  notAll: [13, 'of many jobs not all'],
  interrupted: [130, 'interrupted by Ctrl-C; the job goes on'],
} as const;

type Codes = typeof CODES;

/** The exit codes, by what they stand for. */
export const EXIT = Object.fromEntries(Object.entries(CODES).map(([name, [code]]) => [name, code])) as {
  readonly [Name in keyof Codes]: Codes[Name][0];
};

/** Each exit code on a line, as help shows them. */
export function exitCodesText(): string {
  return Object.values(CODES)
    .map(([code, meaning]) => `${String(code).padStart(5)}  ${meaning}`)
    .join('\n');
}

/** The code and the meaning of an exit that its own output explains. */
export function meaningOf(exitCode: number): { code: string; message: string } {
  if (exitCode === EXIT.unavailable) return { code: 'TEMPORAL_UNAVAILABLE', message: 'Temporal did not answer' };
  const [name, [, message]] = Object.entries(CODES).find(([, [code]]) => code === exitCode) ?? ['error', CODES.error];
  if (name === 'error') return { code: 'ERROR', message: 'not all is well: the output tells what' };
  return { code: name.replace(/[A-Z]/g, '_$&').toUpperCase(), message };
}

/** What a bad end tells of itself; all but the message goes into the line of JSON. */
interface BadEnd {
  code: string;
  message: string;
  workflowId: string;
  [more: string]: unknown;
}

/** A bad end that has an exit code of its own, such as that of the job that was waited for. */
export class BadEndError extends Error {
  override readonly name = 'BadEndError';
  readonly exitCode: number;
  readonly code: string;
  readonly details: object;
  readonly retryable = false;

  constructor(exitCode: number, { code, message, ...details }: BadEnd) {
    super(message);
    this.exitCode = exitCode;
    this.code = code;
    this.details = details;
  }
}

/** The code of an error of the client, else that of a command. */
export function codeOf(error: Error): string {
  const { code = '' } = error as Error & { code?: string };
  if (/^[A-Z_]+$/.test(code) && 'retryable' in error) return code;
  if (error instanceof InterruptedError) return 'INTERRUPTED';
  return error instanceof UsageError ? 'USAGE' : 'ERROR';
}

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
