/** The SDK gives an activity no clock of the server. This can go when it does. */
import { activityInfo } from '@temporalio/activity';

/**
 * The time of the Temporal server, inside an activity attempt: when the server scheduled the attempt, plus what has
 * passed here since. Workflow times are the server's too, so a wrong clock of a worker changes nothing.
 */
export function startServerClock(): () => number {
  const scheduledAt = activityInfo().currentAttemptScheduledTimestampMs;
  const startedAt = performance.now();
  return () => scheduledAt + (performance.now() - startedAt);
}
