/** What workers report of themselves to Temporal once a minute, and whether their polls last, as it shows. */
import type { Client } from '@temporalio/client';
import type { temporal } from '@temporalio/proto';

type Heartbeat = temporal.api.worker.v1.IWorkerHeartbeat;

/** An idle worker's poll is answered after a minute. One that got no answer for this long has each of its polls cut. */
const CUT_AFTER_MS = 100_000;

/** As `doctor` and `/readyz` say it. */
export const POLLS_ARE_CUT =
  'long calls to Temporal are cut before their answer, again and again: something on the way must let them last 70 s';

/** The last report of each worker that a query finds. Only a server from 1.30 on keeps them. */
export async function readHeartbeats(client: Client, query: string): Promise<Heartbeat[]> {
  const { namespace } = client.options;
  const { workersInfo } = await client.workflowService
    .listWorkers({ namespace, query })
    .catch(() => ({ workersInfo: [] }));
  return (workersInfo ?? []).flatMap(({ workerHeartbeat }) => workerHeartbeat ?? []);
}

/** Whether short calls, as the report itself, reached the server, but no poll of a worker that runs came to its end. */
export function arePollsCut(last: Heartbeat): boolean {
  const { workflowPollerInfo, workflowStickyPollerInfo, activityPollerInfo } = last;
  const polls = [workflowPollerInfo, workflowStickyPollerInfo, activityPollerInfo];
  const latest = Math.max(toMs(last.startTime), ...polls.map((poll) => toMs(poll?.lastSuccessfulPollTime)));
  return toMs(last.heartbeatTime) - latest > CUT_AFTER_MS;
}

type ProtoTime = { seconds?: unknown; nanos?: number | null };

/** A time of the server's in milliseconds. */
export function toMs(time: ProtoTime | null | undefined): number {
  return Number(time?.seconds ?? 0) * 1_000 + (time?.nanos ?? 0) / 1e6;
}
