import { ConfigError, readUpstreamConfig } from '../config.js';
import { createUpstream } from '../upstream/client.js';
import { ReadFailedError, RejectedError } from '../upstream/errors.js';
import { createKeySource } from '../upstream/keys.js';

/** Nobody's project and job: the question is only whether somebody answers, and takes the key. */
const NOBODY = 'agent-jobs-setup';

export interface UpstreamVerdict {
  text: string;
  isWrong: boolean;
}

/** Asks the upstream for a job that is not there, which changes nothing; any answer but a refused key will do. */
export async function checkUpstream(projectId: string = NOBODY): Promise<UpstreamVerdict> {
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
  const upstream = createUpstream({ ...config, keys: createKeySource(config.keys) });
  try {
    await upstream.getJob({ projectId, jobId: NOBODY });
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

/** A 429 is an answer; a refused key, a 5xx and silence are not what a worker needs. */
function isAnswer(error: unknown): boolean {
  return error instanceof ReadFailedError && error.status === 429;
}

function adviceOn(error: unknown): string {
  const isRefused = error instanceof ReadFailedError && (error.status === 401 || error.status === 403);
  return isRefused ? '; check the key (ADMIN_API_KEY, ADMIN_API_KEY_FILE or PROJECT_KEYS_FILE)' : '';
}

function isMissing(problem: string): boolean {
  return /missing/.test(problem);
}
