/** The plain data of one write to the upstream: pending-write.ts changes it, and continue-as-new hands it on. */
import type { InDoubtWrite, Priority, RequestTurn } from '../../contract.js';
import type { Queued } from '../../activities/index.js';
import type { Interruption } from './waiting.js';

export type WriteState =
  /** Nothing keeps it from being sent. */
  | { kind: 'ready' }
  /** Its activity runs. `interruption` is what the send before met. */
  | {
      kind: 'sending';
      interruption: Interruption | null;
      /** A turn that came meanwhile, for the next send. */
      turn?: RequestTurn | null;
    }
  | {
      kind: 'waiting';
      interruption: Interruption;
      /** It waits since then; `interruption` tells since when for the same reason. */
      heldAt: number;
      notBefore: number;
      /** Policy `retry` sends again what may have arrived. */
      isResend: boolean;
      /** It waited for a key, and a worker has found that it is accepted. */
      hasKey?: true;
      /** Its place in a queue; null where none could be asked, absent where it waits for something else. */
      queued?: Queued | null;
      turn?: RequestTurn | null;
    }
  /** It may or may not have arrived: a person decides, by `decideBy` where that is given. */
  | { kind: 'inDoubt'; inDoubt: InDoubtWrite; decideBy: number | null }
  /** A person said to send it, whatever happened before. */
  | { kind: 'confirmed' }
  /** `inDoubt`: the run ended before anybody decided. */
  | { kind: 'settled'; inDoubt: InDoubtWrite | null };

/** Ends of sends, since the write began or a person confirmed it. */
interface SendCounts {
  throttled: number;
  unauthorized: number;
  notDelivered: number;
  inDoubt: number;
  /** Waits in a queue since its last turn. */
  queued: number;
}

export const NO_SENDS: SendCounts = { throttled: 0, unauthorized: 0, notDelivered: 0, inDoubt: 0, queued: 0 };

/** Which write it is. */
export interface WriteIdentity {
  kind: 'create' | 'followUp';
  followUpId?: string;
  askedAt: number;
  /** Its own; absent where the job's holds. */
  priority?: Priority;
  /** It comes from a run that an operator reset: a person must confirm it before it is sent. */
  requiresConfirmation: boolean;
}

/** Whose queue it waits in. */
export function operationOf({ kind }: Pick<WriteIdentity, 'kind'>): 'create' | 'message' {
  return kind === 'create' ? 'create' : 'message';
}

/** How a send ended that was refused for now; `queued` is null where no queue could be asked for a turn. */
export interface Throttled {
  reason: string;
  retryAfterMs?: number;
  queued: Queued | null;
}

/** What continue-as-new hands on; the prompt is not in it. */
export interface WriteData extends WriteIdentity {
  state: WriteState;
  counts: SendCounts;
  /** When the first send in doubt ended; null where none did since a person confirmed the write. */
  inDoubtSince: number | null;
  /** No send that may have arrived began earlier; absent where none may have. */
  mayHaveArrivedSince?: number;
  isConfirmed: boolean;
  /** The run, and the restore, about which a person was asked; null where nobody was. */
  confirmationRequestedIn: string | null;
}
