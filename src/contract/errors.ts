/**
 * The base of all errors that our client throws, their codes, and the errors that checks of input and the codec throw.
 * Pure and safe in workflow code.
 */

/** One for each class of error. Codes are stable: they may be compared, logged and sent on. */
export type AgentJobsErrorCode =
  | 'CONFIG'
  | 'CREATE_REJECTED'
  | 'EXPORT_CANCELED'
  | 'EXPORT_FAILED'
  | 'FOLLOW_UP_CONFLICT'
  | 'FOLLOW_UP_UNCONFIRMED'
  | 'INVALID_INPUT'
  | 'JOB_CANCELED'
  | 'JOB_ENDED'
  | 'JOB_FAILED'
  | 'JOB_NOT_FOUND'
  | 'JOB_PAUSED'
  | 'JOB_TERMINATED'
  | 'KEY_CONFLICT'
  | 'MESSAGE_REFUSED'
  | 'NO_JOB'
  | 'NO_WORKER'
  | 'PAYLOAD_KEYS'
  | 'SEARCH_ATTRIBUTES_REFUSED'
  | 'TEMPORAL_CALL'
  | 'TEMPORAL_UNAVAILABLE'
  | 'UNKNOWN_OUTCOME'
  | 'USED_IDS_UNKNOWN';

/** What an error is made with, beside its message. */
export interface AgentJobsErrorOptions extends ErrorOptions {
  /** Given if the class alone does not say. */
  retryable?: boolean;
}

/** What every error of our client is. */
export abstract class AgentJobsError extends Error {
  abstract readonly code: AgentJobsErrorCode;
  /** Whether the same call may succeed later, and does no harm when it is made again as it was. */
  readonly retryable: boolean;

  constructor(message: string, { retryable = false, ...options }: AgentJobsErrorOptions = {}) {
    super(message, options);
    this.retryable = retryable;
  }
}

/** Names the field that is wrong and what it should be. */
export class InvalidInputError extends AgentJobsError {
  override readonly name = 'InvalidInputError';
  override readonly code = 'INVALID_INPUT';
  readonly field: string;
  constructor(field: string, shouldBe: string) {
    super(`${field} ${shouldBe}`);
    this.field = field;
  }
}

/** No usable key of payloads; the message names the file and the key's id, as far as they are known, never a key. */
export class PayloadKeysError extends AgentJobsError {
  override readonly name = 'PayloadKeysError';
  override readonly code = 'PAYLOAD_KEYS';
}

/** The same error, of a call that may have been carried out and would do more when it is made again. */
export function asNotRetryable(error: unknown): unknown {
  return error instanceof AgentJobsError ? Object.assign(error, { retryable: false }) : error;
}

/** The errors of a follow-up that may have been sent. */
const MAY_BE_SENT: readonly AgentJobsErrorCode[] = ['FOLLOW_UP_UNCONFIRMED', 'USED_IDS_UNKNOWN'];

/** Without an id of the caller's, the same call would send another follow-up: its errors say so. */
export async function asRepeatable<T>(id: string | null | undefined, sent: Promise<T>): Promise<T> {
  try {
    return await sent;
  } catch (error) {
    const mayBeSent = error instanceof AgentJobsError && MAY_BE_SENT.includes(error.code);
    throw mayBeSent && id == null ? asNotRetryable(error) : error;
  }
}
