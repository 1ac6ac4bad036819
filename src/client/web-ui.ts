/**
 * Links into Temporal's web UI: the page of a job, and lists by a visibility query. Decides where the web UI is, which
 * of its pages shows a job's summary, and what the lists of the dashboard ask for. Sends no request.
 */
import type { ConnectionOptions } from '@temporalio/client';
import {
  AGENT_JOB_WORKFLOW,
  encodeId,
  SEARCH_ATTRIBUTE,
  VISITOR_EXPORT_WORKFLOW,
  type Outcome,
  type Phase,
} from '../contract.js';
import { EXPORT_IN_DOUBT } from '../contract/shared.js';
import { IS_OPEN } from '../temporal/open-workflows.js';
import { quoted } from './visibility-query.js';

/** Where the web UI shows a namespace. */
export interface WebUi {
  /** Without a slash at its end. */
  url: string;
  namespace: string;
}

/** A list of the dashboard. */
export interface WebUiView {
  /** Stable, for programs: `attention`, `waiting`, `ended-badly` or `exports`. */
  name: string;
  /** What the list shows, in words. */
  title: string;
  /** In the query language of Temporal's visibility. */
  query: string;
  url: string;
}

const CLOUD_URL = 'https://cloud.temporal.io';
const CLOUD_ADDRESS = /\.(tmprl\.cloud|temporal\.io):\d+$/;

/** A stand-in for a client may have neither. */
type PartOfClient = { connection?: object; options?: { namespace?: string } };

/** The web UI of the server that a client talks to: the given address, else that of Temporal Cloud; else null. */
export function webUiOf(client: PartOfClient, url?: string): WebUi | null {
  const namespace = client.options?.namespace;
  const known = url ?? (CLOUD_ADDRESS.test(addressOf(client)) ? CLOUD_URL : null);
  return known === null || namespace === undefined ? null : { url: known.replace(/\/+$/, ''), namespace };
}

/** `host:port` of Temporal, also where a proxy leads to it; empty where the connection tells none. */
export function addressOf({ connection }: Pick<PartOfClient, 'connection'>): string {
  const { options } = (connection ?? {}) as { options?: Partial<ConnectionOptions> };
  const behindProxy = options?.channelArgs?.['grpc.http_connect_target'];
  return behindProxy?.replace(/^dns:/, '') ?? (typeof options?.address === 'string' ? options.address : '');
}

/**
 * The page of a run that shows its title, prompt and state: a later run has its own. Without a run id the web UI leads
 * to the timeline of the newest one, so such a link never goes stale.
 */
export function jobUrl(ui: WebUi, { workflowId, runId }: { workflowId: string; runId?: string | undefined }): string {
  const page = `${workflowsUrl(ui)}/${encodeURIComponent(workflowId)}`;
  return runId === undefined ? page : `${page}/${encodeURIComponent(runId)}/user-metadata`;
}

/** The list of all workflows, or of those that a query finds. */
export function listUrl(ui: WebUi, query?: string): string {
  return query === undefined ? workflowsUrl(ui) : `${workflowsUrl(ui)}?query=${encodeId(query)}`;
}

/** The lists of the dashboard. The day of `now` begins at midnight UTC. */
export function webUiViews(ui: WebUi, now = new Date()): WebUiView[] {
  const today = quoted(`${now.toISOString().slice(0, 10)}T00:00:00.000Z`);
  const views = [
    { name: 'attention', title: 'jobs that need a person', query: needsAttention() },
    { name: 'waiting', title: 'jobs that wait for their turn, a limit, the upstream or its key', query: waiting() },
    { name: 'ended-badly', title: 'jobs that ended badly today (UTC)', query: endedBadlySince(today) },
    { name: 'exports', title: 'exports that failed or are in doubt', query: doubtfulExports() },
  ];
  return views.map((view) => ({ ...view, url: listUrl(ui, view.query) }));
}

function needsAttention(): string {
  const phase: Phase = 'needsAttention';
  return `${running()} AND ${SEARCH_ATTRIBUTE.phase} = ${quoted(phase)}`;
}

function waiting(): string {
  const reasons = ['turn', 'rateLimit', 'upstream', 'key'].map(quoted);
  return `${running()} AND ${SEARCH_ATTRIBUTE.waitingFor} IN (${reasons.join(', ')})`;
}

/** A cancellation is no bad end: somebody asked for it. */
function endedBadlySince(time: string): string {
  const { outcome } = SEARCH_ATTRIBUTE;
  const bad: Outcome[] = ['failed', 'timedOut', 'lost', 'abandoned'];
  const jobs = `WorkflowType = ${quoted(AGENT_JOB_WORKFLOW)} AND CloseTime >= ${time}`;
  return `${jobs} AND (${FAILED} OR ${outcome} IN (${bad.map(quoted).join(', ')}))`;
}

function doubtfulExports(): string {
  const inDoubt = `${SEARCH_ATTRIBUTE.outcome} = ${quoted(EXPORT_IN_DOUBT)}`;
  return `WorkflowType = ${quoted(VISITOR_EXPORT_WORKFLOW)} AND (${FAILED} OR ${inDoubt})`;
}

const FAILED = `ExecutionStatus IN ('Failed', 'Terminated', 'TimedOut')`;

function running(): string {
  return `WorkflowType = ${quoted(AGENT_JOB_WORKFLOW)} AND ${IS_OPEN}`;
}

function workflowsUrl({ url, namespace }: WebUi): string {
  return `${url}/namespaces/${encodeURIComponent(namespace)}/workflows`;
}
