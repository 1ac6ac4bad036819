import type { NativeConnection } from '@temporalio/worker';
import { attributeType, SEARCH_ATTRIBUTE } from '../contract.js';
import { LATER_SEARCH_ATTRIBUTES } from '../contract/agent-job.js';
import { hasGrpcStatus } from '../temporal/grpc-status.js';
import type { Logger } from './logging.js';

const CALL_LIMIT_MS = 10_000;
/** `agent-jobs setup` may run while the worker does. */
const LOOK_INTERVAL_MS = 60_000;

const FIRST_ATTRIBUTES = Object.values(SEARCH_ATTRIBUTE).filter((name) => !LATER_SEARCH_ATTRIBUTES.includes(name));
const NO_JOB_RUNS =
  'Search attributes are not registered, and no job makes progress without them: run "agent-jobs setup"';
const NOT_SHOWN = 'Search attributes of this release are not registered, and no job sets them: run "agent-jobs setup"';
const WRONG_TYPE =
  'Search attributes are registered by another type than jobs set, and jobs are not found by them: ' +
  '"agent-jobs setup" says what to do';

/** Which search attributes the namespace has; the worker looks until it has them all. */
export class KnownAttributes {
  readonly #connection: NativeConnection;
  readonly #namespace: string;
  readonly #log: Logger;
  #later: readonly string[] = [];

  constructor(connection: NativeConnection, namespace: string, log: Logger) {
    this.#connection = connection;
    this.#namespace = namespace;
    this.#log = log;
  }

  /** The later ones that it was seen to have: jobs set no other. */
  get later(): readonly string[] {
    return this.#later;
  }

  /** Looks now, warns where `agent-jobs setup` has not been run, and looks on; returns what stops that. */
  async watch(): Promise<() => void> {
    await this.#warn();
    const timer = setInterval(() => {
      if (this.#later.length === LATER_SEARCH_ATTRIBUTES.length) clearInterval(timer);
      else void this.#lookForLater().catch(() => {});
    }, LOOK_INTERVAL_MS).unref();
    return () => clearInterval(timer);
  }

  async #warn(): Promise<void> {
    const namespace = this.#namespace;
    try {
      const missing = await this.#missingOf(FIRST_ATTRIBUTES, (name) => `${name} = 'x'`);
      if (missing.length > 0) this.#log.warn({ namespace, missing }, NO_JOB_RUNS);
      const wrong = await this.#wronglyTyped();
      if (wrong.length > 0) this.#log.warn({ namespace, wrong }, WRONG_TYPE);
      const notShown = (await this.#lookForLater()).filter((name) => !wrong.includes(name));
      if (notShown.length > 0) this.#log.warn({ namespace, missing: notShown }, NOT_SHOWN);
    } catch (error) {
      this.#log.warn({ namespace, error }, 'Could not check whether the search attributes are registered');
    }
  }

  /** Answers with those that are missing, or of another type than jobs set. An older server tells none of them. */
  async #lookForLater(): Promise<string[]> {
    const isTold = await this.#takes(keywordQuery('WorkflowType'));
    const missing = isTold ? await this.#wrongOf(LATER_SEARCH_ATTRIBUTES) : [...LATER_SEARCH_ATTRIBUTES];
    this.#later = LATER_SEARCH_ATTRIBUTES.filter((name) => !missing.includes(name));
    return missing;
  }

  /** Those that are registered, but take no query of a Keyword. An older server takes none of any attribute. */
  async #wronglyTyped(): Promise<string[]> {
    if (!(await this.#takes(keywordQuery('WorkflowType')))) return [];
    const names = Object.values(SEARCH_ATTRIBUTE);
    const missing = await this.#missingOf(names, (name) => `${name} IS NULL`);
    return (await this.#wrongOf(names)).filter((name) => !missing.includes(name));
  }

  /** Those that do not take what their type takes, or take what it does not. */
  async #wrongOf(names: readonly string[]): Promise<string[]> {
    const lists = names.filter((name) => attributeType(name) === 'KeywordList');
    const noWord = await this.#missingOf(names, keywordQuery);
    const noList = await this.#missingOf(lists, (name) => `${name} IN ('x')`);
    return names.filter((name) =>
      lists.includes(name) ? !noWord.includes(name) || noList.includes(name) : noWord.includes(name),
    );
  }

  /** A query needs no more than a worker's own permissions, Temporal Cloud included. */
  async #missingOf(names: readonly string[], query: (name: string) => string): Promise<string[]> {
    const known = await Promise.all(names.map((name) => this.#takes(query(name))));
    return names.filter((_, index) => !known[index]);
  }

  async #takes(query: string): Promise<boolean> {
    try {
      await countWorkflows(this.#connection, this.#namespace, query);
      return true;
    } catch (error) {
      if (isUnknownAttribute(error)) return false;
      throw error;
    }
  }
}

/** A query that of all types only Keyword takes. A KeywordList takes `IN`, and so does a Keyword; Text does not. */
function keywordQuery(name: string): string {
  return `${name} STARTS_WITH 'x'`;
}

/** True where a query names a search attribute that the namespace does not know. */
export function isUnknownAttribute(error: unknown): boolean {
  return hasGrpcStatus(error, 'invalidArgument');
}

/** How many workflows a query finds. */
export async function countWorkflows(connection: NativeConnection, namespace: string, query: string): Promise<number> {
  const { count } = await connection.withDeadline(Date.now() + CALL_LIMIT_MS, () =>
    connection.workflowService.countWorkflowExecutions({ namespace, query }),
  );
  return Number(count);
}
