/** Counts the running jobs of the namespace for the metrics, with a fixed number of bounded calls a minute. */
import { Client } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import {
  AGENT_JOB_WORKFLOW,
  jobStateQuery,
  REQUEST_QUEUE_WORKFLOW,
  SEARCH_ATTRIBUTE,
  SHOWN_WAITING_FOR,
  type Phase,
} from '../contract.js';
import type { Metrics } from '../activities/metrics.js';
import { every } from './every.js';
import type { Logger } from './logging.js';
import { countWorkflows } from './visibility.js';
import { openPayloadKeys } from '../config.js';
import { payloadCodecs } from '../temporal/payload-codec.js';
import { queryAgain } from '../temporal/workflow-clients.js';

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
