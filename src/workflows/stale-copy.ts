/**
 * Throws a worker's copy of a run away that a query has spoilt. A query that reaches its worker by way of one that has
 * died has the SDK (1.24.0) apply events to the copy that belong to no workflow task yet, and no time has passed for it
 * since the task before. It would start a timer again that has fired. No replay does, so that the run would stand still
 * for good. The query fails instead, and the next task begins from the history.
 */
import type { WorkflowInterceptorsFactory } from '@temporalio/workflow';
import type { ActivateInput } from '@temporalio/workflow/lib/interceptors.js';
import { STALE_COPY } from '../contract/shared.js';

/** How far a copy of a run has come. */
interface Point {
  events: number;
  time: string;
}

/** Loaded with the workflows of every worker. */
export const interceptors: WorkflowInterceptorsFactory = () => {
  let last: Point | null = null;
  return {
    internals: [
      {
        activate(input, next) {
          const point = pointOf(input);
          if (last && isSpoilt(input, last, point)) throw new Error(`${STALE_COPY}: ask again`);
          last = point;
          next(input);
        },
      },
    ],
  };
};

function pointOf({ activation: { historyLength, timestamp } }: ActivateInput): Point {
  return { events: Number(historyLength ?? 0), time: `${String(timestamp?.seconds)}.${timestamp?.nanos}` };
}

/** Events have come, and not the time at which a task with them began. A task of the past has its time in history. */
function isSpoilt({ activation }: ActivateInput, last: Point, { events, time }: Point): boolean {
  const hasEvents = (activation.jobs ?? []).some(({ queryWorkflow }) => !queryWorkflow);
  return !activation.isReplaying && hasEvents && events > last.events && time === last.time;
}
