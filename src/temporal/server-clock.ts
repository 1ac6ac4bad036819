import { activityInfo } from '@temporalio/activity';

/**
 * The time as the Temporal server counts it, from inside an activity attempt: when the server scheduled the attempt plus what has
 * passed here since. Workflow times are the server's too, so a worker whose own clock is wrong changes nothing.
 */
export function startServerClock(): () => number {
  const scheduledAt = activityInfo().currentAttemptScheduledTimestampMs;
  const startedAt = performance.now();
  return () => scheduledAt + (performance.now() - startedAt);
}
