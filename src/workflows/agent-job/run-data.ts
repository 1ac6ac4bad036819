/** What continue-as-new hands on of a run, and how a run ends. */
import type { Decision } from '../../contract.js';
import type { JobSpec } from '../../agent-job/input.js';
import { jobTitle } from '../../agent-job/title.js';
import type { ClockData } from './job-clock.js';
import type { WriteData } from './write-data.js';
import type { PollData } from './poll-state.js';

/** The plain data of a run: continue-as-new hands it on. Times in milliseconds. */
export interface RunData {
  title: string;
  startedAt: number;
  /** Temporal itself started this run again, or one before it in its chain: every write asks first. */
  isRepeated: boolean;
  jobId: string | null;
  clock: ClockData;
  polls: PollData;
  write: WriteData | null;
  decisions: Decision[];
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
    clock: { deadlineAt: startedAt + spec.deadlineMs, stoppedAt: null, hasExpired: false },
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
