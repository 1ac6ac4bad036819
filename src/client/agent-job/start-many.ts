/** Starting many jobs: each request has exactly one outcome (`fate`), and the same requests again start nothing new. */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { checkKey, agentJobStartOptions, type AgentJobStartOptions } from '../../agent-job/start-options.js';
import type { AgentJobInput } from '../../contract.js';
import { whole } from '../../contract/kinds.js';
import { InvalidInputError } from '../../contract/errors.js';
import { startStopwatch } from '../../temporal/elapsed-time.js';
import { concurrently } from '../concurrently.js';
import { checkNames, checkRequest, INPUT_OPTIONS } from '../settings.js';
import type { ClientContext, InputOptions, Names } from '../settings.js';
import { JobNotFoundError, KeyConflictError } from '../errors.js';
import { isOutage, isRequestInvalid } from '../temporal-errors.js';
import { START_TIMEOUT_MS } from '../temporal-call.js';
import { startJob, type StartedRun } from './start-or-join.js';

/** How many jobs are started. */
export interface StartManyOptions extends InputOptions {
  /** Starts under way at the same moment, 1 to 200; default 20. */
  concurrency?: number | null | undefined;
  /** Once it is aborted no further job is begun. Those under way are yielded; then its reason is thrown. */
  signal?: AbortSignal | null | undefined;
}

const START_MANY_OPTIONS: Names<StartManyOptions> = { ...INPUT_OPTIONS, concurrency: true, signal: true };

/** What became of one request. */
export interface StartOutcome {
  /** Its place among the requests, from 0. */
  index: number;
  /** Null if it has none. */
  key: string | null;
  /** Null if the request is invalid. */
  workflowId: string | null;
  /** `joined`: the job was there already. `conflict`: its key names another job. `refused`: the request is invalid. */
  fate: 'started' | 'joined' | 'conflict' | 'refused';
  /** Why it is a conflict, or invalid. */
  error?: Error;
}

/** A request in its place, or what is wrong with it. */
export type StartItem = { index: number } & ({ request: unknown } | { problem: Error });
type StartItems = Iterable<StartItem> | AsyncIterable<StartItem>;

const DEFAULT_CONCURRENCY = 20;
/** More is not faster: all share one connection. */
const MAX_CONCURRENCY = 200;
/** How long one start is tried while Temporal does not answer. */
const OUTAGE_LIMIT_MS = 2 * 60_000;
const BETWEEN_TRIES_MS = 2_000;
/** A try gets this time even if the limit has nearly passed: a busy server takes seconds. */
const MIN_TRY_MS = 5_000;

/**
 * Starts the jobs of many requests and yields the outcome of each, in order. Memory does not grow with their number.
 * Throws if Temporal is away for longer than the limit, or refuses the caller: then the rest has no outcome.
 */
export function startMany(
  context: StartContext,
  items: StartItems,
  { signal, ...options }: StartManyOptions,
): AsyncGenerator<StartOutcome, void, undefined> {
  checkNames(options, 'option', START_MANY_OPTIONS);
  const limit = whole(1, MAX_CONCURRENCY).check(options.concurrency ?? DEFAULT_CONCURRENCY, 'concurrency');
  const inOrder = keepOrder();
  return concurrently(items, { limit, signal }, async (item) => {
    const wanted = readItem(item, context, options);
    if ('fate' in wanted) return wanted;
    const { index } = item;
    const { key, options: startOptions } = wanted;
    const { workflowId } = startOptions;
    try {
      const { isNew } = await inOrder(workflowId, () => {
        signal?.throwIfAborted();
        return startUntilAnswered(context, startOptions, signal);
      });
      return { index, key, workflowId, fate: isNew ? 'started' : 'joined' } as const;
    } catch (error) {
      if (error instanceof KeyConflictError) return { index, key, workflowId, fate: 'conflict', error } as const;
      if (!isRequestInvalid(error)) throw error;
      return { index, key, workflowId: null, fate: 'refused', error: error as Error } as const;
    }
  });
}

/** The start that a request asks for, or what is invalid: each item that a caller hands over has an outcome. */
function readItem(
  item: StartItem,
  { taskQueue, hidePrompts }: StartContext,
  inputOptions: InputOptions,
): { key: string; options: AgentJobStartOptions } | StartOutcome {
  const { index } = item;
  const invalid = (error: Error, key: unknown): StartOutcome => {
    return { index, key: typeof key === 'string' ? key : null, workflowId: null, fate: 'refused', error };
  };
  if ('problem' in item) return invalid(item.problem, null);
  try {
    const { key, ...input } = checkRequest<AgentJobInput & { key: string }>(item.request, inputOptions);
    return { key, options: agentJobStartOptions(input, { taskQueue, hidePrompts, key: checkKey(key) }) };
  } catch (error) {
    return invalid(error as Error, (item.request as { key?: unknown } | null | undefined)?.key);
  }
}

type StartContext = Pick<ClientContext, 'client' | 'taskQueue'> & Partial<ClientContext>;

/** Starts a job, over an outage for a limited time. All tries are one request: a lost answer counts as started. */
async function startUntilAnswered(
  { client, timeoutMs, logger }: StartContext,
  options: AgentJobStartOptions,
  signal: StartManyOptions['signal'],
): Promise<StartedRun> {
  const requestId = randomUUID();
  const elapsedMs = startStopwatch();
  for (;;) {
    const leftMs = Math.max(OUTAGE_LIMIT_MS - elapsedMs(), MIN_TRY_MS);
    try {
      return await startJob(client, options, { requestId, timeoutMs: Math.min(timeoutMs ?? START_TIMEOUT_MS, leftMs) });
    } catch (error) {
      // Temporal deleted the closed run after the start that met it: the key is free.
      const mayWorkLater = isOutage(error) || error instanceof JobNotFoundError;
      if (!mayWorkLater || signal?.aborted || elapsedMs() >= OUTAGE_LIMIT_MS) throw error;
      logger?.warn('a start is tried again', { workflowId: options.workflowId, error });
      await pause(BETWEEN_TRIES_MS);
    }
  }
}

/** Lets those that share a name act one after the other, in the order of their calls. */
function keepOrder(): <T>(name: string, act: () => Promise<T>) => Promise<T> {
  const last = new Map<string, Promise<unknown>>();
  return async (name, act) => {
    const mine = last.get(name)?.then(act, act) ?? act();
    last.set(name, mine);
    try {
      return await mine;
    } finally {
      if (last.get(name) === mine) last.delete(name);
    }
  };
}

/** Requests with their places, from 0. */
export async function* inPlaces(requests: Iterable<unknown> | AsyncIterable<unknown>): AsyncGenerator<StartItem> {
  const isIterable = Symbol.iterator in Object(requests) || Symbol.asyncIterator in Object(requests);
  if (!isIterable) throw new InvalidInputError('requests', 'must be an iterable or async iterable of requests');
  let index = 0;
  for await (const request of requests) yield { index: index++, request };
}
