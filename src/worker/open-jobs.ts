/** Counts the running jobs of the namespace for the metrics, with a fixed number of bounded calls a minute. */
import { Client } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import type { Metrics } from '../activities/metrics.js';
import { openPayloadKeys } from '../config.js';
import {
  AGENT_JOB_WORKFLOW,
  attributeType,
  jobStateQuery,
  type Phase,
  REQUEST_QUEUE_WORKFLOW,
  SEARCH_ATTRIBUTE,
  SHOWN_WAITING_FOR,
} from '../contract.js';
import { hasGrpcStatus } from '../temporal/grpc.js';
import { payloadCodecs } from '../temporal/payload-codec.js';
import { queryAgain } from '../temporal/workflow-clients.js';
import { every } from './every.js';
import type { Logger } from './logging.js';

const PHASES: Phase[] = ['creating', 'watching', 'sending', 'needsAttention', 'lingering'];
const COUNT_INTERVAL_MS = 60_000;
const QUERY_LIMIT_MS = 5_000;
/** Jobs in doubt that are queried for their age; where there are more, the true age may be higher. */
const MAX_QUERIED_JOBS = 50;
const MAX_CONCURRENT_QUERIES = 10;
/** Halvings between two powers of two: the age is exact to a sixteenth. */
const HALVINGS = 4;
const MAX_AGE_S = 2 ** 28;

const runningOf = (workflowType: string) => `WorkflowType = '${workflowType}' AND ExecutionStatus = 'Running'`;
const RUNNING = runningOf(AGENT_JOB_WORKFLOW);

/** Counts once a minute; returns what stops it. */
export function watchOpenJobs(
  connection: NativeConnection,
  namespace: string,
  metrics: Metrics,
  log: Logger,
  payloadKeysFile?: string,
): () => void {
  const client = new Client({ connection, namespace, dataConverter: payloadCodecs(openPayloadKeys(payloadKeysFile)) });
  const jobs = new OpenJobs(connection, client, metrics);
  const onError = (error: unknown) => log.warn({ error }, 'Could not count the running jobs, for the figures');
  return every(COUNT_INTERVAL_MS, () => jobs.count(), { onError });
}

class OpenJobs {
  readonly #connection: NativeConnection;
  readonly #namespace: string;
  readonly #metrics: Metrics;
  readonly #client: Client;

  constructor(connection: NativeConnection, client: Client, metrics: Metrics) {
    this.#connection = connection;
    this.#namespace = client.options.namespace;
    this.#metrics = metrics;
    this.#client = client;
  }

  async count(): Promise<void> {
    const byPhase = new Map<string, number>();
    for (const phase of PHASES) {
      const jobs = await this.#countOf(phaseIs(phase));
      byPhase.set(phase, jobs);
      this.#metrics.openJobs(phase, jobs);
    }
    const inDoubt = byPhase.get('needsAttention') ?? 0;
    this.#metrics.needAttention(inDoubt);
    for (const reason of SHOWN_WAITING_FOR) {
      this.#metrics.waitingJobs(reason, await this.#countOf(`${SEARCH_ATTRIBUTE.waitingFor} = '${reason}'`));
    }
    this.#metrics.requestQueues(await this.#countAll(runningOf(REQUEST_QUEUE_WORKFLOW)));
    this.#metrics.oldest('create', byPhase.get('creating') ? await this.#oldestCreate() : 0);
    this.#metrics.oldest('inDoubt', byPhase.get('needsAttention') ? await this.#oldestInDoubt() : 0);
    this.#metrics.counted();
  }

  /** Seconds, found by counting those that are older: a list comes newest first, however long it is. */
  async #oldestCreate(): Promise<number> {
    const now = Date.now();
    const isAnyOlder = async (seconds: number) =>
      (await this.#countOf(
        `${phaseIs('creating')} AND StartTime <= '${new Date(now - seconds * 1_000).toISOString()}'`,
      )) > 0;
    let above = 1;
    while (above < MAX_AGE_S && (await isAnyOlder(above))) above *= 2;
    let age = above / 2;
    for (let step = above / 4, halving = 0; halving < HALVINGS; step /= 2, halving++) {
      if (await isAnyOlder(age + step)) age += step;
    }
    return age;
  }

  async #oldestInDoubt(): Promise<number> {
    const ids: string[] = [];
    for await (const { workflowId } of this.#client.workflow.list({
      query: `${RUNNING} AND ${phaseIs('needsAttention')}`,
    })) {
      ids.push(workflowId);
      if (ids.length === MAX_QUERIED_JOBS) break;
    }
    let oldest = 0;
    for (let i = 0; i < ids.length; i += MAX_CONCURRENT_QUERIES) {
      const ages = await Promise.all(ids.slice(i, i + MAX_CONCURRENT_QUERIES).map((id) => this.#ageInDoubt(id)));
      oldest = Math.max(oldest, ...ages);
    }
    return oldest;
  }

  /** 0 where it can't be read: a worker that is busy must not stop the count. */
  async #ageInDoubt(workflowId: string): Promise<number> {
    const state = await this.#client
      .withDeadline(Date.now() + QUERY_LIMIT_MS, () =>
        queryAgain(() => this.#client.workflow.getHandle(workflowId).query(jobStateQuery)),
      )
      .catch(() => null);
    return state?.unknown ? (Date.now() - Date.parse(state.unknown.since)) / 1_000 : 0;
  }

  #countOf(condition: string): Promise<number> {
    return this.#countAll(`${RUNNING} AND ${condition}`);
  }

  #countAll(query: string): Promise<number> {
    return countWorkflows(this.#connection, this.#namespace, query);
  }
}

function phaseIs(phase: string): string {
  return `${SEARCH_ATTRIBUTE.phase} = '${phase}'`;
}

// What a worker sees of the search attributes that jobs set, and how many workflows a query finds.

const CALL_LIMIT_MS = 10_000;
const NAMES: readonly string[] = Object.values(SEARCH_ATTRIBUTE);

const MISSING = 'Search attributes are not registered, and no job makes progress without them: run "agent-jobs setup"';
const WRONG_TYPE =
  'Search attributes are registered by another type than jobs set, and no job makes progress with them: ' +
  '"agent-jobs setup" says what to do';

/** Warns where a namespace lacks search attributes, or has them by another type than jobs set. */
export async function checkSearchAttributes(
  connection: NativeConnection,
  namespace: string,
  log: Logger,
): Promise<void> {
  const takes = (query: string) => takesQuery(connection, namespace, query);
  try {
    const missing = await refusedOf(takes, NAMES, (name) => `${name} IS NULL`);
    if (missing.length > 0) log.warn({ namespace, missing }, MISSING);
    const wrong = (await wronglyTyped(takes)).filter((name) => !missing.includes(name));
    if (wrong.length > 0) log.warn({ namespace, wrong }, WRONG_TYPE);
  } catch (error) {
    log.warn({ namespace, error }, 'Could not check whether the search attributes are registered');
  }
}

/** Whether the namespace takes a query. It needs no more than a worker's own permissions, Temporal Cloud included. */
type Takes = (query: string) => Promise<boolean>;

/** Those that do not take what their type takes, or take what it does not. */
async function wronglyTyped(takes: Takes): Promise<string[]> {
  // An older server takes no such query, of whatever attribute.
  if (!(await takes(keywordQuery('WorkflowType')))) return [];
  const lists = NAMES.filter((name) => attributeType(name) === 'KeywordList');
  const noWord = await refusedOf(takes, NAMES, keywordQuery);
  const noList = await refusedOf(takes, lists, (name) => `${name} IN ('x')`);
  return NAMES.filter((name) =>
    lists.includes(name) ? !noWord.includes(name) || noList.includes(name) : noWord.includes(name),
  );
}

async function refusedOf(takes: Takes, names: readonly string[], query: (name: string) => string): Promise<string[]> {
  const taken = await Promise.all(names.map((name) => takes(query(name))));
  return names.filter((_, index) => !taken[index]);
}

async function takesQuery(connection: NativeConnection, namespace: string, query: string): Promise<boolean> {
  try {
    await countWorkflows(connection, namespace, query);
    return true;
  } catch (error) {
    // It names a search attribute that the namespace does not know, or has by another type.
    if (hasGrpcStatus(error, 'invalidArgument')) return false;
    throw error;
  }
}

/** A query that of all types only Keyword takes. A KeywordList takes `IN`, and so does a Keyword; Text does not. */
function keywordQuery(name: string): string {
  return `${name} STARTS_WITH 'x'`;
}

/** How many workflows a query finds. */
async function countWorkflows(connection: NativeConnection, namespace: string, query: string): Promise<number> {
  const { count } = await connection.withDeadline(Date.now() + CALL_LIMIT_MS, () =>
    connection.workflowService.countWorkflowExecutions({ namespace, query }),
  );
  return Number(count);
}
