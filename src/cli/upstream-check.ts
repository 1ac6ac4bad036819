import { ConfigError, readUpstreamConfig } from '../config.js';
import { createUpstream } from '../upstream/client.js';
import { ReadFailedError, RejectedError } from '../upstream/errors.js';
import { createKeySource } from '../upstream/keys.js';

/** Nobody's project and job: the question is only whether somebody answers, and takes the key. */
const NOBODY = 'agent-jobs-setup';

/** How the upstream answered, as printed. */
export interface UpstreamVerdict {
  text: string;
  isWrong: boolean;
}

/** Asks the upstream for a job that is not there, which changes nothing; any answer but a refused key will do. */
export async function checkUpstream(projectId?: string): Promise<UpstreamVerdict> {
  let config;
  try {
    config = readUpstreamConfig();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const isUnset = error.problems.some(
      ({ variable, problem }) => variable === 'UPSTREAM_BASE_URL' && isMissing(problem),
    );
    return { text: isUnset ? 'not checked: UPSTREAM_BASE_URL is not set here' : error.message, isWrong: !isUnset };
  }
  const { adminApiKey, adminApiKeyFile } = config.keys;
  if (projectId === undefined && !adminApiKey && !adminApiKeyFile)
    return { text: 'not checked: only projects have keys; name one with --project', isWrong: false };
  const upstream = createUpstream({ ...config, keys: createKeySource(config.keys) });
  try {
    await upstream.getJob({ projectId: projectId ?? NOBODY, jobId: NOBODY });
    return answers(config.baseUrl);
  } catch (error) {
    if (error instanceof RejectedError) return answers(config.baseUrl);
    return { text: `${config.baseUrl}: ${(error as Error).message}${adviceOn(error)}`, isWrong: !isAnswer(error) };
  } finally {
    await upstream.close();
  }
}

function answers(baseUrl: string): UpstreamVerdict {
  return { text: `${baseUrl} answers`, isWrong: false };
}

/** A 429 is an answer, and a 400 to such an id; a refused key, a 5xx and silence are not what a worker needs. */
function isAnswer(error: unknown): boolean {
  const status = statusOf(error);
  return status >= 400 && status < 500 && !isRefused(error);
}

function isRefused(error: unknown): boolean {
  return statusOf(error) === 401 || statusOf(error) === 403;
}

function statusOf(error: unknown): number {
  return (error instanceof ReadFailedError && error.status) || 0;
}

function adviceOn(error: unknown): string {
  return isRefused(error) ? '; check the key (ADMIN_API_KEY, ADMIN_API_KEY_FILE or PROJECT_KEYS_FILE)' : '';
}

function isMissing(problem: string): boolean {
  return /missing/.test(problem);
}
