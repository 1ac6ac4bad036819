/** The check of `doctor` whether the newest jobs are encrypted as the settings here say. */
import type { Client } from '@temporalio/client';
import type { Finding } from './doctor-check.js';

const NEWEST = 100;

/** A job, and whether what its caller wrote beside it is encrypted. */
interface LookedAt {
  workflowId: string;
  isEncrypted: boolean;
}

/** Whether callers and this place agree; reads the memos of one page of a list, and no history. */
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
  return executions.flatMap(({ execution, memo }) => {
    const payloads = Object.values(memo?.fields ?? {});
    if (payloads.length === 0) return [];
    return [{ workflowId: execution?.workflowId ?? '', isEncrypted: payloads.every(isEncrypted) }];
  });
}

/** What the newest jobs tell. */
export function encryptionFinding({
  hasKeys,
  warnings,
  jobs,
}: {
  hasKeys: boolean;
  warnings: readonly string[];
  jobs: readonly LookedAt[];
}): Finding {
  const odd = jobs.filter(({ isEncrypted }) => isEncrypted !== hasKeys);
  const [first] = odd;
  const count = `${odd.length} of the newest ${jobs.length} jobs, such as ${first?.workflowId}`;
  if (!hasKeys && first) {
    return { status: 'warn', text: `encrypted: ${count}`, remedy: ['set PAYLOAD_KEYS_FILE here and for the workers'] };
  }
  if (!hasKeys) return { status: 'skip', text: 'off: PAYLOAD_KEYS_FILE is not set here' };
  if (first) {
    const remedy = ['give their callers a codec: docs/encryption.md; jobs from before the keys stay as they are'];
    return { status: 'warn', text: `not encrypted: ${count}`, remedy: [...remedy, ...warnings] };
  }
  if (warnings.length > 0) return { status: 'warn', text: 'others can read the keys', remedy: warnings };
  return { status: 'ok', text: 'PAYLOAD_KEYS_FILE has usable keys, and no new job is plain' };
}
