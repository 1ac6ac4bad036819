/** What `npm start` runs, in which order it starts and ends, and what happens when a part dies. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { printableLines, shellWord } from '../agent-job/shown-text.js';
import { connectClient } from '../client/connection.js';
import type { WebUi } from '../client/web-ui.js';
import type { Environment } from '../config.js';
import { DEFAULT_TASK_QUEUE } from '../contract.js';
import { HttpServer } from '../http/server.js';
import { startSandbox } from '../sandbox/sandbox.js';
import { AgentJobs } from '../starter.js';
import { openPayloadCodec } from '../starter/codec.js';
import { startOnFreePort, type Stops } from './child-process.js';
import { DATA_FOLDERS, DataFolder } from './data-folder.js';
import { DEMO_SCRIPT } from './demo-job.js';
import { type DevServer, startDevServer } from './dev-server.js';
import { findDevServer } from './find-dev-server.js';
import { stateFolder } from './user-folders.js';
import { localTemporalEnvironment, realUpstreamEnvironment, startWorker } from './worker-process.js';

/** What the local system is composed of. */
interface LocalSystemOptions {
  env: Environment;
  taskQueue: string;
  /** Against the real upstream of the environment, without a sandbox. */
  isReal: boolean;
  /** Aborts a start when the user ends it. */
  signal: AbortSignal;
  /** Called when the Temporal server ended by itself, or was killed. */
  onServerEnd: (how: string, log: string) => void;
  /** Gets how each part is stopped, in the order of their starts. */
  stops: Stops;
}

const PORTS = { temporal: 7233, webUi: 8233, sandbox: 8234, http: 8080 };
/** No request to the sandbox takes longer than the first; a real write in flight gets the time that it needs. */
const STOP_GRACE_MS = { sandbox: 4_000, real: 26_000 };

/** A Temporal dev server, a worker and, unless jobs are real, a sandbox upstream, all of one data folder, running. */
interface LocalSystem {
  address: string;
  taskQueue: string;
  webUi: WebUi;
  jobs: AgentJobs;
  /** The address of the jobs over HTTP, on this machine alone. */
  httpUrl: string;
  /** The folder of the worker's snapshots. */
  snapshotsUrl: string;
  /** The file of an empty Temporal profile, for the worker and for commands. */
  profileFile: string;
}

/** Starts one part after the other and tells of each. */
export async function startLocalSystem(options: LocalSystemOptions): Promise<LocalSystem> {
  const { env, isReal, signal, stops, taskQueue } = options;
  const root = join(stateFolder(env), 'data');
  const program = await findDevServer({ env, signal, onProgress: printLine });
  signal.throwIfAborted();
  const folder = await DataFolder.take(join(root, isReal ? DATA_FOLDERS.real : DATA_FOLDERS.demo));
  stops.push(() => folder.release());
  printEntry('Data', folder.path);
  const server = await startServer(options, folder, program);
  const { address, namespace, uiUrl = '' } = server;
  folder.tellPlace({ address, serverPid: server.pid, taskQueue, webUiUrl: uiUrl });
  const jobs = await connectJobs(options, server);
  signal.throwIfAborted();
  const snapshotsUrl = (isReal && env['SNAPSHOTS_URL']) || pathToFileURL(folder.file('snapshots')).href;
  const upstream = isReal ? realUpstreamEnvironment(env) : await startDemoSandbox(options, folder);
  signal.throwIfAborted();
  const profileFile = folder.file('temporal.toml');
  writeFileSync(profileFile, '[profile.default]\n');
  const temporal = localTemporalEnvironment(server, profileFile, taskQueue);
  const logFile = folder.file('worker.log');
  const onRestart = (how: string) => printEntry('Worker', `ended (${how}); it is started again`);
  const workerEnv = { SNAPSHOTS_URL: snapshotsUrl, ...upstream, ...temporal };
  const stopGraceMs = isReal ? STOP_GRACE_MS.real : STOP_GRACE_MS.sandbox;
  await startWorker({ env: workerEnv, logFile, stopGraceMs, onRestart }, stops);
  printEntry('Worker', `ready; it logs to ${logFile}`);
  signal.throwIfAborted();
  const httpUrl = await startHttp(options, jobs);
  return { address, taskQueue, webUi: { url: uiUrl, namespace }, jobs, httpUrl, snapshotsUrl, profileFile };
}

async function startServer(
  { taskQueue, signal, onServerEnd, stops }: LocalSystemOptions,
  folder: DataFolder,
  program: string,
): Promise<DevServer> {
  const logFile = folder.file('temporal.log');
  const preferred = { preferredPort: PORTS.temporal, preferredUiPort: PORTS.webUi };
  const databaseFile = folder.file('temporal.db');
  const server = await startDevServer({ program, databaseFile, logFile, ui: true, ...preferred });
  stops.push(server.stop);
  void server.ended.then((how) => signal.aborted || onServerEnd(how, logFile));
  printEntry('Temporal', `${server.address}, namespace ${server.namespace}, task queue ${taskQueue}`);
  return server;
}

async function connectJobs(
  { env, taskQueue, stops }: LocalSystemOptions,
  { address, namespace }: DevServer,
): Promise<AgentJobs> {
  // As the worker reads it: the demo job's caller encrypts with the same keys.
  const keysFile = env['PAYLOAD_KEYS_FILE']?.trim();
  const dataConverter = { payloadCodecs: keysFile ? [openPayloadCodec(keysFile)] : [] };
  const { client, close } = await connectClient({ address, namespace, dataConverter });
  stops.push(close);
  return new AgentJobs({ client, taskQueue });
}

async function startDemoSandbox({ env, stops }: LocalSystemOptions, folder: DataFolder): Promise<Environment> {
  const dataFile = folder.file('sandbox.jsonl');
  const start = (port: number) => startSandbox({ port, dataFile, script: DEMO_SCRIPT });
  const sandbox = await startOnFreePort(PORTS.sandbox, start);
  stops.push(() => sandbox.close());
  printEntry('Sandbox', `${sandbox.url}, a stand-in for the upstream: no real job is made`);
  const { PATH, PAYLOAD_KEYS_FILE } = env;
  // With a limit each read is an attempt of its own: after `kill -9` no longer one has to time out.
  const UPSTREAM_REQUESTS_PER_SECOND = '100';
  const upstream = { UPSTREAM_BASE_URL: sandbox.url, ADMIN_API_KEY: sandbox.apiKey, UPSTREAM_REQUESTS_PER_SECOND };
  return { PATH, PAYLOAD_KEYS_FILE, ...upstream };
}

async function startHttp({ stops }: LocalSystemOptions, jobs: AgentJobs): Promise<string> {
  const onProblem = (problem: string) => printEntry('HTTP', problem);
  const service = { connect: () => Promise.resolve(jobs), keys: null, version: 'local', onProblem };
  const http = await startOnFreePort(PORTS.http, (port) => HttpServer.listen(service, { host: '127.0.0.1', port }));
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

/** What the commands to try next depend on besides. */
interface NextStepsOptions {
  /** The demo job; undefined where jobs are real. */
  workflowId: string | undefined;
  /** Settings of the user's shell that would lead the commands to another server. */
  unset: readonly string[];
  /** Whether the user has a Temporal profile, which may lead elsewhere. */
  hasProfile: boolean;
}

/** Commands to try next, each one line that runs as it is from the project's folder. */
export function nextSteps(system: LocalSystem, { workflowId, unset, hasProfile }: NextStepsOptions): string[] {
  const { address, taskQueue, httpUrl, snapshotsUrl, profileFile } = system;
  const profile = hasProfile ? [`TEMPORAL_CONFIG_FILE=${shellWord(profileFile)}`] : [];
  const changes = [...unset.map((name) => `-u ${name}`), ...profile];
  const prefix = changes.length > 0 ? `env ${changes.join(' ')} ` : '';
  const queue = taskQueue === DEFAULT_TASK_QUEUE ? '' : ` --task-queue ${shellWord(taskQueue)}`;
  const place = `--address ${address}${queue}`;
  const cli = (command: string) => `${prefix}npx agent-jobs ${command} ${place}`;
  const project = workflowId === undefined ? 'YOUR_PROJECT_ID' : 'demo';
  const demo = workflowId === undefined ? undefined : shellWord(workflowId);
  return [
    cli(`start 'Add a page about pricing' --project ${project} --wait`),
    ...(demo === undefined ? [] : [cli(`follow-up ${demo} 'Now in French, too' --wait`), cli(`state ${demo}`)]),
    cli('list'),
    cli(`export run --project ${project}`),
    `SNAPSHOTS_URL=${shellWord(snapshotsUrl)} npx agent-jobs report --project ${project}`,
    `curl --noproxy '*' ${httpUrl}/v1/projects/${project}/jobs -H 'Content-Type: application/json' ` +
      `-H 'Idempotency-Key: faq' -d '{"prompt": "Add a page of questions"}'`,
    `python3 -m pip install temporalio && ${prefix}TEMPORAL_ADDRESS=${address} AGENT_JOBS_TASK_QUEUE=` +
      `${shellWord(taskQueue)} python3 examples/python/start_job.py ${project}`,
  ];
}
