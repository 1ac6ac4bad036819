import { condition, setHandler } from '@temporalio/workflow';
import {
  joinQueueSignal,
  requestQueueStateQuery,
  type JoinRequest,
  type QueuedRequest,
  type RequestQueueInput,
  type RequestQueueState,
} from '../../../src/contract.js';

const FIRST_TURN = Date.parse('2026-01-01T12:00:00.000Z');
const LAST_TURN = Date.parse('2126-01-01T12:00:00.000Z');

/** A stand-in for `requestQueue` that gives no turn: each write that joins waits, one a minute is expected to go. */
export async function requestQueue({ operation, projectId }: RequestQueueInput): Promise<void> {
  const joined: JoinRequest[] = [];
  const waiting = (): QueuedRequest[] =>
    joined.map(({ workflowId, priority, askedAt }, i) => ({
      workflowId,
      priority,
      since: new Date(askedAt).toISOString(),
      position: i + 1,
      ...(priority < 5 && { expectedAt: new Date(FIRST_TURN + i * 60_000).toISOString() }),
    }));
  setHandler(joinQueueSignal, (request) => void joined.push(request));
  setHandler(requestQueueStateQuery, (): RequestQueueState => ({
    operation,
    projectId,
    perHour: joined.length === 0 ? null : 60,
    perDay: joined.length === 0 ? null : 500,
    spentLastHour: 60,
    spentLastDay: 480,
    throttledLastHour: 1,
    inFlight: 2,
    notBefore: joined.length < 3 ? null : new Date(joined.length === 3 ? FIRST_TURN : LAST_TURN).toISOString(),
    nextTurnAt: joined.length === 0 ? null : new Date(joined.length > 3 ? LAST_TURN : FIRST_TURN).toISOString(),
    waitingCount: joined.length,
    waiting: waiting().slice(0, 2),
  }));
  await condition(() => false);
}
