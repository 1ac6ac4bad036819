/** The surroundings of a measurement: a folder, an upstream and a Temporal server of its own. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { freePort, startProcess, type ManagedProcess } from '../src/local/child-process.js';
import { startDevServer } from '../src/local/dev-server.js';
import { findDevServer } from '../src/local/find-dev-server.js';
import { ensureSearchAttributes } from '../src/temporal/search-attributes.js';
import { SANDBOX_API_KEY, SandboxControl, type SandboxCounts } from '../src/testing.js';
import type { Bench, Contender } from './contenders.js';
import { drain, runJobs } from './jobs.js';
import type { Options } from './options.js';

const STOP_GRACE_MS = 30_000;
/** Warms up compilers and connections. */
const WARM_UP_JOBS = 10;

/** Runs a function with a fresh folder, upstream and server, and removes them. */
export async function withBench(
  { budget }: Pick<Options, 'budget'>,
  run: (bench: Bench) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'agent-jobs-bench-'));
  const upstream = await startUpstream(folder);
  try {
    const temporal = await startTemporal(folder);
    try {
      await run({ folder, temporal, upstream, budget });
    } finally {
      await temporal.stop();
    }
  } finally {
    await upstream.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs a function while a warm worker of the contender runs. */
export async function withWorker(
  bench: Bench,
  contender: Contender,
  run: (worker: ManagedProcess) => Promise<void>,
): Promise<void> {
  const worker = await contender.startWorker(bench);
  try {
    await runJobs(bench, contender, worker, drain({ n: WARM_UP_JOBS }));
    await run(worker);
  } finally {
    await worker.stop(STOP_GRACE_MS);
  }
}

// The Temporal server.

export interface BenchTemporal {
  address: string;
  namespace: string;
  client: Client;
  pids: number[];
  /** Billable actions of the namespace so far, as the server itself counts them. */
  actions(): Promise<number>;
  stop(): Promise<void>;
}

/**
 * The dev server alone reads the names of the search attributes from its database at each use, so that a test need not
 * wait for those that it has just added. No other server does so by default; these are there from the start.
 */
const AS_A_RELEASE_SERVER = { 'system.forceSearchAttributesCacheRefreshOnRead': 'false' };

/** Starts the dev server on a database file in the folder. */
async function startTemporal(folder: string): Promise<BenchTemporal> {
  const metricsPort = await freePort();
  const server = await startDevServer({
    program: await findDevServer({ env: process.env }),
    logFile: join(folder, 'temporal.log'),
    databaseFile: join(folder, 'temporal.db'),
    metricsPort,
    dynamicConfig: AS_A_RELEASE_SERVER,
  });
  const { address, namespace, pid } = server;
  const connection = await Connection.connect({ address });
  await ensureSearchAttributes(connection, namespace);
  return {
    address,
    namespace,
    client: new Client({ connection, namespace }),
    pids: [pid],
    actions: () => readActions(`http://127.0.0.1:${metricsPort}/metrics`, namespace),
    async stop() {
      await connection.close();
      await server.stop();
    },
  };
}

/** The sum of the server's `action` counter over one namespace; it lags by up to a second or two. */
async function readActions(metricsUrl: string, namespace: string): Promise<number> {
  const text = await (await fetch(metricsUrl, { headers: { connection: 'close' } })).text();
  return text
    .split('\n')
    .filter((line) => /^action(_total)?\{/.test(line) && line.includes(`namespace="${namespace}"`))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

// The upstream: the sandbox in a process of its own, so its CPU is not counted.

const PROGRAM = fileURLToPath(new URL('../dist/sandbox/main.js', import.meta.url));

type Requests = Record<'create' | 'get' | 'message' | 'visitors', number>;

export interface BenchUpstream {
  url: string;
  key: string;
  control: SandboxControl;
  /** Requests of all operations since they were last counted anew. */
  requests(): Promise<Requests>;
  countAnew(): Promise<void>;
  /** When each job of the upstream was created, in milliseconds, by job id. */
  createdAt(): Promise<Map<string, number>>;
  stop(): Promise<void>;
}

async function startUpstream(folder: string): Promise<BenchUpstream> {
  const port = await freePort();
  const child = await startProcess({
    program: process.execPath,
    args: [PROGRAM, '--port', String(port), '--quiet'],
    env: {},
    logFile: join(folder, 'upstream.log'),
  });
  const url = `http://127.0.0.1:${port}`;
  const control = new SandboxControl(url);
  await untilAnswers(() => control.counts());
  let before: Requests | undefined;
  return {
    url,
    key: SANDBOX_API_KEY,
    control,
    requests: async () => requestsOf(await control.counts(), before),
    countAnew: async () => void (before = requestsOf(await control.counts())),
    createdAt: async () => new Map((await control.creates()).map(({ id, at }) => [id, Date.parse(at)])),
    stop: () => child.stop(1_000),
  };
}

function requestsOf({ operations }: SandboxCounts, before?: Requests): Requests {
  const of = (operation: keyof Requests) => operations[operation].requests - (before?.[operation] ?? 0);
  return { create: of('create'), get: of('get'), message: of('message'), visitors: of('visitors') };
}

/** Resolves once a server answers. */
export async function untilAnswers(ask: () => Promise<unknown>): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      return void (await ask());
    } catch (error) {
      if (tries === 300) throw error;
      await pause(200);
    }
  }
}
