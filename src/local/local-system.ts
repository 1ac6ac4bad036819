/** What `npm start` runs, in which order it starts and ends, and what it prints of it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { printableLines } from '../agent-job/shown-text.js';
import { connectClient } from '../client/connection.js';
import type { WebUi } from '../client/web-ui.js';
import { type Environment, WORKER_VARIABLES } from '../config.js';
import { isLoopback } from '../config/config-error.js';
import { HttpServer } from '../http/server.js';
import type { JobScript } from '../sandbox/jobs.js';
import { startSandbox } from '../sandbox/sandbox.js';
import { AgentJobs } from '../starter.js';
import { openPayloadCodec } from '../starter/codec.js';
import { freePort, type Stops } from './child-process.js';
import { DataFolder, dataFolder } from './data-folder.js';
import { type DevServer, startDevServer } from './dev-server.js';
import { findDevServer } from './find-dev-server.js';
import { startWorker } from './worker-process.js';

interface LocalSystemOptions {
  env: Environment;
  taskQueue: string;
  /** Against the real upstream of the environment, without a sandbox. */
  isReal: boolean;
  lags: JobScript;
  /** Aborts a start when the user ends it. */
  signal: AbortSignal;
  /** Called when the Temporal server or the worker ended by itself, or was killed. */
  onPartEnd: (part: string, how: string, log: string) => void;
  /** Gets how each part is stopped, in the order of their starts. */
  stops: Stops;
}

/** The sandbox's jobs open a pull request after 4 seconds and end later; a follow-up makes them active again. */
const DEMO_SCRIPT: JobScript = {
  steps: [
    { status: 'active' },
    { status: 'active', prLink: true, afterMs: 4_000 },
    { status: 'completed', prLink: true, afterMs: 8_000, afterReads: 3 },
  ],
  followUp: [
    { status: 'active', prLink: true },
    { status: 'completed', prLink: true, afterMs: 5_000, afterReads: 2 },
  ],
};

const PORTS = { temporal: 7233, webUi: 8233, sandbox: 8234, http: 8080 };
/** The demo is killed, and looked at when it starts again. */
const DEMO_LEASE_MS = 10_000;
/** No request to the sandbox takes longer than the first; a real write in flight gets the time that it needs. */
const STOP_GRACE_MS = { sandbox: 4_000, real: 26_000 };

/** A Temporal dev server, a worker and, unless jobs are real, a sandbox upstream, all of one data folder, running. */
export interface LocalSystem {
  address: string;
  webUi: WebUi;
  jobs: AgentJobs;
  /** The address of the jobs over HTTP, on this machine alone. */
  httpUrl: string;
}

/** It is the only worker: it has all roles, and a version that is not the current one would get no job. */
const ONE_WORKER = { WORKER_ROLES: '', WORKER_DEPLOYMENT: '', WORKER_BUILD_ID: '' };

/** Starts one part after the other and prints each. */
export async function startLocalSystem(options: LocalSystemOptions): Promise<LocalSystem> {
  const { env, isReal, signal, stops, taskQueue } = options;
  const finding = findDevServer({ env, signal, onProgress: printLine });
  // A fetch that is given up removes what it has.
  stops.push(() => finding.catch(() => {}));
  const program = await finding;
  signal.throwIfAborted();
  const folder = await DataFolder.take(dataFolder(env, isReal ? 'real' : 'default'));
  stops.push(() => folder.release());
  printEntry('Data', folder.path);
  const server = await startServer(options, folder, program);
  const { address, namespace, uiUrl = '' } = server;
  folder.publish({ address, serverPid: server.pid, taskQueue, webUiUrl: uiUrl });
  const jobs = await connectJobs(options, server);
  signal.throwIfAborted();
  const upstream = isReal ? env : await startDemoSandbox(options, folder);
  signal.throwIfAborted();
  await startLoggedWorker(options, folder, server, upstream);
  signal.throwIfAborted();
  const httpUrl = await startHttp(options, jobs);
  return { address, webUi: { url: uiUrl, namespace }, jobs, httpUrl };
}

async function startServer(
  { taskQueue, signal, onPartEnd, stops }: LocalSystemOptions,
  folder: DataFolder,
  program: string,
): Promise<DevServer> {
  const logFile = folder.file('temporal.log');
  const preferred = { preferredPort: PORTS.temporal, preferredUiPort: PORTS.webUi };
  const databaseFile = folder.file('temporal.db');
  const starting = startDevServer({ program, databaseFile, logFile, ui: true, signal, ...preferred });
  // A start that is given up ends its server: the next start must not share the database with it.
  stops.push(() => starting.then(({ stop }) => stop()).catch(() => {}));
  const server = await starting;
  void server.ended.then((how) => signal.aborted || onPartEnd("Temporal's dev server", how, logFile));
  printEntry('Temporal', `${server.address}, namespace ${server.namespace}, task queue ${taskQueue}`);
  return server;
}

async function connectJobs(
  { env, taskQueue, stops }: LocalSystemOptions,
  { address, namespace, uiUrl }: DevServer,
): Promise<AgentJobs> {
  // As the worker reads it: the demo job's caller encrypts with the same keys.
  const keysFile = env['PAYLOAD_KEYS_FILE']?.trim();
  const dataConverter = { payloadCodecs: keysFile ? [openPayloadCodec(keysFile)] : [] };
  const { client, close } = await connectClient({ address, namespace, dataConverter });
  stops.push(close);
  return new AgentJobs({ client, taskQueue, webUiUrl: uiUrl });
}

/** They lead to servers of the user's, which `npm start` leaves alone, or divide the work among workers. */
const NEVER_READ = /^(TEMPORAL_(?!CLI_PATH$)|WORKER_(ROLES|DEPLOYMENT|BUILD_ID)$|HTTP_(?!PROXY$)|MCP_)/;
const FOR_REAL_JOBS =
  /^(UPSTREAM_BASE_URL|ADMIN_API_KEY(_FILE)?|PROJECT_KEYS_FILE|SNAPSHOTS_URL|S3_FORCE_PATH_STYLE|\w+_PROXY)$/;

/** Whether a setting of the user's is left out. The sandbox's worker keeps what leads to no other machine. */
export function isIgnored(name: string, env: Environment, isReal: boolean): boolean {
  if (NEVER_READ.test(name)) return true;
  if (isReal) return false;
  return FOR_REAL_JOBS.test(name) || (name === 'WEBHOOKS_FILE' && !staysHere(env[name] ?? ''));
}

/** Whether a file of webhooks names this machine alone. */
function staysHere(file: string): boolean {
  try {
    const endpoints = Object.values(JSON.parse(readFileSync(file, 'utf8')) as Record<string, { url: string }[]>);
    return endpoints.flat().every(({ url }) => isLoopback(new URL(url).hostname));
  } catch {
    return false;
  }
}

/** The receiver of a first try is on this machine. */
export const SANDBOX_WEBHOOKS = { WEBHOOKS_ALLOW_PRIVATE: 'true' };

/** Answers with all settings of the worker. */
async function startDemoSandbox({ env, lags, stops }: LocalSystemOptions, folder: DataFolder): Promise<Environment> {
  const dataFile = folder.file('sandbox.jsonl');
  const script = { ...DEMO_SCRIPT, ...lags };
  const sandbox = await startSandbox({ port: await freePort(PORTS.sandbox), dataFile, script });
  stops.push(() => sandbox.close());
  printEntry('Sandbox', `${sandbox.url}, a stand-in for the upstream: no real job is made`);
  const kept = ['PATH', ...WORKER_VARIABLES].filter((name) => env[name] && !isIgnored(name, env, false));
  const upstream = { UPSTREAM_BASE_URL: sandbox.url, ADMIN_API_KEY: sandbox.apiKey };
  const settings = Object.fromEntries(kept.map((name) => [name, env[name]]));
  return { ...SANDBOX_WEBHOOKS, ...settings, ...upstream };
}

async function startLoggedWorker(
  { isReal, taskQueue, signal, onPartEnd, stops }: LocalSystemOptions,
  folder: DataFolder,
  server: DevServer,
  upstream: Environment,
): Promise<void> {
  const logFile = folder.file('worker.log');
  const SNAPSHOTS_URL = upstream['SNAPSHOTS_URL'] || pathToFileURL(join(folder.path, 'snapshots')).href;
  const stopGraceMs = isReal ? STOP_GRACE_MS.real : STOP_GRACE_MS.sandbox;
  // Its webhooks lead to the web UI of this server.
  const AGENT_JOBS_WEB_UI_URL = server.uiUrl ?? '';
  const env = { ...upstream, SNAPSHOTS_URL, AGENT_JOBS_WEB_UI_URL, ...ONE_WORKER };
  const pollLeaseMs = isReal ? undefined : DEMO_LEASE_MS;
  const worker = await startWorker({ env, server, taskQueue, logFile, pollLeaseMs, stopGraceMs }, stops);
  void worker.ended.then((how) => signal.aborted || onPartEnd('The worker', how, logFile));
  printEntry('Worker', `ready; it logs to ${logFile}`);
}

async function startHttp({ stops }: LocalSystemOptions, jobs: AgentJobs): Promise<string> {
  const onProblem = (problem: string) => printEntry('HTTP', problem);
  const service = { connect: () => Promise.resolve(jobs), keys: null, version: 'local', onProblem };
  const http = await HttpServer.listen(service, { host: '127.0.0.1', port: await freePort(PORTS.http) });
  stops.push(() => http.end());
  printEntry('HTTP', `${http.url}, for this machine alone, without keys`);
  return http.url;
}

const LABEL_WIDTH = 12;

/** Prints a line that begins with a label. */
export function printEntry(label: string, text: string): void {
  printLine(label.padEnd(LABEL_WIDTH) + text);
}

/** Prints whole lines: the same on a terminal as in a file. */
export function printLine(text = ''): void {
  process.stdout.write(`${printableLines(text)}\n`);
}

/** Commands to try next, each one line that runs as it is from the project's folder. */
export function nextSteps({ address, httpUrl }: Pick<LocalSystem, 'address' | 'httpUrl'>, project: string): string[] {
  return [
    `npx agent-jobs start 'Add a page about pricing' --project ${project} --wait --address ${address}`,
    `npx agent-jobs list --address ${address}`,
    `curl --noproxy '*' ${httpUrl}/v1/projects/${project}/jobs -H 'Content-Type: application/json' ` +
      `-H 'Idempotency-Key: faq' -d '{"prompt": "Add a page of questions"}'`,
  ];
}
