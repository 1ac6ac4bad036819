/** What a queue of requests tells: the answers to its queries, and the current details in Temporal's web UI. */
import type { QueuedRequest, QueueName, QueuePlace, RequestQueueState } from '../../contract.js';
import { plainMarkdown } from '../../agent-job/markdown.js';
import { queueSummary } from '../../agent-job/title.js';
import type { QueueRun } from './queue-run.js';

/** So many that wait are listed: in the state, and in the web UI. */
const MOST_LISTED = { state: 100, details: 10 };

/** A page shows so much of a workflow id; the state has all of it. */
const MAX_ID_BYTES = 300;

/** The answer to `requestQueueState`. */
export function queueState({ operation, projectId }: QueueName, run: QueueRun): RequestQueueState {
  const { budget, waiters } = run;
  const { perHour, isLearned, spentLastHour, throttledLastHour } = budget;
  return {
    operation,
    projectId,
    perHour,
    isLearned,
    spentLastHour,
    throttledLastHour,
    inFlight: run.turnsInFlight,
    notBefore: isoOf(budget.notBefore),
    nextTurnAt: isoOf(nextTurnAt(run)),
    waitingCount: waiters.count,
    waiting: listed(run, MOST_LISTED.state),
  };
}

/** The answer to `queuePlace`. */
export function queuePlace(run: QueueRun, workflowId: unknown): QueuePlace | null {
  const place = typeof workflowId === 'string' ? run.waiters.placeOf(workflowId) : null;
  if (!place) return null;
  const expectedAt = expectations(run)(place);
  return { for: run.budget.waitsAsTold ? 'rateLimit' : 'turn', position: place.position, ...expectedAt };
}

/** Markdown for the queue's page in the web UI. */
export function queueDetails(name: QueueName, run: QueueRun): string {
  const {
    perHour,
    isLearned,
    spentLastHour,
    throttledLastHour,
    notBefore,
    nextTurnAt,
    inFlight,
    waitingCount,
    waiting,
  } = { ...queueState(name, run), waiting: listed(run, MOST_LISTED.details) };
  const budget = perHour === null ? 'not known' : `${perHour} an hour, ${isLearned ? 'learned' : 'set'}`;
  const hidden = waitingCount - waiting.length;
  return [
    `**${queueSummary(name)}**`,
    '',
    `- budget: **${budget}**`,
    `- last hour: ${spentLastHour} spent, ${throttledLastHour} answered 429`,
    `- turns in flight: ${inFlight}`,
    ...(notBefore === null ? [] : [`- nothing is sent before: ${notBefore}`]),
    ...(nextTurnAt === null ? [] : [`- next turn: ${nextTurnAt}`]),
    `- waiting: **${waitingCount}**`,
    ...waiting.map(
      ({ position, workflowId, priority, since, expectedAt }) =>
        `  ${position}. ${plainMarkdown(workflowId, MAX_ID_BYTES)}, priority ${priority}, since ${since}` +
        (expectedAt === undefined ? '' : `, expected ${expectedAt}`),
    ),
    ...(hidden > 0 ? [`  and ${hidden} more`] : []),
  ].join('\n');
}

/** Null where one could be given at once, and nobody waits for it. */
function nextTurnAt({ nextTurnAt: at, waiters }: QueueRun): number | null {
  return waiters.count === 0 && at !== null && at <= Date.now() ? null : at;
}

function listed(run: QueueRun, most: number): QueuedRequest[] {
  const expectedAt = expectations(run);
  let wanted = 0;
  return run.waiters.head(most).map(({ workflowId, priority, askedAt, requests }, index) => {
    const place = { position: index + 1, requests: (wanted += requests) };
    return {
      workflowId,
      priority,
      since: new Date(askedAt).toISOString(),
      position: place.position,
      ...expectedAt(place),
    };
  });
}

/** When turns are expected. Without a budget nobody knows but when the first one comes. */
function expectations(run: QueueRun): (place: { position: number; requests: number }) => { expectedAt?: string } {
  const forecast = run.budget.forecast();
  const { nextTurnAt: firstAt } = run;
  return ({ position, requests }) => {
    const at = forecast ? forecast(requests) : position === 1 ? firstAt : null;
    return at === null ? {} : { expectedAt: new Date(at).toISOString() };
  };
}

function isoOf(time: number | null): string | null {
  return time === null ? null : new Date(time).toISOString();
}
