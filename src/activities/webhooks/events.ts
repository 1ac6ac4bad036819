/** What is told of a job or an export: each event has an id that follows from what happened, whoever finds it. */
import { createHash } from 'node:crypto';
import { type Client, WorkflowFailedError, type WorkflowExecutionInfo } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { ENDED_BY } from '../../agent-job/closed-run.js';
import { shellWord } from '../../agent-job/waiting-text.js';
import { TemporalCallError } from '../../client/errors.js';
import { temporalCall } from '../../client/temporal-call.js';
import type { JobSummary } from '../../client/agent-job/list.js';
import { jobUrl, type WebUi } from '../../client/web-ui.js';
import { agentJobOf, type InDoubtWrite, type SnapshotReceipt, type VisitorExportResult } from '../../contract.js';
import { utf8Bytes } from '../../contract/input-checks.js';
import type { WebhookEventType } from '../../contract/webhooks.js';

/** What happened. */
interface WebhookEvent {
  id: string;
  type: WebhookEventType;
  projectId: string | null;
  /** The workflow that it happened to. */
  workflowId: string;
  body: string;
}

const MAX_BODY_BYTES = 20 * 1024;

/** A job's run has closed, however. */
export function jobEnded(job: JobSummary): WebhookEvent {
  const { workflowId, runId, outcome, jobId, prLink, tags, metadata, endedAt } = job;
  // One that ended before a worker began it has the attribute only where our client started it.
  const projectId = job.projectId ?? agentJobOf(workflowId)?.projectId ?? null;
  const data = { ...named(projectId, workflowId), workflowId, runId, outcome, jobId, prLink, tags, metadata };
  return eventOf('agent_job.ended', runId, endedAt!, data, [
    { prLink: null },
    { metadata: {} },
    { jobId: null, tags: [] },
  ]);
}

/** A write that is in doubt. */
interface Doubt {
  workflowId: string;
  runId: string;
  projectId: string | null;
  unknown: InDoubtWrite;
}

/** A write came to be in doubt: only a person can settle it. */
export function needsAttention({ workflowId, runId, projectId, unknown }: Doubt, webUi: WebUi | null): WebhookEvent {
  const command = `npx agent-jobs resolve ${shellWord(workflowId)} ACTION --since ${unknown.since}`;
  const url = webUi && jobUrl(webUi, { workflowId, runId });
  const data = { ...named(projectId, workflowId), workflowId, runId, unknown, command, url };
  // Not by the run: continue-as-new hands a write in doubt to another one.
  return eventOf('agent_job.needs_attention', `${workflowId} ${unknown.since}`, unknown.since, data);
}

function named(projectId: string | null, workflowId: string) {
  return { projectId, key: agentJobOf(workflowId)?.key ?? null };
}

/** An export's run has closed: reads how. */
export async function exportEnded(client: Client, run: WorkflowExecutionInfo): Promise<WebhookEvent> {
  const { workflowId, runId } = run;
  const { snapshots, failure } = await endOf(client, run);
  const told = snapshots.map(({ snapshotId, dateFrom, dateTo, consistent, unchanged, location }) => ({
    ...{ snapshotId, dateFrom, dateTo, consistent, unchanged, location },
  }));
  const data = { projectId: projectOf(workflowId), workflowId, runId, snapshots: told, failure };
  const fewer = [40, 20, 5].map((count) => ({
    snapshots: told.slice(0, count),
    snapshotsLeftOut: told.length - count,
  }));
  return eventOf('visitor_export.ended', runId, run.closeTime!.toISOString(), data, fewer);
}

async function endOf(
  client: Client,
  { workflowId, runId, status }: WorkflowExecutionInfo,
): Promise<{ snapshots: SnapshotReceipt[]; failure: string | null }> {
  try {
    const read = () => client.workflow.result(workflowId, runId, { followRuns: false });
    const result = (await temporalCall(client, {}, read)) as VisitorExportResult;
    return { snapshots: result.snapshots, failure: null };
  } catch (error) {
    if (error instanceof TemporalCallError) throw error;
    // Of a key that is not here, or no export's at all.
    if (!(error instanceof WorkflowFailedError)) return { snapshots: [], failure: 'Unreadable' };
    const { cause } = error;
    if (!(cause instanceof ApplicationFailure)) return { snapshots: [], failure: ENDED_BY[status.name] ?? 'Failed' };
    const [details] = (cause.details ?? []) as [Partial<VisitorExportResult>?];
    return { snapshots: details?.snapshots ?? [], failure: cause.type ?? 'Failed' };
  }
}

/** From the ids that our client and its Schedules give; null of another. */
function projectOf(workflowId: string): string | null {
  const [, encoded] = /^visitor-export\/([^/]+?)(?:\/|-\d{4}-\d\d-\d\dT[\d:]+Z$)/.exec(workflowId) ?? [];
  try {
    return encoded === undefined ? null : decodeURIComponent(encoded);
  } catch {
    return null;
  }
}

/** The upstream's texts may hold half a surrogate pair or NUL, which the JSON readers of many receivers refuse. */
function readable(_: string, value: unknown): unknown {
  return typeof value === 'string' ? value.toWellFormed().replaceAll('\0', '\uFFFD') : value;
}

type Data = { projectId: string | null; workflowId: string } & Record<string, unknown>;

/** What makes a body too long is replaced, one thing after the other. */
function eventOf(
  type: WebhookEventType,
  happened: string,
  timestamp: string,
  data: Data,
  shorter: readonly object[] = [],
): WebhookEvent {
  const id = `evt_${createHash('sha256').update(`${type} ${happened}`).digest('base64url').slice(0, 32)}`;
  const { projectId, workflowId } = data;
  let fitting: object = data;
  let body = '';
  for (const replacement of [{}, ...shorter]) {
    fitting = { ...fitting, ...replacement };
    body = JSON.stringify({ type, timestamp, data: fitting }, readable);
    if (utf8Bytes(body) <= MAX_BODY_BYTES) break;
  }
  return { id, type, projectId, workflowId, body };
}
