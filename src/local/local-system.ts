/** What `npm start` runs, in which order it starts and ends, and what happens when a part dies. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { printableLines } from '../agent-job/terminal-text.js';
import { shellWord } from '../agent-job/waiting-text.js';
import { channelArgsFor } from '../client/connection.js';
import { type Environment, readClientConfig } from '../config.js';
import { DEFAULT_TASK_QUEUE } from '../contract.js';
import { HttpServer } from '../http/server.js';
import { startSandbox } from '../sandbox/sandbox.js';
import { AgentJobs } from '../starter.js';
import { openPayloadCodec } from '../starter/codec.js';
import { startOnFreePort } from './child-process.js';
import { DataFolder, type ProcessIdentity } from './data-folder.js';
import { DEMO_SCRIPT } from './demo-job.js';
import { type DevServer, startDevServer } from './dev-server.js';
import { findDevServer } from './fetched-program.js';
import { stateFolder } from './user-folders.js';
import { localTemporalEnvironment, realUpstreamEnvironment, WorkerProcess } from './worker-process.js';

/** What the local system is composed of. */
interface LocalSystemOptions {
  env: Environment;
  output: Output;
  /** Against the real upstream of the environment, without a sandbox. */
  isReal: boolean;
  /** npm, where it started this process. */
  parent: ProcessIdentity | undefined;
  /** Aborts a start when the user ends it. */
  signal: AbortSignal;
  /** Called when the Temporal server ended by itself, or was killed. */
  onServerEnd: (how: string) => void;
}

const TEMPORAL_PORT = 7233;
const WEB_UI_PORT = 8233;
const SANDBOX_PORT = 8234;
const HTTP_PORT = 8080;
/** No request to the sandbox takes longer than the first; a real write in flight gets the time that it needs. */
const STOP_GRACE_MS = { sandbox: 4_000, real: 26_000 };

/** A Temporal dev server, a worker and, unless jobs are real, a sandbox upstream, all of one data folder. */
export class LocalSystem {
  readonly #options: LocalSystemOptions;
  readonly #stops: (() => unknown)[] = [];
  readonly taskQueue: string;
  #folder!: DataFolder;
  #server!: DevServer;
  #jobs!: AgentJobs;
  /** Where the jobs are served over HTTP, on this machine alone. */
  httpUrl = '';

  constructor(options: LocalSystemOptions) {
    this.#options = options;
    this.taskQueue = readClientConfig({ AGENT_JOBS_TASK_QUEUE: options.env['AGENT_JOBS_TASK_QUEUE'] }).taskQueue;
  }

  /** Whether anything runs that has to be stopped. */
  get isUp(): boolean {
    return this.#stops.length > 0;
  }

  get server(): DevServer {
    return this.#server;
  }

  get jobs(): AgentJobs {
    return this.#jobs;
  }

  /** Where the file lies that remembers the demo job. */
  get demoFile(): string {
    return this.#folder.file('demo-job.json');
  }

  /** Where the Temporal server logs. */
  get serverLog(): string {
    return this.#folder.file('temporal.log');
  }

  /** Where the worker puts its snapshots. */
  get snapshotsUrl(): string {
    const { env, isReal } = this.#options;
    return (isReal && env['SNAPSHOTS_URL']) || pathToFileURL(this.#folder.file('snapshots')).href;
  }

  /** As the worker reads it; the demo job's caller encrypts with the same keys. */
  get #keysFile(): string | undefined {
    return this.#options.env['PAYLOAD_KEYS_FILE']?.trim();
  }

  /** The file of an empty Temporal profile, for the worker and for commands. */
  get profileFile(): string {
    return this.#folder.file('temporal.toml');
  }

  /** Starts one part after the other and tells of each. */
  async start(): Promise<void> {
    const { env, output, isReal, parent, signal } = this.#options;
    const root = join(stateFolder(env, isReal), 'data');
    const name = isReal ? 'real' : 'default';
    const program = await findDevServer({ env, signal, onProgress: (line) => output.line(line) });
    signal.throwIfAborted();
    this.#folder = await DataFolder.acquire(root, name, parent);
    this.#stops.push(() => this.#folder.release());
    output.entry('Data', this.#folder.path);
    await this.#startServer(program);
    signal.throwIfAborted();
    const upstream = isReal ? realUpstreamEnvironment(env) : await this.#startSandbox();
    signal.throwIfAborted();
    await this.#startWorker(upstream);
    signal.throwIfAborted();
    await this.#startHttp();
  }

  /** Ends everything in the reverse order of its start. */
  async stop(): Promise<void> {
    for (let stop = this.#stops.pop(); stop; stop = this.#stops.pop()) await stop();
  }

  async #startServer(program: string): Promise<void> {
    const { output, signal, onServerEnd } = this.#options;
    this.#server = await startDevServer({
      program,
      databaseFile: this.#folder.file('temporal.db'),
      logFile: this.serverLog,
      ui: true,
      preferredPort: TEMPORAL_PORT,
      preferredUiPort: WEB_UI_PORT,
    });
    const { address, namespace, pid, ended } = this.#server;
    this.#folder.addChild(pid);
    this.#stops.push(() => this.#server.stop());
    void ended.then((how) => signal.aborted || onServerEnd(how));
    output.entry('Temporal', `${address}, namespace ${namespace}, task queue ${this.taskQueue}`);
    const connection = await Connection.connect({ address, channelArgs: channelArgsFor(address) });
    this.#stops.push(() => connection.close());
    const dataConverter = { payloadCodecs: this.#keysFile ? [openPayloadCodec(this.#keysFile)] : [] };
    const client = new Client({ connection, namespace, dataConverter });
    this.#jobs = new AgentJobs({ client, taskQueue: this.taskQueue });
  }

  async #startSandbox(): Promise<Environment> {
    const dataFile = this.#folder.file('sandbox.jsonl');
    const sandbox = await startOnFreePort(SANDBOX_PORT, (port) =>
      startSandbox({ port, dataFile, script: DEMO_SCRIPT }),
    );
    this.#stops.push(() => sandbox.close());
    this.#options.output.entry('Sandbox', `${sandbox.url}, a stand-in for the upstream: no real job is made`);
    const { PATH, PAYLOAD_KEYS_FILE } = this.#options.env;
    // With a limit each read is an attempt of its own: after `kill -9` no longer one has to time out.
    const UPSTREAM_REQUESTS_PER_SECOND = '100';
    const upstream = { UPSTREAM_BASE_URL: sandbox.url, ADMIN_API_KEY: sandbox.apiKey, UPSTREAM_REQUESTS_PER_SECOND };
    return { PATH, PAYLOAD_KEYS_FILE, ...upstream };
  }

  async #startWorker(upstream: Environment): Promise<void> {
    const { output, isReal } = this.#options;
    writeFileSync(this.profileFile, '[profile.default]\n');
    const temporal = localTemporalEnvironment(this.#server, this.profileFile, this.taskQueue);
    const worker = new WorkerProcess({
      env: { SNAPSHOTS_URL: this.snapshotsUrl, ...upstream, ...temporal },
      logFile: this.#folder.file('worker.log'),
      stopGraceMs: isReal ? STOP_GRACE_MS.real : STOP_GRACE_MS.sandbox,
      onProcess: (pid) => this.#folder.addChild(pid),
      onRestart: (how) => output.entry('Worker', `ended (${how}); it is started again`),
    });
    this.#stops.push(() => worker.stop());
    await worker.start();
    output.entry('Worker', `ready; it logs to ${this.#folder.file('worker.log')}`);
  }

  async #startHttp(): Promise<void> {
    const { output } = this.#options;
    const onProblem = (problem: string) => output.entry('HTTP', problem);
    const service = { jobs: this.#jobs, keys: null, version: 'local', onProblem };
    const http = await startOnFreePort(HTTP_PORT, (port) => HttpServer.listen(service, { host: '127.0.0.1', port }));
    this.#stops.push(() => http.end());
    this.httpUrl = http.url;
    output.entry('HTTP', `${this.httpUrl}, for this machine alone, without keys`);
  }
}

const LABEL_WIDTH = 12;

/** Prints whole lines: the same on a terminal as in a file, but for bold labels. */
export class Output {
  readonly #isBold: boolean;

  constructor(env: Environment) {
    this.#isBold = process.stdout.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb';
    // A closed pipe must not end this process before its children.
    process.stdout.on('error', () => {});
    process.stderr.on('error', () => {});
  }

  /** A line that begins with a label. */
  entry(label: string, text: string): void {
    const padded = label.padEnd(LABEL_WIDTH);
    this.#write(`${this.#isBold ? `\u001B[1m${padded}\u001B[22m` : padded}${printableLines(text)}`);
  }

  line(text = ''): void {
    this.#write(printableLines(text));
  }

  error(text: string): void {
    process.stderr.write(`${printableLines(text)}\n`);
  }

  #write(text: string): void {
    process.stdout.write(`${text}\n`);
  }
}

/** What the commands to try next depend on. */
interface NextStepsOptions {
  address: string;
  taskQueue: string;
  httpUrl: string;
  /** The demo job; undefined where jobs are real. */
  workflowId?: string | undefined;
  /** Where exports put their snapshots. */
  snapshotsUrl: string;
  /** Settings of the user's shell that would lead the commands to another server. */
  unset: readonly string[];
  /** An empty Temporal profile, for a user who has one that leads elsewhere. */
  profileFile?: string | undefined;
}

/** Commands to try next, each one line that runs as it is from the project's folder. */
export function nextSteps(options: NextStepsOptions): string[] {
  const { address, taskQueue, httpUrl, workflowId, snapshotsUrl, unset, profileFile } = options;
  const profile = profileFile === undefined ? [] : [`TEMPORAL_CONFIG_FILE=${shellWord(profileFile)}`];
  const changes = [...unset.map((name) => `-u ${name}`), ...profile];
  const prefix = changes.length > 0 ? `env ${changes.join(' ')} ` : '';
  const queue = taskQueue === DEFAULT_TASK_QUEUE ? '' : ` --task-queue ${shellWord(taskQueue)}`;
  const place = `--address ${address}${queue}`;
  const cli = (command: string) => `${prefix}npx agent-jobs ${command} ${place}`;
  const project = workflowId === undefined ? 'YOUR_PROJECT_ID' : 'demo';
  return [
    cli(`start 'Add a page about pricing' --project ${project} --wait`),
    ...(workflowId === undefined
      ? [cli('list')]
      : [
          cli(`follow-up ${shellWord(workflowId)} 'Now in French, too' --wait`),
          cli(`state ${shellWord(workflowId)}`),
          cli('list'),
        ]),
    cli(`export run --project ${project}`),
    `npx agent-jobs report --project ${project} --snapshots ${shellWord(snapshotsUrl)}`,
    `curl --noproxy '*' ${httpUrl}/v1/projects/${project}/jobs -H 'Content-Type: application/json' ` +
      `-H 'Idempotency-Key: faq' -d '{"prompt": "Add a page of questions"}'`,
    `python3 -m pip install temporalio && ${prefix}python3 examples/python/start_job.py --project ${project} ${place}`,
  ];
}
