/** What the queries of a queue answer: who waits, for what, and until when. Pure. Times in milliseconds. */
import type { QueuedRequest, QueueName, QueuePlace, RequestQueueState } from '../contract.js';
import type { QueueRun } from './queue-run.js';
import { HOUR } from './rolling-window.js';

/** The number of those that wait and are listed. */
const MAX_LISTED_WAITERS = 100;
const REQUEST_WORDS: Record<QueueName['operation'], string> = {
  create: 'create',
  message: 'message',
  visitors: 'request',
};

/** The answer to `requestQueueState`. */
export function queueState({ operation, projectId }: QueueName, current: QueueRun, now: number): RequestQueueState {
  const run = current.asOf(now);
  const { budget, waiters, nextTurnAt } = run;
  // If a turn could be given at once and no workflow waits, there is no next turn.
  const isIdle = waiters.count === 0 && nextTurnAt !== null && nextTurnAt <= now;
  return {
    operation,
    projectId,
    perHour: budget.numberOf('perHour'),
    perDay: budget.numberOf('perDay'),
    spentLastHour: budget.spentOf('perHour'),
    spentLastDay: budget.spentOf('perDay'),
    throttledLastHour: HOUR.countOf(budget.data.throttled, now),
    inFlight: run.turnsInFlight,
    notBefore: budget.notBefore === null ? null : iso(budget.notBefore),
    nextTurnAt: isIdle || nextTurnAt === null ? null : iso(nextTurnAt),
    waitingCount: waiters.count,
    waiting: listed(run),
  };
}

/** The answer to `queuePlace`. */
export function queuePlace({ operation }: QueueName, run: QueueRun, workflowId: unknown): QueuePlace | null {
  const place = typeof workflowId === 'string' ? run.waiters.placeOf(workflowId) : null;
  if (!place) return null;
  const { position, requests } = place;
  const { data, notBefore } = run.budget;
  const expected = expectation(run, place, run.sendTimes(requests));
  if (data.isNamed && notBefore !== null) return { for: 'rateLimit', position, ...expected };
  const used = run.budget.usedUp(run.requestsInFlight + requests);
  const what = used && `${used.max} ${REQUEST_WORDS[operation]}${used.max === 1 ? '' : 's'}`;
  return {
    for: 'turn',
    position,
    ...expected,
    ...(used && { reason: `the ${used.name}'s budget of ${what} is used` }),
  };
}

function listed(run: QueueRun): QueuedRequest[] {
  const head = run.waiters.head(MAX_LISTED_WAITERS);
  const times = run.sendTimes(head.reduce((sum, { requests }) => sum + requests, 0));
  let wanted = 0;
  return head.map(({ workflowId, priority, askedAt, requests }, index) => {
    const place = { position: index + 1, requests: (wanted += requests) };
    const since = iso(askedAt);
    return { workflowId, priority, since, position: place.position, ...expectation(run, place, times) };
  });
}

/** When a turn is expected. Without a limit, only the time of the first one is known. */
function expectation(
  { nextTurnAt }: QueueRun,
  { position, requests }: { position: number; requests: number },
  sendTimes: readonly number[],
): { expectedAt?: string } {
  const at = sendTimes[requests - 1] ?? (position === 1 ? nextTurnAt : null);
  return at === null ? {} : { expectedAt: iso(at) };
}

function iso(time: number): string {
  return new Date(time).toISOString();
}
