/** Whether the upstream answers and takes the key, as operators are told. */
import { ConfigError, readUpstreamConfig } from '../config.js';
import { createUpstream } from '../upstream/client.js';
import { ReadFailedError, RejectedError } from '../upstream/errors.js';
import { createKeySource } from '../upstream/keys.js';

/** A project and a job that do not exist: the question is only whether a server answers, and takes the key. */
const NOBODY = 'agent-jobs-setup';

/** What came of asking: it answers, it was not asked, a setting is wrong, it refuses the key, or it does not answer. */
type UpstreamFinding = 'answers' | 'notAsked' | 'wrongSettings' | 'keyRefused' | 'fails';

/** How the upstream answered, as printed. */
export interface UpstreamVerdict {
  finding: UpstreamFinding;
  text: string;
  isWrong: boolean;
}

/**
 * Asks the upstream for a job that is not there, which changes nothing; any answer but a refused key will do. It has
 * `mostMs`, or less where UPSTREAM_TIMEOUT says so.
 */
export async function checkUpstream(projectId?: string, mostMs = Infinity): Promise<UpstreamVerdict> {
  let config;
  try {
    config = readUpstreamConfig();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const isUnset = error.problems.some(
      ({ variable, problem }) => variable === 'UPSTREAM_BASE_URL' && isMissing(problem),
    );
    if (!isUnset) return { finding: 'wrongSettings', text: error.message, isWrong: true };
    return { finding: 'notAsked', text: 'not checked: UPSTREAM_BASE_URL is not set here', isWrong: false };
  }
  const { adminApiKey, adminApiKeyFile } = config.keys;
  if (projectId === undefined && !adminApiKey && !adminApiKeyFile) {
    return {
      finding: 'notAsked',
      text: 'not checked: only projects have keys; name one with --project',
      isWrong: false,
    };
  }
  const timeoutMs = Math.min(config.timeoutMs, mostMs);
  const upstream = createUpstream({ ...config, timeoutMs, keys: createKeySource(config.keys) });
  try {
    await upstream.getJob({ projectId: projectId ?? NOBODY, jobId: NOBODY });
    return answers(config.baseUrl);
  } catch (error) {
    if (error instanceof RejectedError) return answers(config.baseUrl);
    const text = `${config.baseUrl}: ${(error as Error).message}${adviceOn(error)}`;
    if (isAnswer(error)) return { finding: 'answers', text, isWrong: false };
    return { finding: isKeyTrouble(error) ? 'keyRefused' : 'fails', text, isWrong: true };
  } finally {
    await upstream.close();
  }
}

function answers(baseUrl: string): UpstreamVerdict {
  return { finding: 'answers', text: `${baseUrl} answers`, isWrong: false };
}

/** A 429 is an answer, and a 400 to such an id; a refused key, a 5xx and silence are not what a worker needs. */
function isAnswer(error: unknown): boolean {
  const status = statusOf(error);
  return status >= 400 && status < 500 && !isRefused(error);
}

/** Refused, or there is none to send: a key file that can't be read, or has none for the project. */
function isKeyTrouble(error: unknown): boolean {
  return isRefused(error) || (error as Error).name === 'KeyUnavailableError';
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
