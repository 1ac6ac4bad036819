import { condition, getExternalWorkflowHandle, proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow';
import {
  joinQueueSignal,
  reportRequestSignal,
  requestTurnSignal,
  type Priority,
  type RequestReport,
  type Turn,
} from '../../../src/contract.js';

export interface WaiterInput {
  queueId: string;
  priority: Priority;
  askedAt: number;
  /** What it does with its first turn: by default it sends and reports what came of it. */
  habit?: 'silent' | undefined;
}

/** What the upstream of a test answers; `at` is the server's time. */
type Answer = Pick<RequestReport, 'outcome' | 'at' | 'retryAfterMs'>;
export interface WaiterActivities {
  sendUpstream(workflowId: string): Promise<Answer>;
}

const { sendUpstream } = proxyActivities<WaiterActivities>({ startToCloseTimeout: '1 minute' });

/** Stands in for a job: it waits for its turn, sends, and reports what came of it; after a 429 it asks again. */
export async function waiter({ queueId, priority, askedAt, habit }: WaiterInput): Promise<Turn[]> {
  const queue = getExternalWorkflowHandle(queueId);
  const { workflowId } = workflowInfo();
  const turns: Turn[] = [];
  setHandler(requestTurnSignal, (turn) => void (turn && turns.push(turn)));
  for (let used = 0; ;) {
    await condition(() => turns.length > used);
    const { id: turn } = turns[used++]!;
    const report = { turn, ...(await sendUpstream(workflowId)) };
    if (habit === 'silent') return turns;
    if (report.outcome === 'accepted') {
      await queue.signal(reportRequestSignal, report);
      return turns;
    }
    await queue.signal(joinQueueSignal, { workflowId, priority, askedAt, report });
  }
}
