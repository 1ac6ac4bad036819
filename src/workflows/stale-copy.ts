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
  /** Of the history when the latest task began, in bytes, as that task's event tells it. */
  bytes: string;
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

function pointOf({ activation: { historyLength, historySizeBytes, timestamp } }: ActivateInput): Point {
  return {
    events: Number(historyLength ?? 0),
    time: `${String(timestamp?.seconds)}.${timestamp?.nanos}`,
    bytes: String(historySizeBytes),
  };
}

/**
 * Events have come, and not the task with them. A task of the past is in history. The time alone does not tell: where
 * the server's clock was set back, tasks begin and no time passes for the run.
 */
function isSpoilt({ activation }: ActivateInput, last: Point, { events, time, bytes }: Point): boolean {
  const hasEvents = (activation.jobs ?? []).some(({ queryWorkflow }) => !queryWorkflow);
  const hasNoTask = time === last.time && bytes === last.bytes;
  return !activation.isReplaying && hasEvents && events > last.events && hasNoTask;
}
