/** What a worker sees of the search attributes that jobs set, and how many workflows a query finds. */
import type { NativeConnection } from '@temporalio/worker';
import { attributeType, SEARCH_ATTRIBUTE } from '../contract.js';
import { hasGrpcStatus } from '../temporal/grpc.js';
import type { Logger } from './logging.js';

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
export async function countWorkflows(connection: NativeConnection, namespace: string, query: string): Promise<number> {
  const { count } = await connection.withDeadline(Date.now() + CALL_LIMIT_MS, () =>
    connection.workflowService.countWorkflowExecutions({ namespace, query }),
  );
  return Number(count);
}
