/**
 * What became of a write to the upstream: one type, from the wire to the state of the workflow. The upstream client
 * says what it saw, the gate what became of its turn, the activity what a person must know. Its texts never hold a key,
 * a prompt or a header.
 */
import type { JobRecord } from './job-state.js';
import type { QueuePlace } from './request-queue.js';
import type { TerminalStatus } from './words.js';

/** The place of a write that waits in a queue; without a position if the queue has not reported it. */
export type Queued = Omit<QueuePlace, 'position'> & { position?: number };

/** What a record of the upstream means, as activities hand it to their workflow beside the record. */
export interface ShownJob {
  /** The end that its status names; null if it names none. */
  end: TerminalStatus | null;
  /** The status is a word that the interface does not name, and that no setting maps to an end. */
  isUnknownStatus?: true;
  /** The links in it, if they are more than its `prLink`. */
  prLinks?: readonly string[];
}

/** The life of a workflow in which it sends a write. */
export interface Life {
  runId: string;
  /**
   * Why a life before may have sent this write already: an operator reset the workflow, Temporal itself started it
   * again, or a Schedule may have. Null if none may.
   */
  doubt: 'reset' | 'repeated' | 'scheduled' | null;
}

/** What a person confirms, if they say to send a write: that no life before this run, and no restore, counts. */
export interface Confirmation {
  runId: string;
  /** The setting `CONFIRM_WRITES_BEFORE`, which names the restore; absent if there was none. */
  confirmWritesBefore?: string | undefined;
}

/** How a write ended, by what must be decided. */
export type WriteOutcome =
  /** The upstream accepted it; `job` is the record in its response, null without a whole one. */
  | ({ kind: 'accepted'; jobId: string; job: JobRecord | null } & Partial<ShownJob>)
  /** The upstream rejected it for good: 4xx but 401, 403, 408 and 429. */
  | { kind: 'rejected'; status: number; error: string }
  /** Surely not accepted for now (429, or a status the operator vouches for): send it again after `retryAfterMs`. */
  | {
      kind: 'throttled';
      reason: string;
      retryAfterMs?: number;
      /** Its place in the queue; null if no queue could be asked to give it a turn. */
      queued?: Queued | null;
    }
  /** Not sent: the write waits for its turn. `queued` is as above. */
  | { kind: 'held'; reason: string; queued: Queued | null }
  /**
   * Surely not accepted for want of a key: 401 or 403 with the newest one, or there is none. The write waits until the
   * key or the key's rights change.
   */
  | {
      kind: 'unauthorized';
      reason: string;
      /** The write was not sent: the upstream is known to refuse the key. */
      isHeld?: true;
      /** It holds no others: a write of its project was accepted right before. */
      isAlone?: true;
      /** Answered 403: the key may be good, and this request alone forbidden. */
      isForbidden?: true;
    }
  /**
   * Surely not accepted: something on the way answered in the upstream's place, with a page or a redirect. The write
   * waits, and one write of its project and kind tries again each minute.
   */
  | {
      kind: 'blocked';
      reason: string;
      /** Follows the reason. It is of the answer itself, which may repeat a prompt: no log line has it. */
      text?: string;
      /** The write was not even sent: the last one of its kind was answered so. */
      isHeld?: true;
      /** It holds no others: a write of its project was accepted right before. */
      isAlone?: true;
    }
  /** Surely never reached the upstream whole, or met a 404 because its job is new: safe to send again. */
  | { kind: 'notDelivered'; reason: string }
  /**
   * May or may not have been taken, usually after the whole request left: time-out, reset, a redirect, 408, 5xx (but
   * for statuses that the settings name as not taken), a response that can't be read. Never sent again without a
   * decision.
   */
  | {
      kind: 'inDoubt';
      reason: string;
      /** As above. */
      text?: string;
      /** From this time of the server's clock on, in milliseconds, a check of the upstream shows whether it arrived. */
      lookAfter?: number;
      /** A life before this one, or a restore, may have forgotten the send: under any policy a person is asked. */
      toConfirm?: Confirmation;
      /** It was carried out, or what its activity returned can't be read: policy `retry` asks a person, too. */
      asksBeforeRetry?: true;
    };
