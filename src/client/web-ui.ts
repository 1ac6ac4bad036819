/**
 * Links into Temporal's web UI: the page of a job, and lists by a visibility query. Decides where the web UI is, which
 * of its pages shows a job's summary, and what the lists of the dashboard ask for. Sends no request.
 */
import type { ConnectionOptions } from '@temporalio/client';
import {
  AGENT_JOB_WORKFLOW,
  encodeId,
  SEARCH_ATTRIBUTE,
  SHOWN_WAITING_FOR,
  VISITOR_EXPORT_WORKFLOW,
} from '../contract.js';
import { EXPORT_IN_DOUBT } from '../contract/shared.js';
import { WORDS } from '../contract/words.js';
import { IS_OPEN, quoted } from '../temporal/visibility.js';

/** The web UI's page of a namespace. */
export interface WebUi {
  /** Without a slash at its end. */
  url: string;
  namespace: string;
}

/** A list of the dashboard. */
export interface WebUiView {
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

/** `host:port` of Temporal, also if a proxy leads to it; empty if the connection has none. */
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

const { phase: PHASE, waitingFor: WAITING_FOR, outcome: OUTCOME } = SEARCH_ATTRIBUTE;
const JOBS = `WorkflowType = '${AGENT_JOB_WORKFLOW}'`;
const EXPORTS = `WorkflowType = '${VISITOR_EXPORT_WORKFLOW}'`;
const OPEN_JOBS = `${JOBS} AND ${IS_OPEN}`;
const listed = (words: readonly string[]) => words.map(quoted).join(', ');
const WAITS = listed(SHOWN_WAITING_FOR.filter((word) => word !== 'person'));
const FAILED = `ExecutionStatus IN ('Failed', 'Terminated', 'TimedOut')`;
/** A cancellation is none: a person asked for it. */
const BAD = WORDS.ends.filter(({ status, exit: [, code] }) => status === 'COMPLETED' && code !== 0);
const BAD_END = `${OUTCOME} IN (${listed(BAD.map(({ word }) => word))})`;

/** The lists of the dashboard, each by its title. The day of `now` begins at midnight UTC. */
export function webUiViews(ui: WebUi, now = new Date()): WebUiView[] {
  const midnight = `${now.toISOString().slice(0, 10)}T00:00:00.000Z`;
  const queries = {
    'jobs that need a person': `${OPEN_JOBS} AND ${PHASE} = 'needsAttention'`,
    'jobs that wait for their turn, a limit, the upstream or its key': `${OPEN_JOBS} AND ${WAITING_FOR} IN (${WAITS})`,
    'jobs that ended badly today (UTC)': `${JOBS} AND CloseTime >= '${midnight}' AND (${FAILED} OR ${BAD_END})`,
    'exports that failed or are in doubt': `${EXPORTS} AND (${FAILED} OR ${OUTCOME} = '${EXPORT_IN_DOUBT}')`,
  };
  return Object.entries(queries).map(([title, query]) => ({ title, query, url: listUrl(ui, query) }));
}

function workflowsUrl({ url, namespace }: WebUi): string {
  return `${url}/namespaces/${encodeURIComponent(namespace)}/workflows`;
}
