/** The events of jobs and exports. An event's id follows from what happened, so that it is the same at each search. */
import { createHash } from 'node:crypto';
import { type Client, WorkflowFailedError, type WorkflowExecutionInfo } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { ENDED_BY } from '../../agent-job/closed-run.js';
import { shellWord } from '../../agent-job/shown-text.js';
import { TemporalCallError } from '../../client/errors.js';
import { temporalCall } from '../../client/temporal-call.js';
import type { JobSummary } from '../../client/agent-job/list.js';
import { jobUrl, type WebUi } from '../../client/web-ui.js';
import { agentJobOf, type InDoubtWrite, type VisitorExportResult } from '../../contract.js';
import { cutToBytes, utf8Bytes } from '../../contract/shared.js';
import type { WebhookEventType } from '../../contract/webhooks.js';

/** What happened to a workflow. */
export interface WebhookEvent {
  id: string;
  type: WebhookEventType;
  projectId: string | null;
  workflowId: string;
  body: string;
}

/** Many receivers take no larger body. */
const MAX_EVENT_BYTES = 20 * 1024;
const MAX_SNAPSHOTS = 20;
const MAX_TYPE_BYTES = 200;
/** The rest is for ids, and for a failure's type. */
const MAX_SNAPSHOTS_BYTES = MAX_EVENT_BYTES - 4 * 1024;

/** A job's run has closed, in any way. */
export function jobEnded(job: JobSummary): WebhookEvent {
  const { workflowId, runId, outcome, jobId, prLink, tags, metadata, endedAt } = job;
  // A job that ended before a worker began it has a project only if our client started it.
  const projectId = job.projectId ?? agentJobOf(workflowId)?.projectId ?? null;
  const data = { projectId, key: keyOf(workflowId), workflowId, runId, outcome, jobId, prLink, tags, metadata };
  return eventOf('agent_job.ended', runId, endedAt!, data);
}

/** A write is in doubt, and only a person can resolve it. */
export function needsAttention(
  job: { workflowId: string; runId: string; projectId: string | null; unknown: InDoubtWrite },
  webUi: WebUi | null,
): WebhookEvent {
  const { projectId, workflowId, runId, unknown } = job;
  const command = `npx agent-jobs resolve ${shellWord(workflowId)} ACTION --since ${unknown.since}`;
  const url = webUi && jobUrl(webUi, { workflowId, runId });
  const data = { projectId, key: keyOf(workflowId), workflowId, runId, unknown, command, url };
  // The run is no part of the event's id: continue-as-new hands a write in doubt to another run.
  return eventOf('agent_job.needs_attention', `${workflowId} ${unknown.since}`, unknown.since, data);
}

function keyOf(workflowId: string): string | null {
  return agentJobOf(workflowId)?.key ?? null;
}

/** An export's run has closed. Its result is read for the event. */
export async function exportEnded(client: Client, run: WorkflowExecutionInfo): Promise<WebhookEvent> {
  const { workflowId, runId } = run;
  const { snapshots, failure } = await exportEndOf(client, run);
  const all = snapshots.map(({ snapshotId, dateFrom, dateTo, consistent, unchanged, location }) => {
    return { snapshotId, dateFrom, dateTo, consistent, unchanged, location };
  });
  const sent = all.slice(0, MAX_SNAPSHOTS);
  // Addresses of a store may be long.
  while (utf8Bytes(JSON.stringify(sent)) > MAX_SNAPSHOTS_BYTES) sent.pop();
  const left = all.length - sent.length;
  const data = {
    projectId: projectOf(workflowId),
    workflowId,
    runId,
    snapshots: sent,
    failure,
    ...(left > 0 && { snapshotsLeftOut: left }),
  };
  return eventOf('visitor_export.ended', runId, run.closeTime!.toISOString(), data);
}

type ExportEnd = Pick<VisitorExportResult, 'snapshots'> & { failure: string | null };

async function exportEndOf(client: Client, { workflowId, runId, status }: WorkflowExecutionInfo): Promise<ExportEnd> {
  try {
    const read = () => client.workflow.result(workflowId, runId, { followRuns: false });
    const { snapshots } = (await temporalCall(client, {}, read)) as VisitorExportResult;
    return { snapshots, failure: null };
  } catch (error) {
    if (error instanceof TemporalCallError) throw error;
    // This worker lacks the key of payloads, or the result is no export's.
    if (!(error instanceof WorkflowFailedError)) return { snapshots: [], failure: 'Unreadable' };
    const { cause } = error;
    if (!(cause instanceof ApplicationFailure)) return { snapshots: [], failure: ENDED_BY[status.name] ?? 'Failed' };
    const [details] = (cause.details ?? []) as [Partial<VisitorExportResult>?];
    return { snapshots: details?.snapshots ?? [], failure: cutToBytes(cause.type ?? 'Failed', MAX_TYPE_BYTES) };
  }
}

/** The project in a workflow id; null for an id that neither our client nor its Schedules gave. */
function projectOf(workflowId: string): string | null {
  const [, encoded] = /^visitor-export\/([^/]+?)(?:\/|-\d{4}-\d\d-\d\dT[\d:]+Z$)/.exec(workflowId) ?? [];
  try {
    return encoded === undefined ? null : decodeURIComponent(encoded);
  } catch {
    return null;
  }
}

type Data = { projectId: string | null; workflowId: string } & Record<string, unknown>;

function eventOf(type: WebhookEventType, happened: string, timestamp: string, data: Data): WebhookEvent {
  const id = `evt_${createHash('sha256').update(`${type} ${happened}`).digest('base64url').slice(0, 32)}`;
  const { projectId, workflowId } = data;
  const bodyOf = (sent: object) => JSON.stringify({ type, timestamp, data: sent }, readable);
  const whole = bodyOf(data);
  // Texts of the upstream, or of a foreign caller, may be longer than a body may be. The job keeps them whole.
  const short = { ...data, jobId: null, prLink: null, tags: [], metadata: {} };
  return { id, type, projectId, workflowId, body: utf8Bytes(whole) > MAX_EVENT_BYTES ? bodyOf(short) : whole };
}

/** The JSON readers of many receivers can't read half a surrogate pair or NUL, which texts of the upstream may hold. */
function readable(_: string, value: unknown): unknown {
  return typeof value === 'string' ? value.toWellFormed().replaceAll('\0', '\uFFFD') : value;
}
