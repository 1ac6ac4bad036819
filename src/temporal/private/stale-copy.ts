/**
 * Decides when a worker's copy of a run is thrown away: once a query has spoilt it. Such a query reaches the worker by
 * way of another one that has died or stands still. No replay does what the spoilt copy would do, so the run would
 * stand still for good. The query fails instead, or the next task, which then begins from the history.
 *
 * Needs: the SDK's internal interceptors, which see each activation. They are not in its public types' documentation.
 * Can go when: no query reaches a copy with events of no task. The SDK (1.24.0) spoils a copy in two ways:
 *
 * - Events are applied that belong to no workflow task yet, and no time has passed since the task before: a timer would
 *   start again that has fired.
 * - A task is taken for done that another worker has in hand, and then times out there. The copy's commands would go
 *   out together with those of the next task, and what came with the task was taken at a time that no replay sees.
 *
 * A run may be terminated, or time out, before a worker took what came last. It has no next task, and each copy of it
 * would be spoilt anew. So a copy that was just read from the history is not given those events. A query whose argument
 * says that the run is closed is answered from it, as of the last task.
 *
 * Test: `test/chaos/query-in-hand.test.ts`, with and without it. `WORKER_STALE_COPY_GUARD=off` switches it off.
 */
import { defaultPayloadConverter } from '@temporalio/common';
import { proxySinks, type WorkflowInterceptors } from '@temporalio/workflow';
import type { ActivateInput } from '@temporalio/workflow/lib/interceptors.js';
import { STALE_COPY } from '../../contract/shared.js';

/** What a worker was given of a run. */
interface HistoryPoint {
  /** How far the history went: to the start of the task, or for a query to its end. */
  events: number;
  time: string;
  /** The history's size when the latest task began, in bytes, as that task's event has it. */
  bytes: string;
  isReplaying: boolean;
  isQuery: boolean;
}

/** The SDK's name for a query without a task. What history it brings goes on behind a task that is done. */
const ALONE = 'legacy_query';

/** What the worker counts. */
export type StaleCopySinks = { staleCopies: { thrownAway(): void } };

const { staleCopies } = proxySinks<StaleCopySinks>();

/** Loaded with the workflows of every worker. The bundle of one that has it switched off begins with that word. */
export function interceptors(): WorkflowInterceptors {
  const isOff = Reflect.get(globalThis, 'staleCopyGuard') === 'off';
  return isOff ? {} : guard(() => staleCopies.thrownAway());
}

/** Looks at what one copy of a run is given; calls `onThrownAway` for each activation that it fails. */
export function guard(onThrownAway: () => void): WorkflowInterceptors {
  let last: HistoryPoint | null = null;
  let isBehind = false;
  let isAhead = false;
  return {
    internals: [
      {
        activate(input, next) {
          const point = pointOf(input);
          const isOfNoTask = last !== null && hasNoTask(point, last);
          if (isOfNoTask && last?.isReplaying && !last.isQuery) {
            isBehind = true;
            return;
          }
          // A copy that is ahead answers queries.
          const isSpoilt = isOfNoTask || (isAhead && !point.isQuery);
          if (isSpoilt || (isBehind && !(point.isQuery && isOfClosedRun(input)))) {
            onThrownAway();
            throw new Error(`${STALE_COPY}: ask again`);
          }
          isAhead ||= last !== null && wasInOtherHand(last, input);
          last = point;
          next(input);
        },
      },
    ],
  };
}

function pointOf({ activation }: ActivateInput): HistoryPoint {
  const { historyLength, historySizeBytes, timestamp, isReplaying, jobs } = activation;
  return {
    events: Number(historyLength ?? 0),
    time: `${String(timestamp?.seconds)}.${timestamp?.nanos}`,
    bytes: String(historySizeBytes),
    isReplaying: Boolean(isReplaying),
    // A task may bring nothing.
    isQuery: jobs?.length !== 0 && (jobs ?? []).every(({ queryWorkflow }) => queryWorkflow),
  };
}

/** Nothing but queries that say so: by `{isClosed: true}`. */
function isOfClosedRun({ activation: { jobs } }: ActivateInput): boolean {
  return (jobs ?? []).every(({ queryWorkflow }) => {
    const [argument] = queryWorkflow?.arguments ?? [];
    return argument && defaultPayloadConverter.fromPayload<{ isClosed?: unknown } | null>(argument)?.isClosed === true;
  });
}

/** The time alone is not enough: after the server's clock was set back, tasks begin and no time passes for the run. */
function isOfSameTask(one: HistoryPoint, other: HistoryPoint): boolean {
  return one.time === other.time && one.bytes === other.bytes;
}

/** Events have come, and not the task with them. A task of the past is in history. */
function hasNoTask(point: HistoryPoint, last: HistoryPoint): boolean {
  return !point.isReplaying && !point.isQuery && point.events > last.events && isOfSameTask(point, last);
}

/** The task that a copy was given last is the end of the history, as a query alone shows it: no worker has done it. */
function wasInOtherHand(last: HistoryPoint, { activation: { jobs, historyLength } }: ActivateInput): boolean {
  if (last.isQuery || last.isReplaying || Number(historyLength) !== last.events) return false;
  return (jobs ?? []).some(({ queryWorkflow }) => queryWorkflow?.queryId === ALONE);
}
