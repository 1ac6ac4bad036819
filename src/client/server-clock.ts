/** How far this machine's clock is from the server's, of which no request tells the time by itself. */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';

/** A server takes no poll that may last only seconds. */
const POLL_DEADLINE_MS = 30_000;
const LOOK_EVERY_MS = 100;
/** A sticky queue: nothing is ever sent to it, and the server forgets it by itself. */
const STICKY = 2; // temporal.api.enums.v1.TaskQueueKind
const WORKFLOW_QUEUE = 1; // temporal.api.enums.v1.TaskQueueType

/** A time of the server, and between which times of this machine it was taken. */
interface ClockReading {
  askedAt: number;
  serverAt: number;
  answeredAt: number;
}

/**
 * Polls a queue that is nobody's for a moment, and asks when the server saw that; polls until the signal, which it must
 * have, where the server does not tell.
 */
export async function readServerClock(client: Client, signal: AbortSignal): Promise<ClockReading> {
  const { namespace } = client.options;
  const taskQueue = { name: `agent-jobs-clock-${randomUUID()}`, kind: STICKY, normalName: 'agent-jobs-clock' };
  const told = new AbortController();
  const identity = 'agent-jobs doctor';
  const askedAt = Date.now();
  const poll = client.withDeadline(askedAt + POLL_DEADLINE_MS, () =>
    client.withAbortSignal(AbortSignal.any([signal, told.signal]), () =>
      client.workflowService.pollWorkflowTaskQueue({ namespace, taskQueue, identity }),
    ),
  );
  const refused = poll.then(() => new Promise<never>(() => {}));
  try {
    return await Promise.race([refused, readPoll(client, { taskQueue, askedAt }, signal)]);
  } finally {
    told.abort();
    refused.catch(() => {});
  }
}

async function readPoll(
  { workflowService, options: { namespace } }: Client,
  { taskQueue, askedAt }: { taskQueue: object; askedAt: number },
  signal: AbortSignal,
): Promise<ClockReading> {
  for (;;) {
    const { pollers } = await workflowService.describeTaskQueue({
      namespace,
      taskQueue,
      taskQueueType: WORKFLOW_QUEUE,
    });
    const seen = pollers?.[0]?.lastAccessTime;
    if (seen?.seconds != null) {
      const serverAt = Number(seen.seconds) * 1_000 + (seen.nanos ?? 0) / 1_000_000;
      return { askedAt, serverAt, answeredAt: Date.now() };
    }
    await delay(LOOK_EVERY_MS, undefined, { signal });
  }
}

/** By how many milliseconds at least the server's clock is ahead (or, below 0, behind); 0 where they may agree. */
export function clockDifference({ askedAt, serverAt, answeredAt }: ClockReading): number {
  if (serverAt > answeredAt) return serverAt - answeredAt;
  return serverAt < askedAt ? serverAt - askedAt : 0;
}
