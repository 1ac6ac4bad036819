import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Environment } from '../config.js';
import { freePort, type ManagedProcess, startProcess } from './child-process.js';
import type { DevServer } from './dev-server.js';

/** How to run the worker. */
interface WorkerProcessOptions {
  /** Everything the worker gets, but its health address. */
  env: Environment;
  logFile: string;
  /** How long it may take to end; then it is killed. */
  stopGraceMs: number;
  /** Called with the id of each process that runs the worker. */
  onProcess: (pid: number) => void;
  /** Called when the worker ended by itself, or was killed, and is started again. */
  onRestart: (how: string) => void;
}

const READY_TIME_LIMIT_MS = 60_000;
const RESTART_AFTER_MS = 1_000;

/** The production worker in a process of its own, started again whenever it ends. */
export class WorkerProcess {
  readonly #options: WorkerProcessOptions;
  #process: ManagedProcess | undefined;
  #isStopping = false;

  constructor(options: WorkerProcessOptions) {
    this.#options = options;
  }

  /** Starts the worker and waits until it is ready; throws with its last words where it ends before. */
  async start(): Promise<void> {
    const { env, logFile, onProcess } = this.#options;
    const healthAddress = `127.0.0.1:${await freePort()}`;
    const program = fileURLToPath(new URL('../worker.js', import.meta.url));
    const child = await startProcess({
      program: process.execPath,
      args: [program],
      env: { ...env, HEALTH_ADDRESS: healthAddress },
      logFile,
    });
    this.#process = child;
    if (this.#isStopping) return child.stop(0); // it came too late for whoever stopped the others
    onProcess(child.pid);
    await untilReady(child, healthAddress, logFile);
    void this.#superviseUntilStopped(child);
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#process?.stop(this.#options.stopGraceMs);
  }

  async #superviseUntilStopped(child: ManagedProcess): Promise<void> {
    let how = await child.ended;
    await child.stop(0);
    while (!this.#isStopping) {
      this.#options.onRestart(how);
      await delay(RESTART_AFTER_MS);
      if (this.#isStopping) return;
      try {
        return await this.start();
      } catch (error) {
        how = String(error);
      }
    }
  }
}

async function untilReady(child: ManagedProcess, healthAddress: string, logFile: string): Promise<void> {
  const deadline = Date.now() + READY_TIME_LIMIT_MS;
  while (!(await isReady(healthAddress))) {
    if (!child.hasEnded() && Date.now() < deadline) {
      await delay(100);
      continue;
    }
    const why = child.hasEnded() ? `ended with ${await child.ended}` : 'was not ready in time';
    await child.stop(0);
    throw new Error(`The worker ${why}; its last words (${logFile}):\n${child.logTail()}`);
  }
}

async function isReady(healthAddress: string): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(2_000);
    return (await fetch(`http://${healthAddress}/readyz`, { signal, headers: { connection: 'close' } })).ok;
  } catch {
    return false;
  }
}

const KEYS = /^(ADMIN_API_KEY|ADMIN_API_KEY_FILE|PROJECT_KEYS_FILE)$/;
const TEMPORAL = /^TEMPORAL_(?!CLI_PATH$)/;
const SANDBOX_REPLACES = /^(UPSTREAM_.*|SNAPSHOTS_URL|\w+_PER_HOUR|PROJECT_BUDGETS_FILE|CONFIRM_WRITES_BEFORE)$/;
/** `npm start` sets them for the worker, or they are of no use beside the local server. */
const WORKER = /^(WORKER_ROLES|HEALTH_ADDRESS|METRICS_ADDRESS|LOG_FORMAT)$/;

/** The names of the settings that point the production worker somewhere and must not point the local one there. */
export function ignoredSettings(env: Environment, isReal: boolean): string[] {
  const isIgnored = (name: string) =>
    TEMPORAL.test(name) || WORKER.test(name) || (!isReal && (KEYS.test(name) || SANDBOX_REPLACES.test(name)));
  return Object.keys(env)
    .filter((name) => env[name] && isIgnored(name))
    .sort();
}

/** The Temporal settings of the user's shell that a command for the local server must not see. */
export function foreignTemporalSettings(env: Environment): string[] {
  return ignoredSettings(env, true).filter((name) => TEMPORAL.test(name));
}

/** All that the user set for real jobs, but what would lead the worker to another Temporal server. */
export function realUpstreamEnvironment(env: Environment): Environment {
  const ignored = ignoredSettings(env, true);
  return Object.fromEntries(Object.entries(env).filter(([name, value]) => value && !ignored.includes(name)));
}

/** What leads the worker to the local server; the profile is an empty one, since the user's own may lead elsewhere. */
export function localTemporalEnvironment(
  { address, namespace }: Pick<DevServer, 'address' | 'namespace'>,
  profileFile: string,
  taskQueue: string,
): Environment {
  return {
    TEMPORAL_ADDRESS: address,
    TEMPORAL_NAMESPACE: namespace,
    TEMPORAL_CONFIG_FILE: profileFile,
    AGENT_JOBS_TASK_QUEUE: taskQueue,
    LOG_FORMAT: 'text',
  };
}
