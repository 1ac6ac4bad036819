/** Reads the Schedules of the exports, and whether a worker polls for exports. */
import type { NativeConnection } from '@temporalio/worker';
import { exportTaskQueue, scheduledProject, visitorExportScheduleId } from '../contract.js';
import type { Metrics } from '../activities/metrics.js';
import { hasGrpcStatus } from '../temporal/grpc-status.js';
import { every } from './every.js';
import type { Logger } from './logging.js';

const CALL_LIMIT_MS = 10_000;
const COUNT_INTERVAL_MS = 60_000;
const PAGE_SIZE = 500;
const ACTIVITY_QUEUE = 2; // TASK_QUEUE_TYPE_ACTIVITY
const ID_START = visitorExportScheduleId('');

/** When the Schedule of each project that this task queue exports was made, in milliseconds since 1970. */
export async function scheduledProjects(
  connection: NativeConnection,
  namespace: string,
  taskQueue: string,
): Promise<Map<string, number>> {
  const projects = new Map<string, number>();
  let nextPageToken: Uint8Array = new Uint8Array();
  do {
    const request = { namespace, maximumPageSize: PAGE_SIZE, nextPageToken };
    const page = await withLimit(connection, () => connection.workflowService.listSchedules(request));
    for (const { scheduleId } of page.schedules ?? []) {
      if (!scheduleId?.startsWith(ID_START)) continue;
      const madeAt = await madeFor(connection, namespace, scheduleId, taskQueue);
      if (madeAt !== null) projects.set(scheduledProject(scheduleId), madeAt);
    }
    nextPageToken = page.nextPageToken ?? new Uint8Array();
  } while (nextPageToken.length > 0);
  return projects;
}

/** Null where it belongs to another task queue, or was removed meanwhile. */
async function madeFor(
  connection: NativeConnection,
  namespace: string,
  scheduleId: string,
  taskQueue: string,
): Promise<number | null> {
  const described = await withLimit(connection, () =>
    connection.workflowService.describeSchedule({ namespace, scheduleId }),
  ).catch((error: unknown) => {
    if (hasGrpcStatus(error, 'notFound')) return null;
    throw error;
  });
  if (described?.schedule?.action?.startWorkflow?.taskQueue?.name !== taskQueue) return null;
  return Number(described.info?.createTime?.seconds ?? 0) * 1_000;
}

/** Counts, once a minute, the workers that ask for exports, for the metric; returns what stops it. */
export function countExportPollers(
  connection: NativeConnection,
  namespace: string,
  taskQueue: string,
  metrics: Metrics,
  log: Logger,
): () => void {
  const request = { namespace, taskQueue: { name: exportTaskQueue(taskQueue) }, taskQueueType: ACTIVITY_QUEUE };
  const count = async () => {
    const { pollers } = await withLimit(connection, () => connection.workflowService.describeTaskQueue(request));
    metrics.exportPollers(pollers?.length ?? 0);
  };
  const onError = (error: unknown) => log.debug({ error }, 'Could not count the workers of the exports');
  return every(COUNT_INTERVAL_MS, count, { onError });
}

function withLimit<T>(connection: NativeConnection, call: () => Promise<T>): Promise<T> {
  return connection.withDeadline(Date.now() + CALL_LIMIT_MS, call);
}
