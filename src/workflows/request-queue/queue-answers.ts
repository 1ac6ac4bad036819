/** The answers to the queries of a queue of requests. */
import type { QueuedRequest, QueueName, QueuePlace, RequestQueueState } from '../../contract.js';
import type { QueueRun } from './queue-run.js';
import { countOf, HOUR_MS } from './rolling-hour.js';

/** So many that wait are listed. */
const MAX_LISTED = 100;

/** The answer to `requestQueueState`. */
export function queueState({ operation, projectId }: QueueName, run: QueueRun): RequestQueueState {
  const { budget, waiters, nextTurnAt } = run;
  // If a turn could be given at once and no workflow waits, there is no next turn.
  const isIdle = waiters.count === 0 && nextTurnAt !== null && nextTurnAt <= Date.now();
  return {
    operation,
    projectId,
    perHour: budget.perHour,
    spentLastHour: countOf(budget.data.spent, Date.now()),
    throttledLastHour: countOf(budget.data.throttled, Date.now()),
    inFlight: run.turnsInFlight,
    notBefore: budget.notBefore === null ? null : iso(budget.notBefore),
    nextTurnAt: isIdle || nextTurnAt === null ? null : iso(nextTurnAt),
    waitingCount: waiters.count,
    waiting: listed(run),
  };
}

/** The answer to `queuePlace`. */
export function queuePlace(run: QueueRun, workflowId: unknown): QueuePlace | null {
  const place = typeof workflowId === 'string' ? run.waiters.placeOf(workflowId) : null;
  if (!place) return null;
  const { data, notBefore } = run.budget;
  const isNamed = data.isNamed && notBefore !== null;
  return { for: isNamed ? 'rateLimit' : 'turn', position: place.position, ...expectation(run, place) };
}

function listed(run: QueueRun): QueuedRequest[] {
  let wanted = 0;
  return run.waiters.head(MAX_LISTED).map(({ workflowId, priority, askedAt, requests }, index) => {
    const place = { position: index + 1, requests: (wanted += requests) };
    const since = iso(askedAt);
    return { workflowId, priority, since, position: place.position, ...expectation(run, place) };
  });
}

/** When a turn is expected. Without a number of an hour, only the time of the first one is known. */
function expectation(
  { budget, nextTurnAt, requestsInFlight }: QueueRun,
  { position, requests }: { position: number; requests: number },
): { expectedAt?: string } {
  const { perHour } = budget;
  if (perHour === null) return position === 1 && nextTurnAt !== null ? { expectedAt: iso(nextTurnAt) } : {};
  const hours = Math.floor((requests - 1) / perHour);
  const at = budget.freeAt(requestsInFlight + requests - hours * perHour) + hours * HOUR_MS;
  return { expectedAt: iso(at) };
}

function iso(time: number): string {
  return new Date(time).toISOString();
}
