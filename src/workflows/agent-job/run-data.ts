import type { JobRecord, InDoubtWrite } from '../../contract.js';

/** What keeps a request from being made, or from being of use. */
export interface Obstacle {
  for: 'rateLimit' | 'upstream' | 'key';
  since: number;
  reason: string;
}

/** The write under way: first the create, then one follow-up after the other. */
export interface WriteProgress {
  kind: 'create' | 'followUp';
  followUpId?: string;
  askedAt: number;
  /** 429 in a row. */
  refusals: number;
  /** Failures to connect in a row. */
  notDelivered: number;
  /** Sends of unknown outcome under policy `retry`. */
  unknownSends: number;
  /** When the first of them was found to be in doubt; `decideWithin` counts from here. */
  inDoubtSince?: number | null;
  /** The last try was throttled or could not be delivered: it waits, and its waiting must end. */
  isHeldUp?: boolean;
  /** A person said to send, whatever happened before. */
  confirmed: boolean;
  /** The reset run in which a person was asked about this write; null where none was. */
  confirmationRequestedIn: string | null;
  requiresConfirmation: boolean;
  notBefore: number;
  /** Keys refused in a row. */
  unauthorized?: number;
  /** Absent while nothing keeps the write from being sent. */
  wait?: Obstacle | null;
  /** Until when it may be sent past others that wait. */
  turnUntil?: number;
}

/** The plain data of a run: continue-as-new hands it on as it is. Times in milliseconds. */
export interface RunData {
  title: string;
  startedAt: number;
  jobId: string | null;
  job: JobRecord | null;
  lastChangeAt: number;
  polls: number;
  deadlineAt: number;
  /** The clock stands still since then. */
  clockStoppedAt: number | null;
  /** The deadline has passed, and the last look was taken. */
  hasExpired: boolean;
  /** A terminal status read before this time counts for nothing. */
  settledAt: number;
  /** When a terminal status was read that counts; null while there is none. */
  endedAt: number | null;
  missing: { count: number; since: number } | null;
  isLost: boolean;
  /** Failed reads in a row. */
  failures: number;
  /** No read before this time: the upstream said so. */
  notBefore: number;
  /** Why the last read gave nothing; null where it did. */
  trouble: string | null;
  /** The same, with what it was and since when. */
  readTrouble?: Obstacle | null;
  write: WriteProgress | null;
  /** Somebody said `pollNow`, and no read has answered it yet. */
  isReadOwed?: boolean;
  unknown: InDoubtWrite | null;
  decideBy: number | null;
  /** Temporal itself started this run again, or one before it in its chain: every write asks first. */
  isRepeated?: boolean;
}

/** Why a run is over. */
export type Ending =
  | { kind: 'ended' }
  | { kind: 'timedOut' }
  | { kind: 'lost' }
  | { kind: 'abandoned' }
  | { kind: 'canceled' }
  | { kind: 'failed'; type: string; message: string; details: unknown };
