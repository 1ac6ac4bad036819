import { ParentClosePolicy, startChild, type ChildWorkflowCancellationType } from '@temporalio/workflow';
import { AGENT_JOB_WORKFLOW, type AgentJobInput, type AgentJobResult } from '../../../src/contract.js';
import { agentJobStartOptions } from '../../../src/agent-job/start-options.js';

export interface BuildReleaseInput {
  job: AgentJobInput;
  key: string;
  jobsTaskQueue: string;
  /** End at once and leave the job running. */
  abandon: boolean;
  cancellationType?: ChildWorkflowCancellationType;
}

/** Another service's workflow that has an agent job done. */
export async function buildRelease(input: BuildReleaseInput): Promise<AgentJobResult | string> {
  const { job, key, jobsTaskQueue, abandon, cancellationType } = input;
  const child = await startChild<(input: AgentJobInput) => Promise<AgentJobResult>>(AGENT_JOB_WORKFLOW, {
    ...agentJobStartOptions(job, { key, taskQueue: jobsTaskQueue }),
    parentClosePolicy: abandon ? ParentClosePolicy.ABANDON : ParentClosePolicy.REQUEST_CANCEL,
    ...(cancellationType === undefined ? {} : { cancellationType }),
  });
  return abandon ? child.workflowId : await child.result();
}
