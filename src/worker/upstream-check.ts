/** Whether the upstream answers and takes the key, as `doctor` and `npm start -- --real` print it. */
import { ConfigError, readUpstreamConfig } from '../config.js';
import { createUpstream } from '../upstream/client.js';
import { ReadFailedError, RejectedError } from '../upstream/errors.js';
import { createKeySource } from '../upstream/keys.js';

/** A project and a job that do not exist: the question is only whether anything answers, and takes the key. */
const NONE = 'agent-jobs-setup';

/** What came of asking, as printed. */
export interface UpstreamFinding {
  finding: 'answers' | 'notAsked' | 'fails';
  text: string;
}

/** Asks for a job that is not there, within `maxMs` or UPSTREAM_TIMEOUT. Any answer but a refused key will do. */
export async function checkUpstream(projectId?: string, maxMs = Infinity): Promise<UpstreamFinding> {
  let config;
  try {
    config = readUpstreamConfig();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const isUnset = error.problems.some(
      ({ variable, problem }) => variable === 'UPSTREAM_BASE_URL' && /missing/.test(problem),
    );
    if (!isUnset) return { finding: 'fails', text: error.message };
    return { finding: 'notAsked', text: 'not checked: UPSTREAM_BASE_URL is not set here' };
  }
  const { adminApiKey, adminApiKeyFile } = config.keys;
  if (projectId === undefined && !adminApiKey && !adminApiKeyFile) {
    return { finding: 'notAsked', text: 'not checked: only projects have keys; name one with --project' };
  }
  const { baseUrl } = config;
  const timeoutMs = Math.min(config.timeoutMs, maxMs);
  const upstream = createUpstream({ ...config, timeoutMs, keys: createKeySource(config.keys) });
  try {
    await upstream.getJob({ projectId: projectId ?? NONE, jobId: NONE });
    return { finding: 'answers', text: `${baseUrl} answers` };
  } catch (error) {
    if (error instanceof RejectedError) return { finding: 'answers', text: `${baseUrl} answers` };
    const text = `${baseUrl}: ${(error as Error).message}`;
    // A page is not the upstream's answer.
    const status = (error instanceof ReadFailedError && !error.isPage && error.status) || 0;
    if (status === 401 || status === 403) {
      const advice = 'check the key (ADMIN_API_KEY, ADMIN_API_KEY_FILE or PROJECT_KEYS_FILE)';
      return { finding: 'fails', text: `${text}; ${advice}` };
    }
    // A 429 is an answer, and so is a 400 to such an id. A 5xx and silence are not what a worker needs.
    return { finding: status >= 400 && status < 500 ? 'answers' : 'fails', text };
  } finally {
    await upstream.close();
  }
}
