/** Why nothing happens right now: derived from what the run knows, at no cost. */
import type { Reading } from '../../activities/index.js';
import { isTerminalStatus, type Waiting } from '../../contract.js';
import type { JobSpec } from '../../agent-job/input.js';
import type { Obstacle, RunData } from './run-data.js';

/** What of a run tells why it waits. */
export interface WaitingRun {
  spec: Pick<JobSpec, 'lingerMs' | 'settleMs'>;
  data: RunData;
  isLingering: boolean;
  /** The last time that a watch began. */
  lastWatchAt: number;
  /** Null while a watch runs: it plans its reads itself. */
  nextReadAt: number | null;
}

/** Null where the next thing is done by this very workflow task. */
export function waitingOf(run: WaitingRun, now: number): Waiting | null {
  const { data } = run;
  if (data.unknown) {
    return waiting('person', Date.parse(data.unknown.since), data.decideBy, data.unknown.reason);
  }
  if (data.write) {
    const { wait, notBefore } = data.write;
    return wait ? waiting(wait.for, wait.since, notBefore > now ? notBefore : null, wait.reason) : null;
  }
  return data.jobId === null ? null : waitingToRead(run, now);
}

function waitingToRead({ spec, data, isLingering, lastWatchAt, nextReadAt }: WaitingRun, now: number): Waiting {
  if (isLingering && data.endedAt !== null) return waiting('linger', data.endedAt, data.endedAt + spec.lingerMs);
  const { readTrouble } = data;
  if (readTrouble) {
    const until = Math.max(nextReadAt ?? 0, data.notBefore);
    return waiting(readTrouble.for, readTrouble.since, until > now ? until : null, readTrouble.reason);
  }
  if (data.settledAt > now && isTerminalStatus(data.job?.status)) {
    return waiting('settle', data.settledAt - spec.settleMs, data.settledAt);
  }
  return waiting('poll', Math.max(lastWatchAt, data.lastChangeAt), nextReadAt);
}

function waiting(what: Waiting['for'], since: number, until: number | null, reason?: string): Waiting {
  return {
    for: what,
    since: new Date(since).toISOString(),
    ...(until === null ? {} : { until: new Date(until).toISOString() }),
    ...(reason === undefined ? {} : { reason }),
  };
}

/** What keeps reads from being of use, as the last one showed; null where it brought something. */
export function readTroubleOf(reading: Reading, before: Obstacle | null | undefined, now: number): Obstacle | null {
  if (reading.kind !== 'failed') return null;
  const { reason, waitsFor = 'upstream' } = reading;
  return { for: waitsFor, since: before?.for === waitsFor ? before.since : now, reason };
}
