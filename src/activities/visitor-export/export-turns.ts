/**
 * The turns of exports in the one queue of all of them: an activity asks for the next turn, and tells what became of
 * the last one. A message that the Temporal server does not take costs time and no page: the workflow asks again, and
 * the queue counts a turn that nobody reports as spent.
 */
import { activityInfo } from '@temporalio/activity';
import type { Priority } from '../../contract.js';
import type { QueueName, QueuePlace, RequestReport } from '../../contract/request-queue.js';
import { startServerClock } from '../../temporal/activity-attempt.js';
import { joinQueue, queuePlace, reportRequest } from '../request-queue.js';
import { requestsOfTurn } from './paced-upstream.js';

/** How an export asks for its turns; absent from the workflows of a release that knew none. */
export interface TurnRequest {
  /** Where the queue runs. */
  taskQueue: string;
  priority: Priority;
  /** When the export first asked for this turn, in milliseconds; absent where it asks for the first time. */
  askedAt?: number;
}

/** A turn that was asked for. */
export interface AskedTurn {
  askedAt: number;
  /** Null where the export does not wait: its turn is on the way. */
  place: QueuePlace | null;
  /** Whether the queue answered; a silent one may be dead. */
  isAnswered: boolean;
}

const ALL_EXPORTS: QueueName = { operation: 'visitors', projectId: null };

/** Asks for a turn of the export that this activity works for. */
export async function askTurn(
  { taskQueue, priority, askedAt = startServerClock()() }: TurnRequest,
  requestsPerHour: number | undefined,
  report?: RequestReport,
): Promise<AskedTurn> {
  const workflowId = activityInfo().workflowExecution?.workflowId ?? '';
  const asked = { workflowId, priority, askedAt: Math.round(askedAt), requests: requestsOfTurn(requestsPerHour) };
  const facts = { perHour: requestsPerHour ?? null, ...(report && { report }) };
  await joinQueue(ALL_EXPORTS, taskQueue, { ...asked, ...facts });
  try {
    return { askedAt: asked.askedAt, place: await queuePlace(ALL_EXPORTS, workflowId), isAnswered: true };
  } catch {
    return { askedAt: asked.askedAt, place: null, isAnswered: false };
  }
}

/** Asks for a turn where the activity has done its work already; null where the Temporal server did not take it. */
export function askNextTurn(...args: Parameters<typeof askTurn>): Promise<AskedTurn | null> {
  return askTurn(...args).catch(() => null);
}

/** Tells the queue what became of the requests of a chunk after which no turn is asked for. */
export async function reportTurn(
  report: RequestReport | undefined,
  requestsPerHour: number | undefined,
): Promise<void> {
  if (!report) return;
  await reportRequest(ALL_EXPORTS, { ...report, perHour: requestsPerHour ?? null }).catch(() => {});
}
