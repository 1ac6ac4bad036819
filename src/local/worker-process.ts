/** The production worker in a process of its own, and which settings of the user's shell it gets. */
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Environment } from '../config.js';
import { freePort, type ManagedProcess, startProcess, type Stops } from './child-process.js';
import type { DevServer } from './dev-server.js';

/** How to run the worker. */
interface WorkerProcessOptions {
  /** Everything the worker gets, but its health address. */
  env: Environment;
  logFile: string;
  /** How long it may take to end; then it is killed. */
  stopGraceMs: number;
  /** Called when the worker ended by itself, or was killed, and is started again. */
  onRestart?: (how: string) => void;
}

const READY_TIME_LIMIT_MS = 60_000;
const RESTART_AFTER_MS = 1_000;

/**
 * Starts the worker, waits until it is ready, and starts it again whenever it ends; throws with its last words if it
 * ends before it is ready.
 */
export async function startWorker(options: WorkerProcessOptions, stops: Stops): Promise<void> {
  let isStopping = false;
  let child: ManagedProcess | undefined;
  const start = async () => {
    const healthAddress = `127.0.0.1:${await freePort()}`;
    child = await startProcess({
      program: process.execPath,
      args: [fileURLToPath(new URL('../worker.js', import.meta.url))],
      env: { ...options.env, HEALTH_ADDRESS: healthAddress },
      logFile: options.logFile,
    });
    if (isStopping) return child.stop(0);
    await untilReady(child, healthAddress, options.logFile);
  };
  const supervise = async () => {
    let how = await child!.ended;
    while (!isStopping) {
      await child!.stop(0);
      options.onRestart?.(how);
      await delay(RESTART_AFTER_MS);
      if (isStopping) return;
      how = await start().then(() => child!.ended, String);
    }
  };
  stops.push(() => {
    isStopping = true;
    return child?.stop(options.stopGraceMs);
  });
  await start();
  void supervise();
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
