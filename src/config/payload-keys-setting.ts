/** Which file holds the keys of payloads: a setting of workers and the command line, `PAYLOAD_KEYS_FILE`. */
import { present, type Environment } from './client.js';
import { ConfigError, readableByAllWarning, type ConfigProblem } from './config-error.js';
import { PayloadKeys, payloadKeysProblem } from './payload-keys.js';

const VARIABLE = 'PAYLOAD_KEYS_FILE';

/** What is wrong with the file of keys, where the environment names one; never with a value of it. */
export function payloadKeysProblems(env: Record<string, string>): ConfigProblem[] {
  const path = env[VARIABLE];
  const problem = path === undefined ? null : payloadKeysProblem(path);
  return problem === null ? [] : [{ variable: VARIABLE, problem }];
}

/** The keys that the environment names, for the command line; undefined without. Throws ConfigError. */
export function readPayloadKeys(environment: Environment = process.env): PayloadKeys | undefined {
  const env = present(environment);
  const problems = payloadKeysProblems(env);
  if (problems.length > 0) throw new ConfigError(problems);
  return openPayloadKeys(env[VARIABLE]);
}

/** The keys of the file that a setting names; undefined without one. */
export function openPayloadKeys(path: string | undefined): PayloadKeys | undefined {
  return path === undefined ? undefined : new PayloadKeys(path);
}

/** Warns of a file of keys that shows them to others; never with a value. */
export function payloadKeysWarnings(path: string | undefined): string[] {
  return readableByAllWarning(VARIABLE, path);
}
