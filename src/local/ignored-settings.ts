import type { Environment } from '../config.js';

const KEYS = /^(ADMIN_API_KEY|ADMIN_API_KEY_FILE|PROJECT_KEYS_FILE)$/;
const TEMPORAL = /^TEMPORAL_(?!CLI_PATH$)/;
const SANDBOX_REPLACES = /^(UPSTREAM_.*|SNAPSHOTS_URL|EXPORT_REQUESTS_PER_HOUR|CONFIRM_WRITES_BEFORE)$/;
/** Set by us for the worker, or of no use beside the embedded server. */
const WORKER = /^(WORKER_ROLES|HEALTH_ADDRESS|METRICS_ADDRESS|LOG_FORMAT)$/;

/** The names of the settings that point the production worker somewhere and must not point the embedded one there. */
export function ignoredSettings(env: Environment, isReal: boolean): string[] {
  const isIgnored = (name: string) =>
    TEMPORAL.test(name) || WORKER.test(name) || (!isReal && (KEYS.test(name) || SANDBOX_REPLACES.test(name)));
  return Object.keys(env)
    .filter((name) => env[name] && isIgnored(name))
    .sort();
}

/** The Temporal settings of the user's shell that a command for the embedded server must not see. */
export function foreignTemporalSettings(env: Environment): string[] {
  return ignoredSettings(env, true).filter((name) => TEMPORAL.test(name));
}
