/** The check of `doctor` whether the newest jobs are encrypted as the settings here say. */
import type { Client } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import type { Finding } from './doctor-check.js';
import { KEYS_HINT } from './keys-hint.js';

const NEWEST = 100;
const PLAIN_REMEDY = 'give their callers a codec: docs/encryption.md; jobs from before the keys stay as they are';
const WORKERS_REMEDY = 'the workers need the same keys: "agent-jobs attention" lists jobs that wait for one';

/** A job, and whether what its caller wrote beside it is encrypted. */
interface LookedAt {
  workflowId: string;
  isEncrypted: boolean;
  /** Why it can't be decrypted with the keys that are here. */
  problems: readonly string[];
}

interface Looked {
  hasKeys: boolean;
  warnings: readonly string[];
  jobs: readonly LookedAt[];
}

/** Whether callers and this place agree, also on the keys; reads the memos of one page of a list, and no history. */
export async function checkEncryption(client: Client, taskQueue: string): Promise<Finding> {
  const { processEnvironment, payloadKeysWarnings } = await import('../config.js');
  const path = processEnvironment['PAYLOAD_KEYS_FILE']?.trim();
  const jobs = await newestJobs(client, taskQueue);
  return encryptionFinding({ hasKeys: Boolean(path), warnings: payloadKeysWarnings(path || undefined), jobs });
}

async function newestJobs(client: Client, taskQueue: string): Promise<LookedAt[]> {
  const { isEncrypted } = await import('../temporal/payload-codec.js');
  const { quoted } = await import('../client/visibility-query.js');
  const { AGENT_JOB_WORKFLOW } = await import('../contract.js');
  const { namespace } = client.options;
  const query = `WorkflowType = '${AGENT_JOB_WORKFLOW}' AND TaskQueue = ${quoted(taskQueue)}`;
  const { executions } = await client.workflowService.listWorkflowExecutions({ namespace, pageSize: NEWEST, query });
  const jobs = executions.map(async ({ execution, memo }) => {
    const payloads = Object.values(memo?.fields ?? {});
    if (payloads.length === 0) return [];
    const problems = await problemsOf(client, payloads);
    return [{ workflowId: execution?.workflowId ?? '', isEncrypted: payloads.every(isEncrypted), problems }];
  });
  return (await Promise.all(jobs)).flat();
}

/** Why what is encrypted can not be decrypted here, each reason once: it names the id of a key. */
async function problemsOf({ options }: Client, payloads: readonly Payload[]): Promise<string[]> {
  const problems = new Set<string>();
  for (const codec of options.loadedDataConverter.payloadCodecs) {
    for (const payload of payloads) {
      await codec.decode([payload]).catch((error: Error) => problems.add(error.message));
    }
  }
  return [...problems];
}

/** What the newest jobs tell. */
export function encryptionFinding({ hasKeys, warnings, jobs }: Looked): Finding {
  if (!hasKeys) return findingWithoutKeys(jobs);
  const lost = jobs.filter(({ problems }) => problems.length > 0);
  const plain = jobs.filter(({ isEncrypted }) => !isEncrypted);
  const texts = [...countText('can not be decrypted', lost, jobs), ...countText('not encrypted', plain, jobs)];
  const remedy = [...keysRemedy(lost), ...(plain.length > 0 ? [PLAIN_REMEDY] : []), ...warnings];
  if (texts.length > 0) return { status: 'warn', text: texts.join('\n'), remedy };
  if (warnings.length > 0) return { status: 'warn', text: 'others can read the keys', remedy };
  return { status: 'ok', text: 'PAYLOAD_KEYS_FILE has usable keys, and no new job is plain' };
}

function findingWithoutKeys(jobs: readonly LookedAt[]): Finding {
  const encrypted = jobs.filter(({ isEncrypted }) => isEncrypted);
  const [text] = countText('encrypted', encrypted, jobs);
  if (text !== undefined) return { status: 'warn', text, remedy: [KEYS_HINT] };
  return { status: 'skip', text: 'off: PAYLOAD_KEYS_FILE is not set here' };
}

/** None where there are no such jobs. */
function countText(what: string, such: readonly LookedAt[], jobs: readonly LookedAt[]): string[] {
  const [first] = such;
  return first ? [`${what}: ${such.length} of the newest ${jobs.length} jobs, such as ${first.workflowId}`] : [];
}

function keysRemedy(lost: readonly LookedAt[]): string[] {
  const problems = new Set(lost.flatMap((job) => job.problems));
  return problems.size === 0 ? [] : [...problems, WORKERS_REMEDY];
}
