/** A write that wants to be sent, how, and what may become of it. */
import type { Priority } from '../../contract.js';
import type { WriteOutcome } from '../../upstream/upstream.js';
import type { WriteOperation } from '../metrics.js';
import type { Queued } from '../queue-client.js';

/** What became of one send, as far as this worker can tell. */
export type SendOutcome = WriteOutcome & {
  /** It was not even sent: it waits for its turn, or the key is known to be refused. */
  isHeld?: true;
  /** Of one that is throttled: its place in the queue; null where no queue could be asked to give it a turn. */
  queued?: Queued | null;
  /**
   * Of a write in doubt: from this time of the server's clock on, in milliseconds, a read of the upstream tells whether
   * it arrived.
   */
  lookAfter?: number;
};

/** A write that wants to be sent. Times in milliseconds of the Temporal server's clock. */
export interface WantedSend {
  operation: WriteOperation;
  projectId: string;
  /** The workflow, which has one write at a time. */
  workflowId: string;
  priority: Priority;
  askedAt: number;
  /** The turn that the queue gave it, and whether it still holds. */
  turn: { id: string; isValid: boolean } | null;
  /** The worker that let it go may know of a newer key. */
  hasKeyPermit: boolean;
  /** It has waited for a turn longer than it should: a queue that does not answer holds it no more. */
  isOverdue: boolean;
  /** By the clock that all writes of this worker share. */
  now: () => number;
}

/** How a write is sent, with the fence around its last byte. */
export interface FencedSend {
  /** `mayLeave` is awaited before the fence; what it rejects with ends the send, and nothing was sent. */
  send(mayLeave: () => Promise<void>): Promise<WriteOutcome>;
  /** Takes the fence's mark back; false where the server did not take that. */
  clearMark(): Promise<boolean>;
}

/** Ends a send whose last byte has not left: a queue orders these writes. */
export class QueueFound extends Error {}

/** The queue of its project and kind. */
export function queueOf({ operation, projectId }: WantedSend) {
  return { operation, projectId };
}

/** By which this worker keeps apart what it knows, and its lines. */
export function nameOf({ operation, projectId }: Pick<WantedSend, 'operation' | 'projectId'>): string {
  return `${operation} ${projectId}`;
}
