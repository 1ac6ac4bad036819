/**
 * Skips the time of one workflow on the dev server: whenever nothing of it is under way, its next timer or retry is due
 * at once. Other workflows, its children apart, keep their time.
 */
import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import ms, { type StringValue } from 'ms';

const MAX_SKIPS = 10_000; // else the server stops after a hundred

type Workflow = Pick<WorkflowHandle, 'client' | 'workflowId'>;

/** From now on, over its continue-as-new, to its end. */
export async function skipTime(workflow: Workflow): Promise<void> {
  await configure(workflow, {});
}

/** Skips this much of its time, then no more. */
export async function skipTimeBy(workflow: Workflow, duration: StringValue): Promise<void> {
  const id = randomUUID();
  const { client, workflowId } = workflow;
  await configure(workflow, { fastForwardConfig: { id, duration: { seconds: (ms(duration) / 1_000) as never } } });
  const { namespace } = client.options;
  for (;;) {
    const { fastForwardInfo, failedReason } = await client.workflowService.pollWorkflowExecutionTimeSkipping({
      namespace,
      workflowExecution: { workflowId },
      fastForwardId: id,
    });
    if (failedReason) throw new Error(`no time was skipped: ${failedReason}`);
    if (fastForwardInfo?.hasCompleted) return;
  }
}

async function configure({ client, workflowId }: Workflow, more: object): Promise<void> {
  await client.workflowService.updateWorkflowExecutionOptions({
    namespace: client.options.namespace,
    workflowExecution: { workflowId },
    workflowExecutionOptions: { timeSkippingConfig: { enabled: true, maxSessionSkipCount: MAX_SKIPS, ...more } },
    updateMask: { paths: ['time_skipping_config'] },
  });
}
