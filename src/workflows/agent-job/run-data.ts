/** What continue-as-new hands on of a run, and how a run ends. */
import type { Decision } from '../../contract.js';
import type { JobSpec } from '../../agent-job/input.js';
import { jobTitle } from '../../agent-job/title.js';
import type { PollData } from './poll-state.js';
import type { Write } from './write.js';

/** The plain data of a run: continue-as-new hands it on. Times in milliseconds. */
export interface RunData {
  title: string;
  startedAt: number;
  /** Temporal itself started this run again, or one before it in its chain: every write asks first. */
  isRepeated: boolean;
  jobId: string | null;
  deadline: DeadlineData;
  polls: PollData;
  write: Write | null;
  decisions: Decision[];
}

/**
 * The deadline of a job: its duration after `base`, and the time that it stood still since. It restarts with each
 * accepted write, and stands still while a person must decide and while a write waits for its turn.
 */
export interface DeadlineData {
  base: number;
  /** Without the present standstill, which the write knows. */
  stoodStillMs: number;
  /** It has passed, and the last poll was made. */
  hasExpired: boolean;
}

/** Why a run is over. */
export type RunEnding =
  | { kind: 'ended' }
  | { kind: 'timedOut' }
  | { kind: 'lost' }
  | { kind: 'abandoned' }
  | { kind: 'canceled' }
  | { kind: 'failed'; type: string; message: string; details: unknown };

/** What a run knows that continues no other. */
export function firstRunData(spec: JobSpec, startTime: Date): Omit<RunData, 'isRepeated'> {
  const startedAt = startTime.getTime();
  return {
    title: jobTitle(spec),
    startedAt,
    jobId: spec.jobId,
    deadline: { base: startedAt, stoodStillMs: 0, hasExpired: false },
    polls: {
      job: null,
      lastChangeAt: startedAt,
      polls: 0,
      settledAt: 0,
      endedAt: null,
      notFound: null,
      isGone: false,
      failures: 0,
      notBefore: 0,
      lastError: null,
      interruption: null,
      pollRequested: false,
    },
    write: null,
    decisions: [],
  };
}
