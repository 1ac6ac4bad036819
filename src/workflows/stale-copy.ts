/**
 * Throws a worker's copy of a run away that a query has spoilt. A query that reaches its worker by way of one that has
 * died has the SDK (1.24.0) apply events to the copy that belong to no workflow task yet, and no time has passed for it
 * since the task before. It would start a timer again that has fired. No replay does, so that the run would stand still
 * for good. The query fails instead, and the next task begins from the history.
 *
 * A run that was terminated, or timed out, before a worker took what came last has no next task, and each copy of it is
 * spoilt anew. So the events are kept from one that was just read from the history, and who says by an argument that
 * the run is closed is answered, as of its last task.
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
  /** Whether that was read from the history. */
  isReplayed: boolean;
}

/** Loaded with the workflows of every worker. */
export const interceptors: WorkflowInterceptorsFactory = () => {
  let last: Point | null = null;
  let isBehind = false;
  return {
    internals: [
      {
        activate(input, next) {
          const point = pointOf(input);
          const isLate = last !== null && isSpoilt(input, last, point);
          if (isLate && last?.isReplayed) {
            isBehind = true;
            return;
          }
          if (isLate || (isBehind && !isOfClosedRun(input))) throw new Error(`${STALE_COPY}: ask again`);
          last = point;
          next(input);
        },
      },
    ],
  };
};

function pointOf(input: ActivateInput): Point {
  const { historyLength, historySizeBytes, timestamp, isReplaying } = input.activation;
  return {
    events: Number(historyLength ?? 0),
    time: `${String(timestamp?.seconds)}.${timestamp?.nanos}`,
    bytes: String(historySizeBytes),
    isReplayed: Boolean(isReplaying) && hasEvents(input),
  };
}

function hasEvents({ activation: { jobs } }: ActivateInput): boolean {
  return (jobs ?? []).some(({ queryWorkflow }) => !queryWorkflow);
}

/** Nothing but queries that say so. */
function isOfClosedRun({ activation: { jobs } }: ActivateInput): boolean {
  return (jobs ?? []).every(({ queryWorkflow }) => (queryWorkflow?.arguments ?? []).length > 0);
}

/**
 * Events have come, and not the task with them. A task of the past is in history. The time alone does not tell: where
 * the server's clock was set back, tasks begin and no time passes for the run.
 */
function isSpoilt(input: ActivateInput, last: Point, { events, time, bytes }: Point): boolean {
  const hasNoTask = time === last.time && bytes === last.bytes;
  return !input.activation.isReplaying && hasEvents(input) && events > last.events && hasNoTask;
}
