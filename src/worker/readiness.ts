/** Whether the worker is ready, by a bounded call every five seconds, and the server of `/healthz` and `/readyz`. */
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Client } from '@temporalio/client';
import type { Worker } from '@temporalio/worker';
import { cannotListen, type ListenAddress } from '../config.js';
import { messageOf } from '../config/config-error.js';
import { arePollsCut, POLLS_ARE_CUT, readHeartbeats } from '../temporal/heartbeats.js';
import { quoted } from '../temporal/visibility.js';
import { every } from './every.js';

/** Whether this process serves, and why not. */
export interface ReadyState {
  ready: boolean;
  reason?: string;
  /** Projects with writes that wait for a key; absent if there is none. */
  refusedKeys?: string[];
}

// Together below the 10 seconds within which a lost server must show.
const PROBE_EVERY_MS = 5_000;
const PROBE_LIMIT_MS = 4_000;
const CUTS_EVERY_MS = 60_000;
const MAX_NAMED = 100;

interface ProbeOptions {
  /** Makes one call to the server and ends, one way or the other, by the given time. */
  reach: (deadline: number) => Promise<unknown>;
  workers: readonly Pick<Worker, 'getStatus'>[];
  /** What the namespace lacks without which no job makes progress, asked by the given time. */
  lacking: (deadline: number) => Promise<string | undefined>;
  onProbe: (isReady: boolean) => void;
  /** Shown beside the state, which does not depend on them: a restart mends no key. */
  refusedKeys: () => string[];
}

/**
 * Ready while a bounded call reaches Temporal, all workers poll, and jobs can make progress. The workers' own state is
 * not enough: it stays RUNNING long after the server is gone.
 */
export class Readiness {
  #reason: string | undefined = 'waits for Temporal';
  #stopProbes = (): void => {};
  #options: Pick<ProbeOptions, 'onProbe' | 'refusedKeys'> = { onProbe: () => {}, refusedKeys: () => [] };

  state(): ReadyState {
    const refusedKeys = this.#options.refusedKeys();
    return {
      ready: this.#reason === undefined,
      ...(this.#reason !== undefined && { reason: this.#reason }),
      ...(refusedKeys.length > 0 && { refusedKeys: refusedKeys.slice(0, MAX_NAMED) }),
    };
  }

  watch(options: ProbeOptions): void {
    this.#options = options;
    const { reach, workers, lacking, onProbe } = options;
    this.#stopProbes = every(PROBE_EVERY_MS, async (stopped) => {
      const reason = (await unreachable(reach)) ?? notPolling(workers) ?? (await lacking(Date.now() + PROBE_LIMIT_MS));
      if (stopped.aborted) return;
      this.#reason = reason;
      onProbe(reason === undefined);
    });
  }

  /** Never ready again, for example because the process shuts down. */
  stop(reason: string): void {
    this.#stopProbes();
    this.#options.onProbe(false);
    this.#reason = reason;
  }
}

/** Looks once a minute whether the long calls of this process are cut, and says so beside the state. */
export function watchCutCalls(body: { cutCalls?: string | undefined }, client: Client, identity: string): void {
  every(CUTS_EVERY_MS, async () => {
    const isCut = (await readHeartbeats(client, `WorkerIdentity = ${quoted(identity)}`)).some(arePollsCut);
    body.cutCalls = isCut ? POLLS_ARE_CUT : undefined;
  });
}

async function unreachable(reach: (deadline: number) => Promise<unknown>): Promise<string | undefined> {
  try {
    await reach(Date.now() + PROBE_LIMIT_MS);
    return undefined;
  } catch (error) {
    return `Temporal does not answer: ${messageOf(error)}`;
  }
}

function notPolling(workers: readonly Pick<Worker, 'getStatus'>[]): string | undefined {
  for (const { runState, workflowPollerState, activityPollerState } of workers.map((worker) => worker.getStatus())) {
    if (runState !== 'RUNNING') return `a worker is ${runState}`;
    if (workflowPollerState === 'FAILED' || activityPollerState === 'FAILED') return 'a poller has failed';
  }
  return undefined;
}

/** Serves `/healthz` (200) and `/readyz` (200, or 503 with a reason); throws if it can't listen. */
export async function startHealthServer(address: ListenAddress, readyState: () => ReadyState): Promise<void> {
  const server = createServer((request, response) => respond(request, response, readyState));
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(cannotListen('HEALTH_ADDRESS', error)));
    server.listen(address.port, address.host, resolve);
  });
}

function respond(request: IncomingMessage, response: ServerResponse, readyState: () => ReadyState): void {
  request.resume();
  if (request.method !== 'GET' && request.method !== 'HEAD') return send(response, 405, { error: 'only GET and HEAD' });
  const path = request.url?.split('?', 1)[0];
  if (path === '/healthz') return send(response, 200, { alive: true });
  if (path !== '/readyz') return send(response, 404, { error: 'not found' });
  const state = readyState();
  send(response, state.ready ? 200 : 503, state);
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(`${JSON.stringify(body)}\n`);
}
