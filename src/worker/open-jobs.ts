/** Counts the running jobs of the namespace for the metrics, with a fixed number of bounded calls a minute. */
import type { Client } from '@temporalio/client';
import {
  AGENT_JOB_WORKFLOW,
  jobStateQuery,
  type Phase,
  REQUEST_QUEUE_WORKFLOW,
  SEARCH_ATTRIBUTE,
  SHOWN_WAITING_FOR,
} from '../contract.js';
import { hasGrpcStatus } from '../temporal/grpc.js';
import { IS_OPEN, pauseOf } from '../temporal/open-workflows.js';
import { queryAgain } from '../temporal/workflow-clients.js';
import { every } from './every.js';
import { atMostEvery, type Logger } from './logging.js';
import type { Figures } from './metrics.js';

const PHASES: Phase[] = ['creating', 'watching', 'sending', 'needsAttention', 'lingering'];
const COUNT_INTERVAL_MS = 60_000;
const QUERY_LIMIT_MS = 5_000;
/** Jobs in doubt that are queried for their age; where there are more, the true age may be higher. */
const MAX_QUERIED_JOBS = 50;
const MAX_CONCURRENT_QUERIES = 10;
/** Halvings between two powers of two: the age is exact to a sixteenth. */
const HALVINGS = 4;
const MAX_AGE_S = 2 ** 28;

const runningOf = (workflowType: string) => `WorkflowType = '${workflowType}' AND ${IS_OPEN}`;
const RUNNING = runningOf(AGENT_JOB_WORKFLOW);

/** Counts once a minute; returns what stops it. */
export function watchOpenJobs(client: Client, figures: Figures, log: Logger): () => void {
  const onError = (error: unknown) => log.warn({ error }, 'Could not count the running jobs, for the figures');
  const doubts: Doubts = new Map();
  return every(COUNT_INTERVAL_MS, () => countOpenJobs(client, figures, doubts), { onError });
}

/** Since when jobs are in doubt, by workflow id, as they last told. */
type Doubts = Map<string, string>;

async function countOpenJobs(client: Client, figures: Figures, doubts: Doubts): Promise<void> {
  const byPhase = new Map<string, number>();
  for (const phase of PHASES) {
    const jobs = await countWorkflows(client, phaseIs(phase));
    byPhase.set(phase, jobs);
    figures.openJobs.set(jobs, { phase });
  }
  figures.needAttention.set(byPhase.get('needsAttention') ?? 0);
  for (const reason of SHOWN_WAITING_FOR) {
    const waiting = await countWorkflows(client, `${RUNNING} AND ${SEARCH_ATTRIBUTE.waitingFor} = '${reason}'`);
    figures.waitingJobs.set(waiting, { for: reason });
  }
  figures.requestQueues.set(await countWorkflows(client, runningOf(REQUEST_QUEUE_WORKFLOW)));
  figures.oldestCreate.set(byPhase.get('creating') ? await oldestCreate(client) : 0);
  figures.oldestInDoubt.set(byPhase.get('needsAttention') ? await oldestInDoubt(client, doubts) : 0);
  figures.lastCount.set(Date.now() / 1_000);
}

/** Seconds, found by counting those that are older: a list comes newest first, however long it is. */
async function oldestCreate(client: Client): Promise<number> {
  const now = Date.now();
  const isAnyOlder = async (seconds: number) => {
    const before = new Date(now - seconds * 1_000).toISOString();
    return (await countWorkflows(client, `${phaseIs('creating')} AND StartTime <= '${before}'`)) > 0;
  };
  let above = 1;
  while (above < MAX_AGE_S && (await isAnyOlder(above))) above *= 2;
  let age = above / 2;
  for (let step = above / 4, halving = 0; halving < HALVINGS; step /= 2, halving++) {
    if (await isAnyOlder(age + step)) age += step;
  }
  return age;
}

async function oldestInDoubt(client: Client, doubts: Doubts): Promise<number> {
  const ids: string[] = [];
  for await (const { workflowId } of client.workflow.list({ query: phaseIs('needsAttention') })) {
    ids.push(workflowId);
    if (ids.length === MAX_QUERIED_JOBS) break;
  }
  for (const id of doubts.keys()) if (!ids.includes(id)) doubts.delete(id);
  let oldest = 0;
  for (let i = 0; i < ids.length; i += MAX_CONCURRENT_QUERIES) {
    const asked = ids.slice(i, i + MAX_CONCURRENT_QUERIES).map((id) => ageInDoubt(client, id, doubts));
    const ages = await Promise.all(asked);
    oldest = Math.max(oldest, ...ages);
  }
  return oldest;
}

/** A job that does not answer, as while it is paused, must not stop the count, nor seem settled. */
async function ageInDoubt(client: Client, workflowId: string, doubts: Doubts): Promise<number> {
  const job = client.workflow.getHandle(workflowId);
  const ask = <T>(call: () => Promise<T>) => client.withDeadline(Date.now() + QUERY_LIMIT_MS, call).catch(() => null);
  const state = await ask(() => queryAgain(() => job.query(jobStateQuery)));
  // One that was paused before it was asked was in doubt by then.
  const run = state || doubts.has(workflowId) ? null : await ask(() => job.describe());
  const since = state ? state.unknown?.since : (doubts.get(workflowId) ?? (run && pauseOf(run)?.since));
  if (!since) return 0;
  doubts.set(workflowId, since);
  return Math.max(0, Date.now() - Date.parse(since)) / 1_000;
}

function phaseIs(phase: Phase): string {
  return `${RUNNING} AND ${SEARCH_ATTRIBUTE.phase} = '${phase}'`;
}

// What a worker sees of the search attributes that jobs set, and how many workflows a query finds.

const CALL_LIMIT_MS = 10_000;
const WARN_EVERY_MS = 3_600_000;
const MISSING = 'Search attributes are not registered, and no job makes progress without them: run "agent-jobs setup"';

/**
 * Makes the look for search attributes that the namespace lacks: it tells them, and warns of them. It looks no more
 * once all are there. It needs no more than a worker's own permissions.
 */
export function searchAttributesCheck(client: Client, log: Logger): (deadline: number) => Promise<string | undefined> {
  const { namespace } = client.options;
  const names = Object.values(SEARCH_ATTRIBUTE);
  let isOver = false;
  const warn = atMostEvery(WARN_EVERY_MS, (fields: object, text: string) => log.warn({ namespace, ...fields }, text));
  return async (deadline) => {
    if (isOver) return undefined;
    try {
      const isThere = await Promise.all(names.map((name) => isRegistered(client, name, deadline)));
      const missing = names.filter((_, index) => !isThere[index]);
      isOver = missing.length === 0;
      if (isOver) return undefined;
      warn({ missing }, MISSING);
      return `search attributes are not registered: ${missing.join(', ')}`;
    } catch (error) {
      isOver = hasGrpcStatus(error, 'permissionDenied');
      warn({ error }, 'Could not check whether the search attributes are registered');
      return undefined;
    }
  };
}

async function isRegistered(client: Client, name: string, deadline: number): Promise<boolean> {
  try {
    await countWorkflows(client, `${name} IS NULL`, deadline);
    return true;
  } catch (error) {
    // It names a search attribute that the namespace does not know.
    if (hasGrpcStatus(error, 'invalidArgument')) return false;
    throw error;
  }
}

/** How many workflows a query finds. */
async function countWorkflows(
  { connection, options }: Client,
  query: string,
  deadline = Date.now() + CALL_LIMIT_MS,
): Promise<number> {
  const { namespace } = options;
  const { count } = await connection.withDeadline(deadline, () =>
    connection.workflowService.countWorkflowExecutions({ namespace, query }),
  );
  return Number(count);
}
