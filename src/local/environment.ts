import type { Environment } from '../config.js';
import type { DevServer } from './dev-server.js';

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
