import { sleep } from '@temporalio/workflow';
import { agentJob as agentJobBefore } from '../../../src/workflows/index.js';
import type { AgentJobInput, AgentJobResult } from '../../../src/contract.js';

export { requestQueue, visitorExport } from '../../../src/workflows/index.js';

/** A later release whose workflow code replays no history of the release before: it begins with a timer. */
export async function agentJob(input: AgentJobInput): Promise<AgentJobResult> {
  await sleep(1);
  return agentJobBefore(input);
}
