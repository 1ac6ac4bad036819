/** The production worker in a process of its own, led to a local Temporal server. */
import { devNull } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Environment } from '../config.js';
import { checkAnswer, freePort, startProcess, type Stops, untilReady } from './child-process.js';
import type { DevServer } from './dev-server.js';

interface WorkerOptions {
  /** Its settings, but those of Temporal and its health address. */
  env: Environment;
  server: Pick<DevServer, 'address' | 'namespace'>;
  taskQueue: string;
  logFile: string;
  /** How soon the next worker goes on with the polls of one that was killed; default: within five minutes. */
  pollLeaseMs?: number | undefined;
  /** How long it may take to end; then it is killed. */
  stopGraceMs: number;
}

/** Starts the worker and waits until it is ready; throws with its last words if it is not. */
export async function startWorker(options: WorkerOptions, stops: Stops): Promise<{ ended: Promise<string> }> {
  const { env, server, taskQueue, logFile, pollLeaseMs, stopGraceMs } = options;
  const healthAddress = `127.0.0.1:${await freePort()}`;
  const others = Object.entries(env).filter(([name]) => !name.startsWith('TEMPORAL_'));
  const child = await startProcess({
    program: process.execPath,
    args: [fileURLToPath(new URL('../worker.js', import.meta.url)), ...(pollLeaseMs ? [String(pollLeaseMs)] : [])],
    env: {
      ...Object.fromEntries(others),
      TEMPORAL_ADDRESS: server.address,
      TEMPORAL_NAMESPACE: server.namespace,
      // The user's own profile may lead elsewhere.
      TEMPORAL_CONFIG_FILE: devNull,
      AGENT_JOBS_TASK_QUEUE: taskQueue,
      HEALTH_ADDRESS: healthAddress,
      LOG_FORMAT: 'text',
    },
    logFile,
  });
  stops.push(() => child.stop(stopGraceMs));
  await untilReady('The worker', child, () => checkAnswer(`http://${healthAddress}/readyz`));
  return { ended: child.ended };
}
